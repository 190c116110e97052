#pragma once

#include "cleave/graph/graph.h"

namespace cleave {

// Whether the regions of an op see only their own arguments, and no value from around it. A pass
// that lets such a region use a value from outside breaks the module.
bool is_isolated(const Node& node);

}  // namespace cleave
