#include "cleave/core/text_cursor.h"

#include <cctype>
#include <charconv>

namespace cleave {
namespace {

bool is_word_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '$';
}
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void TextCursor::skip_space() {
  while (pos_ < text_.size()) {
    if (std::isspace(static_cast<unsigned char>(text_[pos_]))) {
      ++pos_;
    } else if (text_.substr(pos_, 2) == "//") {
      while (pos_ < text_.size() && text_[pos_] != '\n') ++pos_;
    } else {
      return;
    }
  }
}

bool TextCursor::at_end() {
  skip_space();
  return pos_ == text_.size();
}

char TextCursor::peek() {
  skip_space();
  return pos_ < text_.size() ? text_[pos_] : '\0';
}

bool TextCursor::accept(std::string_view token) {
  skip_space();
  if (text_.substr(pos_, token.size()) != token) return false;
  const size_t end = pos_ + token.size();
  if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
  pos_ = end;
  return true;
}

void TextCursor::expect(std::string_view token) {
  if (!accept(token)) fail("expected '" + std::string(token) + "'");
}

std::string_view TextCursor::identifier() {
  skip_space();
  if (pos_ >= text_.size() || !is_word_start(text_[pos_])) fail("expected an identifier");
  const size_t begin = pos_;
  while (pos_ < text_.size() && is_word(text_[pos_])) ++pos_;
  return text_.substr(begin, pos_ - begin);
}

bool TextCursor::at_integer() {
  const char c = peek();
  return std::isdigit(static_cast<unsigned char>(c)) || c == '-';
}

int64_t TextCursor::integer() {
  skip_space();
  int64_t value = 0;
  const char* begin = text_.data() + pos_;
  const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
  if (error == std::errc::result_out_of_range) fail("integer out of range");
  if (error != std::errc()) fail("expected an integer");
  pos_ += end - begin;
  return value;
}

std::string TextCursor::quoted() {
  skip_space();
  if (pos_ >= text_.size() || text_[pos_] != '"') fail("expected a quoted string");
  const size_t begin = pos_++;
  std::string result;
  while (pos_ < text_.size() && text_[pos_] != '"') {
    if (text_[pos_] == '\n') break;
    if (text_[pos_] != '\\') {
      result += text_[pos_++];
      continue;
    }
    const char next = pos_ + 1 < text_.size() ? text_[pos_ + 1] : '\0';
    const char after = pos_ + 2 < text_.size() ? text_[pos_ + 2] : '\0';
    if (next == 'n' || next == 't' || next == '\\' || next == '"') {
      result += next == 'n' ? '\n' : next == 't' ? '\t' : next;
      pos_ += 2;
    } else if (hex_digit(next) >= 0 && hex_digit(after) >= 0) {
      result += static_cast<char>(hex_digit(next) * 16 + hex_digit(after));
      pos_ += 3;
    } else {
      fail("unknown escape in a string");
    }
  }
  if (pos_ >= text_.size() || text_[pos_] != '"') {
    pos_ = begin;
    fail("a string that does not end");
  }
  ++pos_;
  return result;
}

std::string TextCursor::symbol() {
  expect("@");
  if (pos_ < text_.size() && text_[pos_] == '"') return quoted();
  const size_t begin = pos_;
  while (pos_ < text_.size() && (is_word(text_[pos_]) || text_[pos_] == '-')) ++pos_;
  if (begin == pos_) fail("expected a symbol name after '@'");
  return std::string(text_.substr(begin, pos_ - begin));
}

void TextCursor::fail(const std::string& message) const { throw ParseError(pos_, message); }

}  // namespace cleave
