#pragma once

#include <functional>

#include "cleave/graph/graph.h"

// Changes of a module that leave its results as they are, bit for bit (NaNs stay NaNs, but may
// change their payload). Each works on every function and region, and says whether it has changed
// anything. Nodes that talk to other devices or have effects stay, in their order; nodes with a
// sharding of their own stay as well, since the sharding says more than the value.
namespace cleave {

// Calls of functions with a body become the body's nodes; recursive ones stay. `copied` is told of
// every node that is made as the copy of another one. Private functions that nothing calls any more
// are removed.
bool inline_calls(Graph& graph, const std::function<void(NodeId from, NodeId to)>& copied = {});

// Other spellings of one op become one: dot -> dot_general, broadcast -> broadcast_in_dim, clamp ->
// minimum of maximum, a reduction over dimensions of size 1 -> its operator.
bool canonicalize(Graph& graph);

// Ops that consist of others become those, so that they are fused and planned like them:
// broadcasting ops of CHLO, scan, map, torch_index_select, einsum, ops with sizes as operands if
// the sizes of the result are known, batch_norm_*, softmax and layer_norm. Sums of the latter may
// be added in another order.
bool expand(Graph& graph);

// Ops on constants become constants, if the result is small or one value everywhere.
bool fold_constants(Graph& graph);

// Only changes that are exact in IEEE arithmetic:
//   x - 0, x + (-0), x * 1, x / 1 -> x        but not x + 0, which turns -0 into 0
//   x / 4 -> x * 0.25                         powers of two alone
//   convert to its own type, not of not, select of a constant, ...
// For integers, x + 0, x * 0, x & x and the like are simplified as well.
bool simplify_arithmetic(Graph& graph);

// Ops that move elements: reshape of reshape, transpose of transpose, broadcast of broadcast,
// transposes and broadcasts that only move or add dimensions of size 1 (-> reshape), a transpose
// into or out of a dot_general (-> its dimension numbers).
bool simplify_views(Graph& graph);

// Pure nodes that compute the same from the same become one; regions are compared in full. Values
// from around a loop or branch serve inside it; bodies of reductions stand alone.
bool merge_common(Graph& graph);

// Pure nodes that nothing reads are removed, and so are loops and branches without effects.
bool remove_dead(Graph& graph);

// All of the above, until nothing changes (at most `rounds` times).
bool simplify(Graph& graph, int rounds = 4);

}  // namespace cleave
