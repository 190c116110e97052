#pragma once

#include <vector>

#include "cleave/core/axis.h"
#include "cleave/graph/graph.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// The parts in which a planning may use the axes of a mesh beside whole ones, by axis and major to
// minor; empty for an axis that is not cut, and empty altogether if none is. An axis is cut
// if a dimension of the module has no room for all of it, but for a part: two heads on model=8
// cut it into 2 and 4, twelve into 4 and 2.
//
// No more than four parts and whole axes together, of the cuts that concern the most bytes: layouts
// multiply with each. So a mesh of four axes is not cut.
std::vector<AxisList> axis_parts(const Graph& flat, const Mesh& mesh);

// Whether any layout of the plan is by parts of axes.
bool has_sub_axes(const Plan& plan);

}  // namespace cleave::plan
