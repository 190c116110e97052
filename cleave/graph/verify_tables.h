#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// Throws UserError unless what can be reached from the functions hangs together: ids are in their
// tables, no region or node stands in two places, a value is defined by the node or region that
// lists it, bodies are not empty, literals have their elements, and no size is negative. What a
// reader makes is so by construction; what was built by hand need not be.
void verify_tables(const Graph& graph);

}  // namespace cleave
