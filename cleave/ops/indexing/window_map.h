#pragma once

#include <string_view>

#include "cleave/graph/graph.h"
#include "cleave/kernels/gather_scatter.h"

namespace cleave {

// From the dimension numbers of gather and scatter to a WindowMap, and back; empty lists are left
// out. Both throw UserError if the dimension numbers are missing.
inline constexpr std::string_view kGatherDims = "dimension_numbers";
inline constexpr std::string_view kScatterDims = "scatter_dimension_numbers";
WindowMap gather_map(const Node& node);
WindowMap scatter_map(const Node& node);
Attribute gather_attr(const WindowMap& map);
Attribute scatter_attr(const WindowMap& map);

}  // namespace cleave
