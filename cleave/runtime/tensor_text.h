#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/tensor.h"

namespace cleave {

// Type, layout and values; of large tensors the ends of each dimension.
//   tensor<2x3xf32> [{"x"}, {}] on <["x"=2]>
//   [[ 1.0000, -2.5000,  3.0000],
//    [ 0.0000,  0.5000,  1.0000]]
// A tensor of a trace shows its type and layout, and that it has no value.
std::string to_string(const Tensor& tensor);
// The values alone.
std::string values_text(const Array& host);

// print("{}\n{}\n", y, log): to standard output.
template <typename... Args>
void print(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(format, std::forward<Args>(args)...);
}

// Formats what has a text; no options.
struct TextFormatter {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  static auto write(std::string_view text, fmt::format_context& context) {
    return std::copy(text.begin(), text.end(), context.out());
  }
};

}  // namespace cleave

template <>
struct fmt::formatter<cleave::Tensor> : cleave::TextFormatter {
  auto format(const cleave::Tensor& tensor, fmt::format_context& context) const {
    return write(cleave::to_string(tensor), context);
  }
};

template <>
struct fmt::formatter<cleave::CommLog> : cleave::TextFormatter {
  auto format(const cleave::CommLog& log, fmt::format_context& context) const {
    const std::string text = cleave::to_string(log);
    return write(text.empty() ? "no communication" : text, context);
  }
};
