#pragma once

#include "cleave/core/axis.h"

namespace cleave {

// A part of an all_to_all: the axes leave the minor end of one dimension and arrive at that of
// another.
//   {"x"}: 0->2
struct AllToAllMove {
  AxisList axes;
  int64_t source_dim = 0;
  int64_t target_dim = 0;
  bool operator==(const AllToAllMove&) const = default;
};

}  // namespace cleave
