#pragma once

#include <cstdint>

#include "cleave/runtime/tensor.h"

namespace cleave {

enum class Interpolation : uint8_t { Nearest, Linear, Cubic, Lanczos3, Lanczos5 };
// x with other sizes, as jax.image.resize has it: elements are samples at the middles of cells, and
// dimensions that keep their size are not touched. Linear in two dimensions is bilinear. With
// `antialias`, what shrinks is smoothed over the cells that fall together (not with Nearest).
//   interpolate(image [32, 32, 3], {64, 48, 3}, Interpolation::Linear)
// Integers are taken as f32, except with Nearest.
Tensor interpolate(const Tensor& x, const Shape& shape,
                   Interpolation method = Interpolation::Linear, bool antialias = true);

}  // namespace cleave
