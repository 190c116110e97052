#include <utility>

#include "cleave/core/error.h"
#include "cleave/spmd/partitioner.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave {
namespace {

AxisList all_axes(const ReshardStep& step) {
  if (!step.axes.empty()) return step.axes;
  AxisList axes;
  for (const DimSpec& dim : step.after.dims)
    axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  return axes;
}

// The op of a step with the attributes that Shardy gives it.
std::string step_op(const ReshardStep& step, AttrDict& attrs) {
  const MeshPtr& mesh = step.after.mesh;
  auto lists = [&](const char* name) {
    attrs.set(name, AxisListsAttr{"sdy.list_of_axis_ref_lists", step.dim_axes, mesh});
  };
  attrs.set("out_sharding", ShardingAttr{step.after});
  switch (step.kind) {
    case StepKind::AllGather:
      lists("gathering_axes");
      return "sdy.all_gather";
    case StepKind::AllSlice:
      lists("slicing_axes");
      return "sdy.all_slice";
    case StepKind::ReduceScatter:
      lists("reduce_scatter_axes");
      return "sdy.reduce_scatter";
    case StepKind::ShardedToPartial:
      lists("axes");
      return "sdy.sharded_to_unreduced";
    case StepKind::AllReduce:
      attrs.set("reduction_axes", AxisListsAttr{"sdy.axis_ref_list", {step.axes}, mesh});
      return "sdy.all_reduce";
    case StepKind::ReplicatedToPartial:
      attrs.set("axes", AxisListsAttr{"sdy.axis_ref_list", {step.axes}, mesh});
      return "sdy.replicated_to_unreduced";
    case StepKind::CollectivePermute:
      return "sdy.collective_permute";
    case StepKind::AllToAll: {
      AllToAllAttr params{{}, mesh};
      for (const auto& move : step.moves)
        params.moves.push_back({move.axes, move.source_dim, move.target_dim});
      attrs.set("params", std::move(params));
      return "sdy.all_to_all";
    }
    case StepKind::Scatter:
    case StepKind::Gather:
    case StepKind::Relabel:
      break;
  }
  attrs.erase("out_sharding");
  attrs.set("sharding", ShardingAttr{step.after});
  return "sdy.reshard";
}

}  // namespace

// Whether the op that the value comes from says what an executor makes of it.
bool Partitioner::is_marked(ValueId value) const {
  const Graph& graph = program_.graph;
  const NodeId producer = graph.value(behind_transfers(graph, value)).producer;
  return producer.valid() && graph.node(producer).attrs.has(kKernelAttr);
}

ValueId Partitioner::reshard(ValueId value, const ShardingSpec& spec, RegionId target,
                             DType dtype) {
  Type type = program_.graph.type(value);
  const ReshardPlan plan = resharder_.plan(spec_of(value), spec, type.shape, type.dtype);
  bool spills = is_marked(value);
  for (const ReshardStep& step : plan.steps) {
    AttrDict attrs;
    if (std::exchange(spills, false)) attrs.set(kSpillsAttr, UnitAttr{});
    const std::string op = step_op(step, attrs);
    attrs.set("cleave.step", string_attr(std::string(name(step.kind))));
    attrs.set("cleave.axes", string_attr(to_string(all_axes(step), *step.after.mesh)));
    attrs.set("cleave.for", string_attr(asking_));
    const NodeId id = add(op, {value}, {type}, std::move(attrs), {step.after}, target);
    value = program_.graph.node(id).results[0];
    if (type.dtype == dtype || step.after.is_partial()) continue;
    value = convert(value, dtype, target);
    type.dtype = dtype;
  }
  internal_check(spec_of(value).same_layout(spec), "a reshard ends in another layout");
  return value;
}

}  // namespace cleave
