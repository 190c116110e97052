#pragma once

#include "cleave/runtime/tensor.h"

namespace cleave {

Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x, bool approximate = true);  // by tanh; else by erf
Tensor silu(const Tensor& x);

}  // namespace cleave
