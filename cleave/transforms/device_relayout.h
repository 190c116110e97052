#pragma once

#include <string>

#include "cleave/runtime/tensor.h"

namespace cleave::compile_detail {

// A tensor that is nothing but another layout of one that an engine has on its devices (`y` below)
// is computed there, by a small program that is compiled once for these two layouts. The value does
// not pass through the host. Any other tensor is left as it is.
//
//   const Tensor x = f(w);                                // compiled for XLA: on its devices
//   const Tensor y = x.with_sharding(spec);
//   g(y);                                                 // compiled for XLA
void relay_on_devices(const Tensor& tensor, const std::string& engine);

}  // namespace cleave::compile_detail
