#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/error.h"

namespace cleave {

// A parse error at a byte offset of the text that was parsed. The owner of the text turns the
// offset into file:line:column with a caret.
class ParseError : public UserError {
 public:
  ParseError(size_t offset, const std::string& message) : UserError(message), offset(offset) {}
  size_t offset;
};

// Reads small attribute syntaxes (meshes, shardings, rules) from a position inside a larger text,
// so that the parser of modules and the command line share them. White space between tokens is
// skipped.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text, size_t pos = 0) : text_(text), pos_(pos) {}

  size_t pos() const { return pos_; }
  bool at_end();
  char peek();                          // the next character after white space, '\0' at the end
  bool accept(std::string_view token);  // consumes the token if it is next
  void expect(std::string_view token);
  std::string_view identifier();  // [A-Za-z_][A-Za-z0-9_.$]*
  bool at_integer();
  int64_t integer();     // with an optional minus sign
  std::string quoted();  // "..." with MLIR's escapes
  std::string symbol();  // @name or @"name", without the '@'
  [[noreturn]] void fail(const std::string& message) const;

 private:
  void skip_space();
  std::string_view text_;
  size_t pos_;
};

}  // namespace cleave
