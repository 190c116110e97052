#include "cleave/transforms/trace.h"

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

// The function with types inferred anew from other argument types.
Graph with_types(const Graph& graph, std::span<const Tensor> args) {
  Graph changed = graph;
  Function& function = changed.functions[0];
  const std::vector<ValueId> formal = changed.region(function.body).args;
  for (size_t i = 0; i < args.size(); ++i) {
    changed.value(formal[i]).type = args[i].type();
    function.arg_types[i] = args[i].type();
  }
  const std::vector<NodeId> nodes = changed.region(function.body).nodes;
  for (NodeId id : nodes) {
    const Node& node = changed.node(id);
    if (!node.def || !node.def->infer || node.def->has(kTerminator)) continue;
    if (!node.regions.empty() && node.def->has(kDataFlow))
      throw_user("{}: cannot be replayed with other shapes; trace the function again", node.name);
    const std::vector<Type> types = node.def->infer(changed, node);
    for (size_t i = 0; i < types.size(); ++i) changed.value(node.results[i]).type = types[i];
  }
  const std::vector<ValueId> returned = changed.node(changed.terminator(function.body)).operands;
  for (size_t i = 0; i < returned.size(); ++i) function.result_types[i] = changed.type(returned[i]);
  return changed;
}

}  // namespace

std::string Trace::text() const { return print_module(graph); }

std::vector<Tensor> Trace::operator()(std::span<const Tensor> args) const {
  if (args.size() != num_args())
    throw_user("a trace of {} arguments is replayed with {}", num_args(), args.size());
  std::vector<Tensor> all(args.begin(), args.end());
  all.insert(all.end(), captures.begin(), captures.end());
  bool same = true;
  for (size_t i = 0; i < args.size(); ++i)
    same &= args[i].type() == graph.functions[0].arg_types[i];
  if (same) return replay(graph, graph.functions[0], all);
  const Graph changed = with_types(graph, all);
  return replay(changed, changed.functions[0], all);
}

Trace trace_detail::finish(TraceScope& scope, const std::vector<Tensor>& results,
                           std::vector<std::string> arg_names,
                           std::vector<std::string> result_names) {
  Traced traced = scope.finish(results);
  return {std::move(traced.graph), std::move(traced.captures), std::move(arg_names),
          std::move(result_names)};
}

}  // namespace cleave
