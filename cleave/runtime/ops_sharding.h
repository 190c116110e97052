#pragma once

#include <optional>
#include <string_view>

#include "cleave/runtime/tensor.h"

namespace cleave {

// The value in another layout, by "sdy.sharding_constraint" or "sdy.reshard".
Tensor constrain(const Tensor& x, const ShardingSpec& spec, std::string_view op);

// A tensor on no mesh that has not been read yet, and that is made of numbers alone, is drawn or
// counted in its layout: each device makes its own part, as if the whole had been cut. Returns
// nothing for other tensors.
//   randn({1 << 20, 1024}).shard(mesh, P("data"))       no device holds more than its rows
//   (randn(shape) * 0.02).shard(...), zeros(shape).shard(...)
std::optional<Tensor> made_in_layout(const Tensor& x, const ShardingSpec& spec);

}  // namespace cleave
