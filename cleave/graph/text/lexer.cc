#include "cleave/graph/text/lexer.h"

#include <charconv>

namespace cleave::text {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_word_start(char c) { return is_letter(c) || c == '_'; }
bool is_word_char(char c) { return is_word_start(c) || is_digit(c) || c == '.' || c == '$'; }
bool is_suffix_char(char c) { return is_word_char(c) || c == '-'; }

}  // namespace

void Lexer::skip_space() {
  while (pos_ < text_.size()) {
    const char c = text_[pos_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++pos_;
    } else if (c == '/' && pos_ + 1 < text_.size() && text_[pos_ + 1] == '/') {
      const size_t end = text_.find('\n', pos_);
      pos_ = end == std::string_view::npos ? text_.size() : end + 1;
    } else {
      return;
    }
  }
}

bool Lexer::accept(std::string_view punctuation) {
  skip_space();
  if (text_.compare(pos_, punctuation.size(), punctuation) != 0) return false;
  pos_ += punctuation.size();
  return true;
}

void Lexer::expect(std::string_view punctuation) {
  if (!accept(punctuation)) fail("expected '" + std::string(punctuation) + "'");
}

bool Lexer::accept_word(std::string_view keyword) {
  skip_space();
  if (text_.compare(pos_, keyword.size(), keyword) != 0) return false;
  const size_t end = pos_ + keyword.size();
  if (end < text_.size() && is_word_char(text_[end])) return false;
  pos_ = end;
  return true;
}

void Lexer::expect_word(std::string_view keyword) {
  if (!accept_word(keyword)) fail("expected '" + std::string(keyword) + "'");
}

std::string_view Lexer::peek_word() {
  skip_space();
  if (pos_ >= text_.size() || !is_word_start(text_[pos_])) return {};
  size_t end = pos_ + 1;
  while (end < text_.size() && is_word_char(text_[end])) ++end;
  return text_.substr(pos_, end - pos_);
}

std::string_view Lexer::word() {
  const std::string_view result = peek_word();
  if (result.empty()) fail("expected a word");
  pos_ += result.size();
  return result;
}

std::string_view Lexer::value_name() {
  if (peek() != '%') fail("expected a value such as %0");
  const size_t begin = ++pos_;
  if (is_digit(current())) {
    while (pos_ < text_.size() && is_digit(text_[pos_])) ++pos_;
  } else {
    while (pos_ < text_.size() && is_suffix_char(text_[pos_])) ++pos_;
  }
  if (pos_ == begin) fail("expected a name after '%'");
  return text_.substr(begin, pos_ - begin);
}

bool Lexer::at_integer() {
  const char c = peek();
  return is_digit(c) || (c == '-' && pos_ + 1 < text_.size() && is_digit(text_[pos_ + 1]));
}

int64_t Lexer::integer() {
  skip_space();
  const char* begin = text_.data() + pos_;
  const char* end = text_.data() + text_.size();
  int64_t value = 0;
  if (text_.substr(pos_, 2) == "0x") {
    uint64_t bits = 0;
    const auto [stop, error] = std::from_chars(begin + 2, end, bits, 16);
    if (error == std::errc::result_out_of_range) fail("integer out of range");
    if (error == std::errc()) {
      pos_ = static_cast<size_t>(stop - text_.data());
      return static_cast<int64_t>(bits);
    }
  }
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range) fail("integer out of range");
  if (error != std::errc()) fail("expected an integer");
  pos_ = static_cast<size_t>(stop - text_.data());
  return value;
}

bool Lexer::at_number() {
  const char c = peek();
  return is_digit(c) || c == '-' || c == '+';
}

std::string_view Lexer::number() {
  skip_space();
  const size_t begin = pos_;
  size_t p = pos_;
  const auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  if (at(p) == '-' || at(p) == '+') ++p;
  if (at(p) == '0' && at(p + 1) == 'x' && is_hex(at(p + 2))) {
    p += 2;
    while (is_hex(at(p))) ++p;
  } else {
    if (!is_digit(at(p))) fail("expected a number");
    while (is_digit(at(p))) ++p;
    if (at(p) == '.') {
      ++p;
      while (is_digit(at(p))) ++p;
      if (at(p) == 'e' || at(p) == 'E') {
        const size_t sign = at(p + 1) == '-' || at(p + 1) == '+' ? 1 : 0;
        if (is_digit(at(p + 1 + sign))) {
          p += 1 + sign;
          while (is_digit(at(p))) ++p;
        }
      }
    }
  }
  pos_ = p;
  return text_.substr(begin, p - begin);
}

std::string Lexer::string_literal() {
  return with_cursor([](TextCursor& cursor) { return cursor.quoted(); });
}

std::string Lexer::symbol() {
  return with_cursor([](TextCursor& cursor) { return cursor.symbol(); });
}

std::string Lexer::word_or_string() {
  if (peek() == '"') return string_literal();
  return std::string(word());
}

void Lexer::skip_balanced() {
  std::string closers;
  const size_t begin = next_pos();
  do {
    const char c = current();
    switch (c) {
      case '\0':
        if (pos_ >= text_.size()) fail_at(begin, "a bracket that is not closed");
        break;
      case '(':
        closers += ')';
        break;
      case '[':
        closers += ']';
        break;
      case '{':
        closers += '}';
        break;
      case '<':
        closers += '>';
        break;
      case '"': {
        TextCursor cursor(text_, pos_);
        cursor.quoted();
        pos_ = cursor.pos() - 1;
        break;
      }
      case '-':
        if (pos_ + 1 < text_.size() && text_[pos_ + 1] == '>') ++pos_;
        break;
      case ')':
      case ']':
      case '}':
      case '>':
        if (closers.empty() || closers.back() != c) fail(std::string("unexpected '") + c + "'");
        closers.pop_back();
        break;
      default:
        break;
    }
    ++pos_;
  } while (!closers.empty());
}

std::string_view Lexer::balanced_word() {
  const size_t begin = next_pos();
  word();
  while (current() == '<' || current() == '[' || current() == '{') skip_balanced();
  return text_.substr(begin, pos_ - begin);
}

void Lexer::fail(const std::string& message) {
  skip_space();
  throw ParseError(pos_, message);
}

void Lexer::fail_at(size_t pos, const std::string& message) const {
  throw ParseError(pos, message);
}

}  // namespace cleave::text
