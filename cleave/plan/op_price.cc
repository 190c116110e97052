#include "cleave/plan/op_price.h"

#include <algorithm>

#include "cleave/analyze/program_cost.h"
#include "cleave/core/shard_layout.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"

namespace cleave::plan {
namespace {

bool is_ranked(const Type& type) { return type.is_tensor() && !type.unranked; }

}  // namespace

OpPrice::OpPrice(const Graph& graph, const Node& node, const MeshPtr& mesh,
                 const MachineProfile& profile)
    : profile_(profile), is_plain_(!node.def->localize && node.regions.empty()) {
  Graph& alone = program_.graph;
  Function function;
  function.name = "op";
  function.body = alone.add_region();
  Cloner clone(graph, alone, ValueMap::sparse());
  std::vector<ValueId> operands;
  for (ValueId operand : node.operands) {
    const Type& type = graph.type(operand);
    function.arg_types.push_back(type);
    operands.push_back(alone.add_argument(function.body, type));
  }
  // What a body takes from outside is whole on every device.
  for (ValueId captured : captured_values(graph, node.regions)) {
    function.arg_types.push_back(graph.type(captured));
    clone.map(captured, alone.add_argument(function.body, graph.type(captured)));
  }
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(graph.type(result));
  function.result_types = types;
  node_ = alone.add_node_like(node, operands, types, node.attrs);
  alone.node(node_).attrs.erase("sdy.sharding");
  alone.append(function.body, node_);
  for (RegionId region : node.regions) clone.region(region, alone.add_region(node_));
  const NodeId end = alone.add_node("func.return", alone.node(node_).results, {});
  alone.append(function.body, end);
  alone.functions.push_back(std::move(function));
  program_.mesh = mesh;
  program_.entry = "op";
  program_.layouts.resize(alone.num_values());
  if (is_plain_) local_ = alone;
}

double OpPrice::seconds(const std::vector<ShardingSpec>& operands,
                        const std::vector<ShardingSpec>& results) {
  if (is_plain_) return local_seconds(operands, results);
  const Instance instance = instantiate(program(operands, results), program_.mesh->device_at(0));
  double seconds = 0;
  const Region& body = instance.graph.region(instance.graph.functions[0].body);
  for (size_t i = 0; i + 1 < body.nodes.size(); ++i)
    seconds += analyze::node_seconds(program_, instance, body.nodes[i], profile_);
  return seconds;
}

const Program& OpPrice::program(const std::vector<ShardingSpec>& operands,
                                const std::vector<ShardingSpec>& results) {
  const Node& node = program_.graph.node(node_);
  for (size_t i = 0; i < operands.size(); ++i)
    program_.layouts[node.operands[i].index].spec = operands[i];
  for (size_t i = 0; i < results.size(); ++i)
    program_.layouts[node.results[i].index].spec = results[i];
  return program_;
}

double OpPrice::local_seconds(const std::vector<ShardingSpec>& operands,
                              const std::vector<ShardingSpec>& results) {
  const Node& whole = program_.graph.node(node_);
  auto set = [&](ValueId value, const ShardingSpec& spec) {
    const Type& type = program_.graph.type(value);
    if (spec.mesh && is_ranked(type))
      local_.value(value).type.shape = local_shape(spec, type.shape);
  };
  for (size_t i = 0; i < operands.size(); ++i) set(whole.operands[i], operands[i]);
  for (size_t i = 0; i < results.size(); ++i) set(whole.results[i], results[i]);
  if (has_nothing_to_compute()) return 0;
  return analyze::node_seconds(local_, local_.node(node_), profile_);
}

// As in a device's program: no op runs for results without elements.
bool OpPrice::has_nothing_to_compute() const {
  const Node& node = local_.node(node_);
  return !node.results.empty() && node.def->has(kPure) &&
         std::ranges::all_of(node.results, [&](ValueId result) {
           const Type& type = local_.type(result);
           return is_ranked(type) && num_elements(type.shape) == 0;
         });
}

}  // namespace cleave::plan
