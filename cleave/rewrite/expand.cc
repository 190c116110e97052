#include <algorithm>

#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/rewrite.h"
#include "cleave/rewrite/rewriter.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

bool have_static_types(const Graph& graph, const std::vector<ValueId>& values) {
  return std::all_of(values.begin(), values.end(), [&](ValueId value) {
    const Type& type = graph.type(value);
    return type.is_tensor() && type.has_static_shape() && has_kernels(type.dtype);
  });
}

bool may_expand(const Graph& graph, const Node& node) {
  return node.def->expands_in(kInPrograms) && !is_pinned(node) &&
         have_static_types(graph, node.operands) && have_static_types(graph, node.results);
}

}  // namespace

bool expand(Graph& graph) {
  // Outer nodes come before those inside them, which an expansion may move.
  std::vector<NodeId> nodes;
  graph.walk([&](NodeId id) {
    if (may_expand(graph, graph.node(id))) nodes.push_back(id);
  });
  if (nodes.empty()) return false;
  GraphRewrite rewrite(graph);
  bool changed = false;
  const RegionId aside = graph.add_region();  // holds new nodes until they have their place
  for (NodeId id : nodes) {
    GraphBuilder b(graph, aside);
    const Node node = graph.node(id);
    const std::vector<ValueId> results = node.def->expand(b, node, node.operands, kInPrograms);
    for (NodeId made : graph.region(aside).nodes)
      if (!results.empty()) rewrite.insert_before(id, made);
    graph.region(aside).nodes.clear();
    if (results.empty()) continue;
    for (size_t i = 0; i < results.size(); ++i) rewrite.replace_uses(node.results[i], results[i]);
    rewrite.erase(id);
    changed = true;
  }
  if (changed) rewrite.apply();
  return changed;
}

}  // namespace cleave
