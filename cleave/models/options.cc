#include "cleave/models/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cleave/core/error.h"
#include "cleave/core/number_text.h"

namespace cleave::models {

Options::Options(std::string model, std::string_view text) : model_(std::move(model)) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('&'), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw_user("model:{}: '{}' is not option=value", model_, item);
    if (!values_.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
      throw_user("model:{}: '{}' is given twice", model_, item.substr(0, equals));
  }
}

// Products of a few sizes still fit into 64 bits; if not, the code that makes a type finds out.
void Options::check_size(const char* name, int64_t value) const {
  const std::string_view what = name;
  if (what == "seed") return;
  // Layers are written out one by one.
  const int64_t most = what == "layers" || what == "blocks" ? 1 << 14 : 1 << 30;
  if (value > most) throw_user("model:{}: {}={} must be at most {}", model_, name, value, most);
}

void Options::read(const char* name, int64_t& value) {
  known_.push_back(fmt::format("{}={}", name, value));
  const auto it = take(name);
  if (!it) return;
  const auto number = number_of<int64_t>(*it);
  if (!number) throw_user("model:{}: {}='{}' is not an integer", model_, name, *it);
  value = *number;
  if (value < 1 && std::string_view(name) != "seed")
    throw_user("model:{}: {}={} must be at least 1", model_, name, value);
  check_size(name, value);
}

void Options::read(const char* name, double& value) {
  known_.push_back(fmt::format("{}={}", name, value));
  const auto it = take(name);
  if (!it) return;
  const auto number = number_of<double>(*it);
  if (!number || !(*number > 0))
    throw_user("model:{}: {}='{}' is not a positive number", model_, name, *it);
  value = *number;
}

void Options::read(const char* name, std::vector<int64_t>& values) {
  known_.push_back(fmt::format("{}={}", name, fmt::join(values, ",")));
  const auto it = take(name);
  if (!it) return;
  values.clear();
  for (size_t at = 0; at <= it->size();) {
    const size_t end = std::min(it->find(',', at), it->size());
    const auto value = number_of<int64_t>(std::string_view(*it).substr(at, end - at));
    if (!value || *value < 1)
      throw_user("model:{}: {}='{}' is not a list of positive integers", model_, name, *it);
    check_size(name, *value);
    values.push_back(*value);
    at = end + 1;
  }
}

std::string Options::choice(const char* name, const std::vector<std::string>& choices) {
  return choices[index_of(name, choices, 0)];
}

void Options::read(const char* name, bool& value) {
  value = index_of(name, {"no", "yes"}, value ? 1 : 0) == 1;
}

// The default is listed first.
size_t Options::index_of(const char* name, const std::vector<std::string>& choices,
                         size_t otherwise) {
  std::vector<std::string> listed = {choices[otherwise]};
  for (size_t i = 0; i < choices.size(); ++i)
    if (i != otherwise) listed.push_back(choices[i]);
  known_.push_back(fmt::format("{}={}", name, fmt::join(listed, "|")));
  const auto it = take(name);
  if (!it) return otherwise;
  for (size_t i = 0; i < choices.size(); ++i)
    if (choices[i] == *it) return i;
  throw_user("model:{}: {}={} is not one of {}", model_, name, *it, fmt::join(choices, ", "));
}

std::optional<std::string> Options::text(const char* name) {
  known_.push_back(fmt::format("{}=...", name));
  return take(name);
}

void Options::finish() const {
  for (const auto& [name, value] : values_)
    throw_user("model:{} has no option '{}'; it has {}", model_, name, fmt::join(known_, " "));
}

std::string Options::describe() const { return fmt::format("{}", fmt::join(known_, " ")); }

std::optional<std::string> Options::take(const char* name) {
  const auto it = values_.find(name);
  if (it == values_.end()) return std::nullopt;
  std::string value = it->second;
  values_.erase(it);
  return value;
}

}  // namespace cleave::models
