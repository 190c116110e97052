#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/discover.h"

namespace cleave {

// Rules are found for one mesh axis. On a mesh of several they must compose: if one combination
// is right along the first axis and another along the second, both together must be right. On a
// mesh of x=2, y=2 matmul has, among others,
//
//   S(0), R -> S(0)        along x, S(1), S(0) -> P(sum) along y:   [S(0), S(1)], [R, S(0)] -> ...
//   S(1), S(0) -> P(sum)   along both: the contracted dimension over 4 devices. Strided, y is the
//                          major axis of all tensors. If the operands disagree about the order,
//                          blocks of different indices meet, and the result is wrong.

enum class AxisOrder : uint8_t {
  Straight,  // x is major if both axes split one dimension
  Strided,   // y is major everywhere
  Mixed,     // x is major in the first operand that both axes split, y in the other tensors
};
std::string_view name(AxisOrder order);

struct MeshDecision {
  std::vector<Placements> operands;  // by mesh axis
  size_t result = 0;
  Placements placement;
  AxisOrder order = AxisOrder::Straight;
  VerdictKind verdict = VerdictKind::Untestable;
  int tests = 0;
  std::string reason;  // if it is refuted or rejected
};
std::string to_string(const MeshDecision& decision);  // "[S(0), S(1)], [R, S(0)] -> [S(0), P(sum)]"

struct MeshReport {
  std::string op;
  std::vector<int> mesh;
  size_t pairs = 0;                         // of valid combinations that have a layout on both axes
  size_t strided = 0;                       // of these, tried with the second axis major too
  std::vector<MeshDecision> refuted;        // straight or strided: per-axis rules do not compose
  std::vector<MeshDecision> mixed_refuted;  // orders that disagree; right to refute
  std::vector<MeshDecision> mixed_valid;    // the order does not matter
  size_t untestable = 0;
};

// Tries every pair of valid combinations of a discovery on a mesh of two axes.
MeshReport check_mesh(const Operator& op, const Discovery& discovery, const std::vector<int>& mesh,
                      const DiscoverOptions& options);
std::string report_mesh(const MeshReport& report);

// Axes x, y, z, ... of these sizes.
MeshPtr mesh_of_sizes(const std::vector<int>& sizes);
// The arrays of all devices of a mesh that represent `value`; see `represent`.
std::optional<std::vector<Array>> represent_on_mesh(const Array& value,
                                                    const Placements& placements,
                                                    const MeshPtr& mesh, Decomposition how,
                                                    NumberStream& random);
MatchResult represents_on_mesh(const std::vector<Array>& devices, const Array& value,
                               const Placements& placements, const MeshPtr& mesh,
                               Tolerance tolerance);

}  // namespace cleave
