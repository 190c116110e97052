#include <map>
#include <utility>

#include "cleave/graph/flow.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/call_graph.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {

void import_function_calls(Graph& graph, bool add_edges) {
  const std::vector<NodeId> calls = calls_in_post_order(graph);
  if (calls.empty()) return;
  GraphRewrite rewrite(graph);
  std::map<std::string, RegionId> moved;
  for (NodeId call : calls) {
    const std::string callee(callee_name(graph.node(call)));
    const int index = function_named(graph, callee);
    const Function& function = graph.functions[index];
    std::vector<Type> types;
    for (ValueId result : graph.node(call).results) types.push_back(graph.type(result));
    AttrDict attrs;
    for (const NamedAttribute& attr : graph.node(call).attrs.entries())
      if (attr.name != kShardingAttr && attr.name != "callee" && attr.name != "no_inline")
        attrs.set(attr.name, attr.value);
    attrs.set("name", string_attr(original_name(function)));
    auto in = shardings_of(function.arg_attrs, function.arg_types);
    if (!in.empty()) attrs.set("in_shardings", ShardingsAttr{std::move(in)});
    auto out = get_shardings(graph.node(call), kShardingAttr);
    if (!out.empty()) attrs.set("out_shardings", ShardingsAttr{std::move(out)});
    if (const Attribute* thread = function.attrs.find(kExecutionThread))
      attrs.set(kExecutionThread, *thread);
    const std::vector<ValueId> operands = graph.node(call).operands;
    const NodeId computation =
        graph.add_node("sdy.named_computation", operands, std::move(types), std::move(attrs));
    RegionId body;
    if (auto it = moved.find(callee); it != moved.end()) {
      body = clone_region(graph, it->second);
    } else {
      body = graph.functions[index].body;
      retarget_terminator(graph, body, "sdy.return");
      moved.emplace(callee, body);
    }
    graph.node(computation).regions.push_back(body);
    graph.region(body).owner = computation;
    // In place: the call may stand in a body that has moved already.
    graph.insert_before(call, computation);
    for (size_t r = 0; r < graph.node(call).results.size(); ++r)
      rewrite.replace_uses(graph.node(call).results[r], graph.node(computation).results[r]);
    rewrite.erase(call);
  }
  std::erase_if(graph.functions,
                [&](const Function& function) { return moved.contains(function.name); });
  rewrite.apply();
  if (add_edges)
    add_data_flow_edges(graph, [](const Node& node) { return is<op::NamedComputation>(node); });
}

}  // namespace cleave
