#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace cleave {

// The number that the whole text says; nothing if the text is no number, has more than a number, or
// if the number is too large for the type.
//   number_of<int64_t>("12") -> 12
//   number_of<int64_t>("12x"), number_of<uint8_t>("256") -> nothing
template <typename Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace cleave
