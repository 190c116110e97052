#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/graph/local_op.h"

namespace cleave {

// An op that is done twice if a dimension is cut: first on what each device has, then on the
// results of all devices. Only candidates move between devices, not the whole dimension.
//
//   top_k 3 of 1000 over 4 devices: 3 of 250 each; then 3 of those 12
//   argmax of 1000 over 4 devices:  1 of 250 each; then 1 of those 4
//
// On a device the first round is the op itself with the attribute `cleave.parts`; a result has a
// dimension in front, of one element here and of as many as there are devices in all.
struct RoundsForm {
  size_t operands = 1;  // so many are cut; the others enter both rounds whole
  int64_t dim = 0;      // along this dimension
};

// Nothing if the op cannot be done so, or if `parts` candidates of each row would be as many bytes
// as the row.
std::optional<RoundsForm> rounds_form(const Graph& graph, const Node& node, int64_t parts);

// A running reduction (cumsum) along a cut dimension: of what each device has, and then joined with
// what the devices before it have in all, of which one element for each row and device moves.
//   1 1 1 | 1 1 1 | 1 1   ->   1 2 3 | 1 2 3 | 1 2   and   3 6 8   ->   1 2 3 | 4 5 6 | 7 8
// The last step is "cleave.running_join" of the parts and the running totals {devices, rows...}.
struct RunningForm {
  int64_t dim = 0;
  bool reverse = false;
  std::string op;  // "stablehlo.add"
};
std::optional<RunningForm> running_form(const Graph& graph, const Node& node);

// The first round of a reduce, and of a running reduction, on one device.
std::vector<ValueId> local_reduce_round(LocalOp& op);
std::vector<ValueId> local_running_round(LocalOp& op);

}  // namespace cleave
