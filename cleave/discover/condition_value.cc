#include "cleave/discover/condition_value.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

namespace cleave {
namespace {

struct UnknownCondition : std::exception {};

// Reads and evaluates at once; conditions are short.
class ConditionReader {
 public:
  ConditionReader(const std::string& text, const ConditionScope& scope)
      : text_(text), scope_(scope) {}

  bool value() {
    const AttrValue result = either();
    skip_blank();
    if (at_ != text_.size()) throw UnknownCondition();
    return truth(result);
  }

 private:
  static bool truth(const AttrValue& value) {
    if (const bool* flag = std::get_if<bool>(&value)) return *flag;
    if (const int64_t* number = std::get_if<int64_t>(&value)) return *number != 0;
    throw UnknownCondition();
  }
  static double number(const AttrValue& value) {
    if (const int64_t* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
    if (const double* real = std::get_if<double>(&value)) return *real;
    if (const bool* flag = std::get_if<bool>(&value)) return *flag;
    throw UnknownCondition();
  }
  static int64_t whole(const AttrValue& value) {
    if (const int64_t* number = std::get_if<int64_t>(&value)) return *number;
    throw UnknownCondition();
  }

  void skip_blank() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  static bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  // Takes a sign or a word, if it comes next.
  bool take(std::string_view token) {
    skip_blank();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    const size_t end = at_ + token.size();
    if (in_word(token.back()) && end < text_.size() && in_word(text_[end])) return false;
    at_ = end;
    return true;
  }

  AttrValue either() {
    AttrValue left = both();
    while (take("or")) {
      const bool right = truth(both());
      left = truth(left) || right;
    }
    return left;
  }
  AttrValue both() {
    AttrValue left = denied();
    while (take("and")) {
      const bool right = truth(denied());
      left = truth(left) && right;
    }
    return left;
  }
  AttrValue denied() {
    if (take("not")) return !truth(denied());
    return compared();
  }

  AttrValue compared() {
    const AttrValue left = sum();
    const size_t before = at_;
    if (take("not")) {
      if (take("in")) return !is_in(left, sum());
      at_ = before;
    }
    if (take("in")) return is_in(left, sum());
    if (take("==")) return equal(left, sum());
    if (take("!=")) return !equal(left, sum());
    if (take("<=")) return number(left) <= number(sum());
    if (take(">=")) return number(left) >= number(sum());
    if (take("<")) return number(left) < number(sum());
    if (take(">")) return number(left) > number(sum());
    return left;
  }
  static bool equal(const AttrValue& a, const AttrValue& b) {
    return a.index() == b.index() ? a == b : number(a) == number(b);
  }
  static bool is_in(const AttrValue& value, const AttrValue& list) {
    const auto* numbers = std::get_if<std::vector<int64_t>>(&list);
    if (!numbers) throw UnknownCondition();
    return std::ranges::find(*numbers, whole(value)) != numbers->end();
  }

  AttrValue sum() {
    AttrValue left = product();
    for (;;) {
      if (take("+"))
        left = whole(left) + whole(product());
      else if (take("-"))
        left = whole(left) - whole(product());
      else
        return left;
    }
  }
  AttrValue product() {
    AttrValue left = atom();
    for (;;) {
      if (take("*")) {
        left = whole(left) * whole(atom());
      } else if (take("%")) {
        const int64_t by = whole(atom());
        if (by == 0) throw UnknownCondition();
        left = whole(left) % by;
      } else {
        return left;
      }
    }
  }

  AttrValue atom() {
    if (take("(")) {
      AttrValue inner = either();
      if (!take(")")) throw UnknownCondition();
      return inner;
    }
    if (take("-")) return -whole(atom());
    if (take("'")) return quoted();
    if (take("size")) return size_of(whole(atom()));  // its argument is in parentheses
    if (take("below")) return below();
    if (take("true") || take("True")) return true;
    if (take("false") || take("False")) return false;
    skip_blank();
    if (at_ == text_.size()) throw UnknownCondition();
    return std::isdigit(static_cast<unsigned char>(text_[at_])) ? constant() : named();
  }
  AttrValue quoted() {
    const size_t end = text_.find('\'', at_);
    if (end == std::string::npos) throw UnknownCondition();
    std::string word = text_.substr(at_, end - at_);
    at_ = end + 1;
    return word;
  }
  AttrValue size_of(int64_t dim) const {
    if (dim < 0 || dim >= static_cast<int64_t>(scope_.shape.size())) throw UnknownCondition();
    return scope_.shape[static_cast<size_t>(dim)];
  }
  // below(d, dims): how many of a list are smaller.
  AttrValue below() {
    if (!take("(")) throw UnknownCondition();
    const int64_t d = whole(sum());
    if (!take(",")) throw UnknownCondition();
    const AttrValue list = atom();
    const auto* numbers = std::get_if<std::vector<int64_t>>(&list);
    if (!numbers || !take(")")) throw UnknownCondition();
    return static_cast<int64_t>(std::ranges::count_if(*numbers, [&](int64_t k) { return k < d; }));
  }
  AttrValue constant() {
    size_t end = at_;
    while (end < text_.size() && (in_word(text_[end]) || text_[end] == '.')) ++end;
    const std::string digits = text_.substr(at_, end - at_);
    at_ = end;
    try {
      size_t used = 0;
      if (digits.find_first_not_of("0123456789") == std::string::npos)
        return static_cast<int64_t>(std::stoll(digits));
      const double real = std::stod(digits, &used);
      if (used == digits.size()) return real;
    } catch (const std::logic_error&) {
      // Not a number, or too large a one.
    }
    throw UnknownCondition();
  }
  AttrValue named() {
    size_t end = at_;
    while (end < text_.size() && in_word(text_[end])) ++end;
    const std::string word = text_.substr(at_, end - at_);
    at_ = end;
    if (const auto it = scope_.attrs.find(word); it != scope_.attrs.end()) return it->second;
    if (word == "d" && scope_.d) return *scope_.d;
    if (word == "rank") return static_cast<int64_t>(scope_.shape.size());
    throw UnknownCondition();
  }

  const std::string& text_;
  const ConditionScope& scope_;
  size_t at_ = 0;
};

}  // namespace

std::optional<bool> condition_holds(const std::string& condition, const ConditionScope& scope) {
  if (condition.empty()) return true;
  try {
    return ConditionReader(condition, scope).value();
  } catch (const UnknownCondition&) {
    return std::nullopt;
  }
}

}  // namespace cleave
