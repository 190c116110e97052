#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/text_cursor.h"

namespace cleave::text {

// Reads MLIR's tokens from a position in a text. White space and `//` comments between tokens are
// skipped. Errors are ParseErrors with the offset.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::string_view source() const { return text_; }
  size_t pos() const { return pos_; }
  void seek(size_t pos) { pos_ = pos; }
  // The position of the next token.
  size_t next_pos() {
    skip_space();
    return pos_;
  }

  bool at_end() { return next_pos() == text_.size(); }
  char peek() {
    skip_space();
    return pos_ < text_.size() ? text_[pos_] : '\0';
  }
  // The character right at the position, white space or not.
  char current() const { return pos_ < text_.size() ? text_[pos_] : '\0'; }

  // Consumes punctuation such as "," or "->".
  bool accept(std::string_view punctuation);
  void expect(std::string_view punctuation);
  // Consumes the keyword if it is the next whole word.
  bool accept_word(std::string_view keyword);
  void expect_word(std::string_view keyword);

  std::string_view word();        // [A-Za-z_][A-Za-z0-9_$.]*
  std::string_view peek_word();   // empty if none is next
  std::string_view value_name();  // the name after '%', which is consumed: 12, arg0, x-y.z
  bool at_value() { return peek() == '%'; }
  bool at_integer();
  int64_t integer();
  // The text of a number: -1, 0x7F, 1.5e-3.
  std::string_view number();
  bool at_number();
  std::string string_literal();
  std::string symbol();  // @name or @"name"
  std::string word_or_string();

  // Skips one balanced group that starts at the position with ( [ { or <, strings included.
  void skip_balanced();
  // Consumes a word and the groups that follow it directly: quant.uniform<i8:f32, 2.0>.
  std::string_view balanced_word();

  // Small syntaxes of the core share the position: with_cursor([&](TextCursor& c) { ... }).
  template <typename Read>
  auto with_cursor(Read&& read) {
    TextCursor cursor(text_, next_pos());
    auto result = read(cursor);
    pos_ = cursor.pos();
    return result;
  }

  [[noreturn]] void fail(const std::string& message);
  [[noreturn]] void fail_at(size_t pos, const std::string& message) const;

 private:
  void skip_space();

  std::string_view text_;
  size_t pos_ = 0;
};

// Counts nesting while it lives; reports text that is nested deeper than any real module.
class DepthGuard {
 public:
  DepthGuard(int& depth, Lexer& lexer) : depth_(depth) {
    if (++depth_ > kMaxDepth) {
      --depth_;
      lexer.fail("nested too deeply");
    }
  }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

  static constexpr int kMaxDepth = 256;

 private:
  int& depth_;
};

}  // namespace cleave::text
