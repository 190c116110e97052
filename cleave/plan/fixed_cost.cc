#include "cleave/plan/fixed_cost.h"

#include <algorithm>

#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/program_memory.h"
#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/spmd/manual_border.h"
#include "cleave/spmd/partition.h"

namespace cleave::plan {
namespace {

constexpr const char* kEntry = "cleave.alone";

// A module whose entry is the op alone, between arguments and results that lie as it says.
Graph alone(const Graph& graph, const Node& manual, NodeId id, const MeshPtr& mesh) {
  Graph module;
  module.meshes = {mesh};
  Cloner clone(graph, module);
  Function entry;
  entry.name = kEntry;
  entry.body = module.add_region();
  const std::vector<ShardingSpec> in = get_shardings(manual, "in_shardings");
  for (size_t i = 0; i < manual.operands.size(); ++i) {
    const Type& type = graph.operand_type(manual, i);
    entry.arg_types.push_back(type);
    entry.arg_attrs.emplace_back();
    if (type.is_tensor())
      entry.arg_attrs[i].set(kShardingAttr, ShardingAttr{manual_border(manual, in[i], type.shape)});
  }
  // An operand that is given twice is two arguments: the copy below sees only one of them.
  std::vector<ValueId> arguments;
  for (const Type& type : entry.arg_types)
    arguments.push_back(module.add_argument(entry.body, type));
  for (size_t i = 0; i < arguments.size(); ++i) clone.map(manual.operands[i], arguments[i]);
  const NodeId copy = clone.copy(id, entry.body);
  module.node(copy).operands = arguments;
  module.append(entry.body, module.add_node("func.return", module.node(copy).results, {}));
  const std::vector<ShardingSpec> out = get_shardings(manual, "out_shardings");
  for (size_t i = 0; i < manual.results.size(); ++i) {
    const Type& type = graph.result_type(manual, i);
    entry.result_types.push_back(type);
    entry.result_attrs.emplace_back();
    if (type.is_tensor())
      entry.result_attrs[i].set(kShardingAttr,
                                ShardingAttr{manual_border(manual, out[i], type.shape)});
  }
  module.functions.push_back(std::move(entry));
  // Functions that the body calls; the first one is the entry of the flat module.
  for (size_t f = 1; f < graph.functions.size(); ++f) {
    const Function& function = graph.functions[f];
    if (function.body.valid()) clone.function(function);
  }
  return module;
}

}  // namespace

double FixedCost::seconds() const {
  double seconds = compute_seconds;
  for (const CollectiveTotal& total : collectives) seconds += total.seconds;
  return seconds;
}

FixedCost manual_cost(const Graph& graph, NodeId id, const MeshPtr& mesh,
                      const MachineProfile& profile, const ReshardOptions& reshard, int64_t trips) {
  const Node& manual = graph.node(id);
  PartitionOptions options;
  options.entry = kEntry;
  options.mesh = mesh;
  options.profile = &profile;
  options.reshard = reshard;
  options.verified = true;
  const Program program = partition(alone(graph, manual, id, mesh), options);
  const analyze::ProgramCost cost = analyze::program_cost(program, profile, trips);
  FixedCost fixed;
  fixed.compute_seconds = cost.compute_seconds;
  for (const analyze::CollectiveCostSum& sum : cost.transfers)
    fixed.collectives.push_back({sum.kind, sum.axes, sum.executions, sum.bytes, sum.seconds});
  int64_t held = 0;
  const Instance instance = instantiate_shapes(program, mesh->device_at(0));
  const Function& entry = *instance.graph.find_function(kEntry);
  for (const std::vector<Type>* types : {&entry.arg_types, &entry.result_types})
    for (const Type& type : *types)
      if (type.is_tensor() && type.has_static_shape()) held += type.byte_count();
  fixed.bytes = std::max<int64_t>(0, analyze::program_memory(program).peak - held);
  return fixed;
}

}  // namespace cleave::plan
