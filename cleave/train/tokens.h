#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace cleave::train {

// How the tokens of a file are written: unsigned and signed integers, little-endian.
enum class TokenKind : uint8_t { U8, U16, U32, I32, I64 };

// Tokens in a file that is mapped, not read: a file may be larger than memory, and processes of one
// host share its pages.
//
//   TokenFile("tokens.bin")                  raw uint16, as most tools write them; also .u16
//   TokenFile("tokens.u32")                  raw uint32
//   TokenFile("tokens.npy")                  a NumPy array of integers; its shape does not matter
//   TokenFile("set.safetensors")             its only tensor of integers
//   TokenFile("set.safetensors#train")       the tensor of that name
//   TokenFile("notes.md")                    any other file: its bytes
//   TokenFile("u32:tokens.bin")              u8, u16, u32, i32, i64 or bytes, whatever its name is
//
// Throws UserError, one line that names the file: it is missing, empty, or of a length that is no
// whole number of tokens; the array has no integers; there is no tensor of that name.
class TokenFile {
 public:
  explicit TokenFile(const std::string& text);

  const std::string& name() const { return name_; }  // as it was given
  int64_t size() const { return size_; }             // tokens
  TokenKind kind() const { return kind_; }
  // Tokens [begin, begin + out.size()). Throws UserError that names the file and the place if one
  // of them is negative, or not below `vocab`.
  void read(int64_t begin, std::span<int32_t> out, int64_t vocab) const;

 private:
  class Mapping;

  std::string name_;
  std::shared_ptr<const Mapping> mapping_;
  TokenKind kind_ = TokenKind::U8;
  int64_t offset_ = 0;  // bytes before the first token
  int64_t size_ = 0;
};

}  // namespace cleave::train
