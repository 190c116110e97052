#include "cleave/cli/tensor_options.h"

#include <array>
#include <charconv>

#include "cleave/core/error.h"

namespace cleave::cli {

Shape parse_shape(std::string_view text) {
  Shape shape;
  if (text.empty() || text == "scalar") return shape;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  while (true) {
    int64_t size = 0;
    auto [next, error] = std::from_chars(at, end, size);
    if (error != std::errc() || size < 0 || (next != end && *next != 'x'))
      throw_user("shape '{}': expected sizes joined by x, such as 8x16", text);
    shape.push_back(size);
    if (next == end) break;
    at = next + 1;
  }
  num_elements(shape);  // throws if they are too many
  return shape;
}

DType parse_dtype(std::string_view text) {
  auto dtype = dtype_from_name(text);
  if (!dtype) throw_user("unknown element type '{}'; f32, bf16, i32, ... are known", text);
  return *dtype;
}

}  // namespace cleave::cli
