#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Puts the rule of every op that has one on the op. Returns a message for each kind of op without
// one.
std::vector<std::string> populate_sharding_rules(Graph& graph, bool conservative);

}  // namespace cleave
