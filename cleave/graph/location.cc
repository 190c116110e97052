#include "cleave/graph/location.h"

#include <cctype>

namespace cleave {
namespace {

// Locations refer to each other; a text in which they do so in a circle is followed so far.
constexpr int kDeepest = 200;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

// The end of the quoted string that the text begins with; npos if it is not closed.
size_t quote_end(std::string_view text) {
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return std::string_view::npos;
}

// What stands before `end`, a character or " at ", outside of brackets and quotes.
std::string_view until(std::string_view text, std::string_view end) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (depth == 0 && text.substr(i).starts_with(end)) return text.substr(0, i);
    const char c = text[i];
    if (c == '"') {
      const size_t after = quote_end(text.substr(i));
      if (after == std::string_view::npos) break;
      i += after - 1;
    } else if (c == '(' || c == '[') {
      ++depth;
    } else if (c == ')' || c == ']') {
      --depth;
    }
  }
  return text;
}

// Whether a line is that of an installed package, such as a library of layers.
bool is_of_package(std::string_view line) {
  return line.find("/site-packages/") != std::string_view::npos ||
         line.find("/dist-packages/") != std::string_view::npos;
}

}  // namespace

LocationAliases::Place LocationAliases::place_of(std::string_view text, int depth) const {
  text = trimmed(text);
  if (text.empty() || depth > kDeepest) return {};
  if (text.front() == '#') {
    const auto found = texts_.find(std::string(text.substr(1)));
    return found == texts_.end() ? Place{} : place_of(found->second, depth + 1);
  }
  if (text.starts_with("loc(") && text.ends_with(")"))
    return place_of(text.substr(4, text.size() - 5), depth + 1);
  if (text.starts_with("callsite(")) {
    const std::string_view callee = until(text.substr(9), " at ");
    const Place place = place_of(callee, depth + 1);
    const size_t caller = 9 + callee.size() + 4;
    if (!is_of_package(place.line) || caller >= text.size()) return place;
    const Place user = place_of(until(text.substr(caller), ")"), depth + 1);
    return user.line.empty() || is_of_package(user.line) ? place : user;
  }
  if (text.starts_with("fused")) {
    const size_t list = text.find('[');
    if (list == std::string_view::npos) return {};
    const std::string_view inside = text.substr(list + 1);
    return place_of(until(until(inside, "]"), ","), depth + 1);
  }
  if (text.front() != '"') return {};
  const size_t end = quote_end(text);
  if (end == std::string_view::npos) return {};
  const std::string_view rest = trimmed(text.substr(end));
  if (rest.starts_with(":")) return {"", std::string(text)};
  Place place{std::string(text.substr(0, end)), {}};
  if (rest.starts_with("(") && rest.ends_with(")"))
    place.line = place_of(rest.substr(1, rest.size() - 2), depth + 1).line;
  return place;
}

const std::string& LocationAliases::shortened(const std::string& location) {
  auto [known, is_new] = short_.try_emplace(location);
  if (!is_new) return known->second;
  const Place place = place_of(location, 0);
  if (place.name.empty())
    known->second = place.line;
  else
    known->second = place.line.empty() ? place.name : place.name + "(" + place.line + ")";
  return known->second;
}

std::string source_line(std::string_view location) {
  location = trimmed(location);
  if (location.empty() || location.front() != '"') return {};
  const size_t end = quote_end(location);
  if (end == std::string_view::npos) return {};
  const std::string_view name = location.substr(1, end - 2);
  const std::string_view rest = trimmed(location.substr(end));
  if (rest.starts_with("(")) {
    const std::string inside = source_line(rest.substr(1, rest.size() - 1));
    return inside.empty() ? std::string(name) : inside;
  }
  if (!rest.starts_with(":")) return std::string(name);
  size_t digits = 1;
  while (digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits]))) ++digits;
  const size_t slash = name.rfind('/');
  return std::string(slash == std::string_view::npos ? name : name.substr(slash + 1)) +
         std::string(rest.substr(0, digits));
}

}  // namespace cleave
