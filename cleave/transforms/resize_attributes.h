#pragma once

#include "cleave/graph/graph.h"

// The numbers in a trace that come from sizes: attributes of ops, constants, counts.
namespace cleave {

// Throws UserError if a constant has values of its own along a dimension that gets another size.
void check_constant(const Node& constant, size_t dim, int64_t size);
// Writes the attributes of the node for the types that its operands and results have now: bounds of
// whole dimensions, windows over all that came before. Throws UserError if an attribute holds a
// number that may come from a size that changed.
void resize_attributes(const Graph& before, const Node& node, Graph& after, NodeId id);
// Marked counts get their new value; divisors that look like counts are a UserError.
void count_anew(const Graph& before, Graph& after);

}  // namespace cleave
