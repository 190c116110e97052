#pragma once

#include <map>
#include <utility>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave::analyze {

// What a framework without a compiler runs as one kernel: an op of its library. A module has the
// parts of such ops, not their names, so they are known by what they compute from.
//
//   - A function of one tensor is computed where it is used: activations, norms, softmax, and the
//     statistics of rows in them. So is one of two tensors, such as the derivative of an
//     activation or of a norm by its input and what comes back. Vectors and statistics of rows do
//     not count.
//   - What would need a third tensor reads what was computed from two of them from memory.
//   - Conversions before and after products of matrices, clamps (relu), concatenations, pads and
//     gathers are ops by themselves, and tables of positions (rotary embeddings) are in memory.
inline constexpr size_t kLibraryTensors = 2;

using Users = std::vector<std::vector<NodeId>>;  // by value

// Values that the op takes from memory and returns to it because a library runs it by itself; empty
// if it may be part of one.
std::vector<ValueId> values_of_library_op(const Graph& graph, const Node& node, const Users& users);
// Whether a value is a tensor to an op whose largest operand has so many bytes: it is of such a
// size and no statistic, or it is a table of positions.
bool counts_as_tensor(const Graph& graph, ValueId value, double largest_bytes);

// The sum of a product and of a vector along its rows.
bool is_bias_of_product(const Graph& graph, const Node& node);
// Computed from positions and constants alone.
bool is_made_of_positions(const Graph& graph, ValueId value);

// What a framework keeps for the derivative of a clamp, such as a rectifier, is what came out of
// it: the next op has it anyway. In the module, the derivative compares what went in. By what goes
// into a maximum or minimum with a constant, what comes out; of each value the first one.
std::map<ValueId, ValueId> clamped_values(const Graph& graph);
// Lets comparisons of such a value with a constant, which derivatives make, take what came out.
// Returns their nodes and the operand. Values then differ where the clamp's operands are equal.
std::vector<std::pair<NodeId, size_t>> read_clamped(Graph& graph);

// By node: whether it is part of an update of arguments that are given away, as an optimizer makes
// it: elementwise ops between such arguments and the results that take their place. What has no
// such argument in it, such as a scaled gradient, belongs to it if nothing else uses it.
std::vector<bool> update_ops(const Graph& graph, RegionId region,
                             const std::vector<bool>& is_donated);

}  // namespace cleave::analyze
