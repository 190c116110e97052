#pragma once

#include <optional>

#include "cleave/graph/graph.h"
#include "cleave/kernels/dot.h"

namespace cleave {

// Which dimensions a stablehlo.dot_general or stablehlo.dot pairs; nothing for other ops.
std::optional<DotDims> dot_dims_of(const Graph& graph, const Node& node);

}  // namespace cleave
