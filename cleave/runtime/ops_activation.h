#pragma once

#include <cstdint>

#include "cleave/runtime/tensor.h"

// Activations beside those of ops_nn.h, as jax.nn has them. Integers are taken as f32.
namespace cleave {

Tensor relu6(const Tensor& x);                            // min(max(x, 0), 6)
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // slope x below 0
Tensor prelu(const Tensor& x, const Tensor& slope);       // the slope is learned; it broadcasts
Tensor elu(const Tensor& x, double alpha = 1);            // alpha (e^x - 1) below 0
Tensor celu(const Tensor& x, double alpha = 1);           // alpha (e^(x / alpha) - 1) below 0
Tensor selu(const Tensor& x);
Tensor mish(const Tensor& x);          // x tanh(softplus(x))
Tensor hard_sigmoid(const Tensor& x);  // relu6(x + 3) / 6
Tensor hard_swish(const Tensor& x);    // x hard_sigmoid(x)
Tensor hard_tanh(const Tensor& x);     // between -1 and 1
Tensor log_sigmoid(const Tensor& x);
Tensor softsign(const Tensor& x);                  // x / (1 + |x|)
Tensor squareplus(const Tensor& x, double b = 4);  // (x + sqrt(x^2 + b)) / 2
Tensor glu(const Tensor& x, int64_t dim = -1);     // first half times sigmoid of the second

}  // namespace cleave
