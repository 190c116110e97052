#include "mutate.h"

#include <algorithm>
#include <cctype>

namespace cleave::fuzz {
namespace {

struct Span {
  size_t begin = 0, end = 0;
};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// The parts of a text that `in` holds for, longest first come: words, numbers, types.
template <typename In>
std::vector<Span> spans(const std::string& text, const In& in) {
  std::vector<Span> found;
  for (size_t i = 0; i < text.size();) {
    if (!in(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && in(text[i])) ++i;
    found.push_back({begin, i});
  }
  return found;
}

std::vector<Span> numbers_of(const std::string& text) {
  std::vector<Span> found;
  for (const Span& span :
       spans(text, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }))
    if (span.begin > 0 && text[span.begin - 1] != '%' && text[span.begin - 1] != '@')
      found.push_back(span);
  return found;
}

// tensor<...>, with what is inside of other brackets.
std::vector<Span> types_of(const std::string& text) {
  std::vector<Span> found;
  for (size_t at = text.find("tensor<"); at != std::string::npos;
       at = text.find("tensor<", at + 1)) {
    int depth = 0;
    for (size_t i = at; i < text.size() && i < at + 200; ++i) {
      depth += text[i] == '<' ? 1 : text[i] == '>' ? -1 : 0;
      if (depth == 0 && text[i] == '>') {
        found.push_back({at, i + 1});
        break;
      }
    }
  }
  return found;
}

std::vector<Span> values_of(const std::string& text) {
  std::vector<Span> found;
  for (const Span& span : spans(text, [](char c) { return is_word(c) || c == '%' || c == '#'; }))
    if (text[span.begin] == '%') found.push_back(span);
  return found;
}

std::vector<Span> lines_of(const std::string& text) {
  return spans(text, [](char c) { return c != '\n'; });
}

class Mutation {
 public:
  Mutation(RandomSource& random, std::string text, const std::string& other)
      : random_(random), text_(std::move(text)), other_(other) {}

  void step() {
    switch (random_.below(10)) {
      case 0:
      case 1:
      case 2:
        return replace(numbers_of(text_), number());
      case 3:
        return exchange(numbers_of(text_));
      case 4:
        return exchange(types_of(text_));
      case 5:
        return exchange(values_of(text_));
      case 6:
        return move_line();
      case 7: {  // a word of the other text
        const auto words = spans(other_, is_word);
        if (words.empty()) return;
        const Span word = pick(words);
        return replace(spans(text_, is_word), other_.substr(word.begin, word.end - word.begin));
      }
      case 8: {  // a type of the other text
        const auto types = types_of(other_);
        if (types.empty()) return;
        const Span type = pick(types);
        return replace(types_of(text_), other_.substr(type.begin, type.end - type.begin));
      }
      default:
        return characters();
    }
  }
  std::string take() { return std::move(text_); }

 private:
  template <typename T>
  T pick(const std::vector<T>& list) {
    return list[random_.below(static_cast<int64_t>(list.size()))];
  }
  std::string number() {
    static const std::vector<std::string> kNumbers = {"0",
                                                      "1",
                                                      "2",
                                                      "3",
                                                      "4",
                                                      "5",
                                                      "7",
                                                      "8",
                                                      "16",
                                                      "-1",
                                                      "-2",
                                                      "31",
                                                      "32",
                                                      "63",
                                                      "64",
                                                      "127",
                                                      "128",
                                                      "1000",
                                                      "65536",
                                                      "1000003",
                                                      "2147483647",
                                                      "2147483648",
                                                      "4294967296",
                                                      "9223372036854775807",
                                                      "-9223372036854775808",
                                                      "18446744073709551616",
                                                      "1e30",
                                                      "1.5",
                                                      "?"};
    return pick(kNumbers);
  }
  void replace(const std::vector<Span>& spans, const std::string& by) {
    if (spans.empty()) return;
    const Span span = pick(spans);
    text_.replace(span.begin, span.end - span.begin, by);
  }
  void exchange(const std::vector<Span>& spans) {
    if (spans.empty()) return;
    const Span span = pick(spans);
    replace(spans, text_.substr(span.begin, span.end - span.begin));
  }
  void move_line() {
    const auto lines = lines_of(text_);
    if (lines.empty()) return;
    const Span line = pick(lines);
    const std::string copy = text_.substr(line.begin, line.end - line.begin);
    const int64_t way = random_.below(4);
    if (way == 0) {
      text_.erase(line.begin, line.end - line.begin);
    } else if (way == 1) {
      text_.insert(line.begin, copy + "\n");
    } else if (way == 2) {
      text_.erase(line.begin, line.end - line.begin);
      const auto rest = lines_of(text_);
      if (!rest.empty()) text_.insert(pick(rest).begin, copy + "\n");
    } else {
      const auto others = lines_of(other_);
      if (others.empty()) return;
      const Span other = pick(others);
      text_.insert(line.begin, other_.substr(other.begin, other.end - other.begin) + "\n");
    }
  }
  void characters() {
    if (text_.empty()) return;
    const size_t at = random_.below(static_cast<int64_t>(text_.size()));
    const size_t length = std::min<size_t>(text_.size() - at, 1 + random_.below(8));
    switch (random_.below(3)) {
      case 0:
        text_.erase(at, length);
        return;
      case 1:
        text_.insert(at, text_.substr(at, length));
        return;
      default:
        text_[at] = "<>{}[]():,=\"%@#x?- \n\x80\xff"[random_.below(22)];
    }
  }

  RandomSource& random_;
  std::string text_;
  const std::string& other_;
};

}  // namespace

std::string mutate(RandomSource& random, const std::string& text, const std::string& other) {
  Mutation mutation(random, text, other);
  const int64_t steps = 1 + random.below(4);
  for (int64_t i = 0; i < steps; ++i) mutation.step();
  return mutation.take();
}

}  // namespace cleave::fuzz
