#pragma once

#include <span>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

// What the kernel of a node allocates beside its results, from the shapes and strides of its
// operands: operands that it packs, converts, pads or copies. No element is read. Buffers of
// libraries are not counted.
int64_t kernel_workspace(const Graph& graph, const Node& node, std::span<const Array> operands);

// Whether the kernel writes its result into the memory of an operand that nobody else holds:
// elementwise ops of one and two operands, and updates of slices.
bool may_write_in_place(const Node& node);

}  // namespace cleave
