#pragma once

#include <optional>
#include <vector>

#include "cleave/graph/graph.h"

// Ops whose sizes are operands: what can be said of them before they run, because an operand is a
// constant. What is not known is checked when the op runs.
namespace cleave {

// The integers of an operand that a constant makes; nothing if something else makes it.
std::optional<std::vector<int64_t>> constant_operand(const Graph& graph, const Node& node,
                                                     size_t i);
// Throws UserError if operand `i` is a constant, and not one that sizes the result.
void verify_size_operand(const Graph& graph, const Node& node, size_t i);

void verify_dynamic_iota(const Graph& graph, const Node& node);
void verify_dynamic_reshape(const Graph& graph, const Node& node);
void verify_dynamic_broadcast(const Graph& graph, const Node& node);
void verify_dynamic_pad(const Graph& graph, const Node& node);
void verify_real_dynamic_slice(const Graph& graph, const Node& node);

}  // namespace cleave
