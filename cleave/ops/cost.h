#pragma once

#include <span>

#include "cleave/core/op_cost.h"
#include "cleave/graph/graph.h"

namespace cleave {

class Array;  // cleave/kernels/array.h

// The work of a node on the shapes that it has: OpDef::cost, or what a null slot means.
//
//   dot_general  tensor<8x16xf32> x tensor<16x4xf32>   2*8*16*4 flops, a matmul
//   add          tensor<8xf32>                         8 flops, 64 bytes read, 32 written
//   custom_call without a cost                         the bytes of operands and results
//   constant, terminator, while, call                  nothing: what is inside is counted there
//   collective                                         nothing: its price is that of its links
OpCost op_cost(const Graph& graph, const Node& node);

// Costs that several ops share; each is a CostFn.
OpCost default_cost(const Graph& graph, const Node& node);  // what a null slot means
OpCost no_cost(const Graph& graph, const Node& node);       // other names for the same elements
OpCost moved_cost(const Graph& graph, const Node& node);    // reads and writes what it returns

// What the kernel of a node allocates beside its results: OpDef::workspace, or what a null slot
// means. No element is read; buffers of libraries are not counted.
int64_t op_workspace(const Graph& graph, const Node& node, std::span<const Array> operands);
// A WorkspaceFn of kernels that copy operands with gaps before they begin: gather, scatter, sort.
int64_t strided_operands_workspace(const Graph& graph, const Node& node,
                                   std::span<const Array> operands);

}  // namespace cleave
