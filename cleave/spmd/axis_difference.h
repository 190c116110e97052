#pragma once

#include "cleave/core/axis.h"

namespace cleave {

// The parts of the axes of `a` that are not in `b`, sorted and merged.
//   {"x", "y"}, {"y":(1)2}  ->  {"x", "y":(2)2}     with y=4
AxisList difference(const AxisList& a, const AxisList& b);
// What `whole` has beyond its prefix, in order.
//   {"y", "x"}, {"y"}  ->  {"x"}
AxisList suffix_beyond(const AxisList& whole, const AxisList& prefix);

}  // namespace cleave
