#pragma once

#include "cleave/graph/graph.h"
#include "cleave/kernels/gather_scatter.h"

namespace cleave {

// The dimension numbers of gather and scatter, and back. Throw UserError where they are missing.
WindowMap gather_map(const Node& node);
WindowMap scatter_map(const Node& node);
Attribute gather_attr(const WindowMap& map);
Attribute scatter_attr(const WindowMap& map);

}  // namespace cleave
