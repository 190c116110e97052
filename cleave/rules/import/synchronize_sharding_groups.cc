#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/rules/import/import_passes.h"
#include "cleave/rules/sharding_groups.h"

namespace cleave {
namespace {

bool is_replicated_and_open(const ShardingSpec& spec) {
  return spec.partial.empty() &&
         std::all_of(spec.dims.begin(), spec.dims.end(),
                     [](const DimSpec& dim) { return dim.axes.empty() && dim.open; });
}

}  // namespace

std::vector<std::string> synchronize_sharding_groups(Graph& graph) {
  std::vector<std::string> warnings;
  const ShardingGroups groups = find_sharding_groups(graph);
  GraphRewrite rewrite(graph);
  for (size_t group = 0; group < groups.members.size(); ++group) {
    const std::vector<ValueId>& members = groups.members[group];
    if (members.size() < 2) continue;
    std::optional<ShardingSpec> common;
    bool conflict = false;
    for (ValueId member : members) {
      const auto spec = get_sharding(graph, member);
      if (!spec || is_replicated_and_open(*spec)) continue;
      if (!common) {
        common = spec;
      } else if (*spec != *common) {
        warnings.push_back(fmt::format(
            "The initial operand shardings on the sharding groups of groupID: {} do not match "
            "({} and {}). Inserting an open sharding constraint to all constrained values. This "
            "can "
            "be caused when shardings from different values are grouped (e.g. from "
            "jax.shard_alike) "
            "but have separate inconsistent sharding constraints on them.",
            group, to_string(*common), to_string(*spec)));
        conflict = true;
        break;
      }
    }
    if (!common) continue;
    if (!conflict) {
      for (ValueId member : members) set_sharding(graph, member, *common);
      continue;
    }
    // Those of later members stand first where several are inserted at one place.
    for (auto it = members.rbegin(); it != members.rend(); ++it) {
      const ValueId member = *it;
      AttrDict attrs;
      attrs.set("sharding",
                ShardingAttr{ShardingSpec::fully_open(common->mesh, graph.type(member).rank())});
      const Type type = graph.type(member);
      const NodeId constraint =
          graph.add_node("sdy.sharding_constraint", {member}, {type}, std::move(attrs));
      const Value& value = graph.value(member);
      if (value.producer.valid()) {
        rewrite.insert_after(value.producer, constraint);
      } else {
        rewrite.insert_at_start(value.region, constraint);
      }
      rewrite.replace_uses(member, graph.node(constraint).results[0], constraint);
    }
  }
  rewrite.apply();
  return warnings;
}

}  // namespace cleave
