#pragma once

#include <vector>

#include "cleave/core/axis.h"
#include "cleave/core/mesh.h"
#include "cleave/machine/profile.h"

namespace cleave {

// The links under one collective: a group of `ranks` devices on `nodes` nodes, `per_node` on each
// (of the worst group if groups differ).
struct GroupLinks {
  int64_t ranks = 1;
  int64_t per_node = 1;
  int64_t nodes = 1;
  bool operator==(const GroupLinks&) const = default;
};

// How the devices along `axes` are spread over nodes. A node holds `devices_per_node` consecutive
// device ids.
//   x=2,y=8 on nodes of 8:   {"y"} -> 8 ranks on 1 node;   {"x"} -> 2 ranks on 2 nodes;
//                            {"x", "y"} -> 16 ranks, 8 on each of 2 nodes
GroupLinks group_links(const Mesh& mesh, const AxisList& axes, const MachineProfile& profile);

// Seconds as a function of bytes: the least of a few lines. Monotone and concave.
struct CostLine {
  double latency;
  double per_byte;
};
class CollectiveCost {
 public:
  CollectiveCost() = default;  // free
  explicit CollectiveCost(std::vector<CostLine> lines) : lines_(std::move(lines)) {}
  double seconds(double bytes) const;
  const std::vector<CostLine>& lines() const { return lines_; }

 private:
  std::vector<CostLine> lines_;
};

// The bytes that one device moves for a buffer of S bytes, over S (see CollectiveProtocol).
double collective_traffic(CollectiveKind kind, int64_t ranks, bool shared_memory);

// `bytes` is the larger side of a device's buffer: the result of an all_gather, the operand of a
// reduce_scatter, the buffer of the others. Free for a group of one.
CollectiveCost collective_cost(CollectiveKind kind, const GroupLinks& links,
                               const MachineProfile& profile);
// Over mesh axes, with the launch by the profile's executor; axes with links of their own in the
// profile are run as phases of a hierarchy, the slower ones on what the faster ones have left.
CollectiveCost collective_cost(CollectiveKind kind, const Mesh& mesh, const AxisList& axes,
                               const MachineProfile& profile);
double collective_seconds(CollectiveKind kind, double bytes, const Mesh& mesh, const AxisList& axes,
                          const MachineProfile& profile);

}  // namespace cleave
