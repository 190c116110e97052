#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"

namespace cleave::plan {

// The function `entry` alone, with every call, composite and named computation replaced by the body
// of what it calls, and without ops whose results nothing uses. Meshes and shardings stay. This is
// what every solver plans and what plans are applied to, so that all of them speak of one program.
// Throws UserError if there is no such function or it calls itself.
Graph flatten(const Graph& graph, std::string_view entry);
// The same, with every op marked by what the machine's executor makes of it (analyze/kernels.h):
// what is priced.
Graph flatten(const Graph& graph, std::string_view entry, const MachineProfile& profile);

// Names that survive printing and reading again. `graph` is flat.
//   an argument       its name in the text, else arg<i>
//   an op             <kind>.<n>, the n-th of its kind in its region; in a region of another op
//                     after that op's name and the region's number: while.0/1/add.2
//   a result          its op; <op>#<i> for the i-th of several
//   the terminator    return
//   region arguments  while.0/1/arg2
struct Names {
  std::vector<std::string> values;  // by ValueId
  std::vector<std::string> nodes;   // by NodeId; empty: scalar code inside an op
  std::unordered_map<std::string, ValueId> value_of;
  std::unordered_map<std::string, NodeId> node_of;
};
Names name_everything(const Graph& graph, std::string_view entry);

// Sixteen hex digits of everything that a plan depends on: ops, their operands, types and
// attributes but not shardings, names and locations. `graph` is flat.
std::string fingerprint(const Graph& graph, std::string_view entry);

// Whether values flow through the regions of the op, so that the nodes inside are planned: loops
// and branches, not the bodies of reductions.
bool is_planned_inside(const Node& node);

}  // namespace cleave::plan
