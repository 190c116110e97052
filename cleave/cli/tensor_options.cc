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

int64_t parse_bytes(std::string_view text) {
  double number = 0;
  auto [next, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(next, text.data() + text.size() - next);
  struct Unit {
    std::string_view name;
    double bytes;
  };
  constexpr double kMost = 9e18;  // what a 64-bit count of bytes holds
  constexpr std::array<Unit, 10> kUnits = {{{"", 1},
                                            {"B", 1},
                                            {"KB", 1e3},
                                            {"MB", 1e6},
                                            {"GB", 1e9},
                                            {"KiB", 1024.0},
                                            {"MiB", 1024.0 * 1024},
                                            {"GiB", 1024.0 * 1024 * 1024},
                                            {"TB", 1e12},
                                            {"TiB", 1024.0 * 1024 * 1024 * 1024}}};
  for (const Unit& known : kUnits)
    if (error == std::errc() && number >= 0 && unit == known.name) {
      if (number * known.bytes > kMost) throw_user("bytes '{}': more than any device has", text);
      return static_cast<int64_t>(number * known.bytes);
    }
  throw_user("bytes '{}': expected a number with B, KB, MB, GB, TB, KiB, MiB, GiB or TiB", text);
}

}  // namespace cleave::cli
