#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// Whether a node ends a region; also for ops that are not registered ("return").
bool is_terminator(const Node& node);

// Whether the op may go when its results are not used: it, and everything inside it, has no effect.
bool is_removable(const Graph& graph, const Node& node);

}  // namespace cleave
