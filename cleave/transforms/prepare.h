#pragma once

#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/transforms/region_copy.h"

namespace cleave {

enum class DiffMode : uint8_t { Forward, Reverse };

// A copy of a function that is easy to differentiate, in a region that belongs to nobody: calls are
// inlined where something flows through them, and what has no rule of its own but is made of ops
// that have one is taken apart: implicit broadcasts, maps, reductions with any body, batch norms,
// tuples. In reverse mode, loops that count become scans.
RegionId prepare(Graph& graph, std::string_view function, const std::vector<size_t>& args,
                 DiffMode mode);

// ---- parts of it, by op; each gives the values of the node's results, or nothing where the node
// is none of theirs (cleave/transforms/expand.cc)

// The body of scalars on whole arrays: constants become splats.
std::vector<ValueId> inline_scalars(GraphBuilder& b, RegionId body,
                                    const std::vector<ValueId>& args, const Shape& shape);
std::vector<ValueId> expand(GraphBuilder& b, const Node& node,
                            const std::vector<ValueId>& operands);
// Calls of LAPACK: triangular solves, QR (cleave/transforms/expand_calls.cc).
std::vector<ValueId> expand_call(GraphBuilder& b, const Node& node,
                                 const std::vector<ValueId>& operands);
// dynamic_gather, dynamic_pad, ... whose sizes are constants.
std::vector<ValueId> expand_dynamic_sizes(GraphBuilder& b, const Node& node,
                                          const std::vector<ValueId>& operands);
// Scatters of several operands, one by one where each has a body of its own; any body where no two
// windows meet (cleave/transforms/expand_bodies.cc).
std::vector<ValueId> expand_scatter(GraphBuilder& b, const Node& node,
                                    const std::vector<ValueId>& operands);
// all_reduce and reduce_scatter by products and other bodies: the parts of all devices, folded.
std::vector<ValueId> expand_collective(GraphBuilder& b, const Node& node,
                                       const std::vector<ValueId>& operands);
// A loop that counts from a constant to a constant in steps of a constant:
//   while (i < 10) { ...; i += 1 }
struct CountedLoop {
  size_t counter = 0;  // its place among the carried values
  int64_t begin = 0, step = 1, trips = 0;
};
bool find_counted_loop(const Graph& graph, const Node& node, const ValueTable& table,
                       CountedLoop& loop);

}  // namespace cleave
