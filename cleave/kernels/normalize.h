#pragma once

#include "cleave/kernels/array.h"

namespace cleave {

// Along the last dimension of an F32 array, by oneDNN.
Array softmax(const Array& x, bool log);
// (x - mean) / sqrt(variance + epsilon) along the last dimension, times scale, plus shift (vectors;
// both or neither).
Array layer_norm(const Array& x, const Array* scale, const Array* shift, double epsilon);

}  // namespace cleave
