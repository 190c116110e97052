#pragma once

#include <bit>
#include <cstdint>

namespace cleave {

// IEEE half precision, as the compiler has it: arithmetic in float, rounded at each assignment.
using float16 = _Float16;

// The upper half of a float32. Converts to and from float; arithmetic happens in float.
struct bfloat16 {
  uint16_t bits = 0;

  bfloat16() = default;
  // Rounds to the nearest, ties to even; a NaN stays one.
  bfloat16(float value) {
    const auto word = std::bit_cast<uint32_t>(value);
    if (value != value)
      bits = static_cast<uint16_t>((word >> 16) | 0x40);
    else
      bits = static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};
static_assert(sizeof(bfloat16) == 2);

}  // namespace cleave
