#include <utility>

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/call_graph.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void insert_call_reshards(Graph& graph) {
  GraphRewrite rewrite(graph);
  auto same = [](const ShardingSpec& a, const std::optional<ShardingSpec>& b) {
    if (a.is_fully_replicated()) return !b || b->is_fully_replicated();
    return b && a.same_layout(*b);
  };
  graph.walk([&](NodeId id) {
    if (!is<op::Call>(graph.node(id))) return;
    const Function& callee = graph.functions[function_called(graph, graph.node(id))];
    std::vector<ShardingSpec> returned = shardings_of(callee.result_attrs, callee.result_types);
    const std::vector<ShardingSpec> wanted = get_shardings(graph.node(id), kShardingAttr);
    if (returned.empty()) {
      if (wanted.empty()) return;
      for (const ShardingSpec& spec : wanted)
        returned.push_back(ShardingSpec::closed_replicated(spec.mesh, spec.rank()));
    }
    const std::vector<ValueId> results = graph.node(id).results;
    // Each right behind the call: those of later results stand first.
    for (size_t i = results.size(); i-- > 0;) {
      const auto want = i < wanted.size() ? std::optional(wanted[i]) : std::nullopt;
      if (same(returned[i], want)) continue;
      AttrDict attrs;
      attrs.set("sharding", ShardingAttr{want ? *want
                                              : ShardingSpec::closed_replicated(
                                                    returned[i].mesh, returned[i].rank())});
      const Type type = graph.type(results[i]);
      const NodeId reshard = graph.add_node("sdy.reshard", {results[i]}, {type}, std::move(attrs));
      rewrite.insert_after(id, reshard);
      rewrite.replace_uses(results[i], graph.node(reshard).results[0], reshard);
    }
    set_shardings(graph.node(id), kShardingAttr, std::move(returned));
  });
  rewrite.apply();
}

}  // namespace cleave
