#pragma once

#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

// What the families of shape ops, with static and with dynamic sizes, share.
namespace cleave {

// A shape with its one dynamic size computed from the number of elements; throws if that is
// impossible.
Shape resolve_shape(const Node& node, Shape shape, int64_t elements);
// Dimension i of the operand goes to dims[i] of the result, and has its size or 1.
// Throws unless the padding of every dimension is one that sizes can hold.
void require_padding(const Node& node, const Shape& shape, const Shape& low, const Shape& high,
                     const Shape& interior);
// Throws unless sizes that were computed are sizes, and those that the result declares.
void require_sizes(const Node& node, const Shape& sizes, const Type& declared);
void require_broadcastable(const Node& node, const Type& operand, const Type& result,
                           const std::vector<int64_t>& dims);
OpShardingRule broadcast_rule(const Graph& graph, const Node& node,
                              const std::vector<int64_t>& dims);
// Operands 0 (elements) and 1 (padding value): both together, or the elements alone under
// reductions of which equal parts are a fixed point; under a sum also if the value is a constant
// zero.
PartialTransfer pad_partial(const Graph& graph, const Node& node);
// Whether a value is a constant of zeros.
bool is_zero_constant(const Graph& graph, ValueId value);

}  // namespace cleave
