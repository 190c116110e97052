#pragma once

#include <string_view>

#include "cleave/runtime/tensor.h"

namespace cleave {

// The value in another layout, by "sdy.sharding_constraint" or "sdy.reshard".
Tensor constrain(const Tensor& x, const ShardingSpec& spec, std::string_view op);

}  // namespace cleave
