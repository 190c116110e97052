#pragma once

#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

// Normalisation of a float array over all dimensions but `feature`; scale, offset, mean and
// variance have one element for each feature. F16 and BF16 compute in F32.
Array batch_norm(const Array& x, const Array& scale, const Array& offset, const Array& mean,
                 const Array& variance, double epsilon, int64_t feature);
// The normalised array, the mean and the variance.
std::vector<Array> batch_norm_training(const Array& x, const Array& scale, const Array& offset,
                                       double epsilon, int64_t feature);
// Gradients with respect to x, scale and offset.
std::vector<Array> batch_norm_grad(const Array& x, const Array& scale, const Array& mean,
                                   const Array& variance, const Array& grad, double epsilon,
                                   int64_t feature);

}  // namespace cleave
