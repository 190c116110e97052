#pragma once

#include <string>
#include <string_view>

#include "cleave/graph/graph.h"

namespace cleave {

struct JsonOptions {
  bool rules = true;  // the sharding rule of every op that has one
  bool costs = true;  // flops and bytes of every op that states them
  int indent = -1;    // spaces; -1: one line
};

// A graph as JSON, for tools that do not read MLIR's text; docs/graph-json.md is its schema.
// Tensors have shapes and, if the user fixed one, a sharding; nodes have an op, operands, results
// and attributes (as text), their rule with the sizes of its factors, and their cost.
std::string graph_to_json(const Graph& graph, const JsonOptions& options = {});

// The other way. Rules become `sdy.sharding_rule` attributes if the op has no rule of its own;
// costs are not kept, since ops state them. The graph is verified, as that of parse_module is.
// Throws UserError that names the field.
Graph graph_from_json(std::string_view json);
Graph graph_from_json_unverified(std::string_view json);

}  // namespace cleave
