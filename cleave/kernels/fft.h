#pragma once

#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

enum class FftKind : uint8_t { Forward, Inverse, RealForward, RealInverse };

// Discrete Fourier transforms over the last dimensions, one for each entry of `lengths`, of F32,
// F64, C64 and C128; computed in double. Inverses divide by the number of elements.
//   RealForward {8, 6}, lengths {6} -> complex {8, 4}      RealInverse {8, 4}, lengths {6} -> real
//   {8, 6}
Array fft(const Array& input, FftKind kind, const std::vector<int64_t>& lengths);

}  // namespace cleave
