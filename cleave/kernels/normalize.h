#pragma once

#include "cleave/kernels/array.h"

namespace cleave {

// Along the last dimension of an F32 array, by oneDNN. (Its log_softmax is not used: the logarithm
// has an absolute error of 3e-6, which is 40 units in the last place of a loss near 0.07.)
Array softmax(const Array& x);
// (x - mean) / sqrt(variance + epsilon) along the last dimension, times scale, plus shift (vectors;
// both or neither).
Array layer_norm(const Array& x, const Array* scale, const Array* shift, double epsilon);

}  // namespace cleave
