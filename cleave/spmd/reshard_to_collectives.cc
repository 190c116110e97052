#include <optional>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/reshard/reshard.h"
#include "cleave/rules/data_flow.h"
#include "cleave/spmd/reshard_passes.h"

namespace cleave {
namespace {

Attribute axis_lists(std::vector<AxisList> lists, const MeshPtr& mesh) {
  return AxisListsAttr{"sdy.list_of_axis_ref_lists", std::move(lists), mesh};
}
Attribute axis_list(AxisList axes, const MeshPtr& mesh) {
  return AxisListsAttr{"sdy.axis_ref_list", {std::move(axes)}, mesh};
}

AttrDict attributes_of(const ReshardStep& step, ReduceOp reduce) {
  AttrDict attrs;
  const MeshPtr& mesh = step.after.mesh;
  switch (step.kind) {
    case StepKind::AllGather:
      attrs.set("gathering_axes", axis_lists(step.dim_axes, mesh));
      break;
    case StepKind::AllSlice:
      attrs.set("slicing_axes", axis_lists(step.dim_axes, mesh));
      break;
    case StepKind::AllToAll:
      attrs.set("params", Attribute(AllToAllAttr{step.moves, mesh}));
      break;
    case StepKind::ReduceScatter:
      attrs.set("reduce_scatter_axes", axis_lists(step.dim_axes, mesh));
      break;
    case StepKind::AllReduce:
      attrs.set("reduction_axes", axis_list(step.axes, mesh));
      break;
    case StepKind::ReplicatedToPartial:
      attrs.set("axes", axis_list(step.axes, mesh));
      break;
    case StepKind::ShardedToPartial:
      attrs.set("axes", axis_lists(step.dim_axes, mesh));
      break;
    case StepKind::CollectivePermute:
    case StepKind::Scatter:
    case StepKind::Gather:
    case StepKind::Relabel:
      break;
  }
  const bool reduces = step.kind == StepKind::AllReduce || step.kind == StepKind::ReduceScatter;
  if (reduces && reduce != ReduceOp::Sum)
    attrs.set("reduction_op", Attribute(EnumAttr{"sdy.reduction_op", std::string(name(reduce))}));
  attrs.set("out_sharding", Attribute(ShardingAttr{step.after}));
  return attrs;
}

class Converter {
 public:
  Converter(Graph& graph, const MachineProfile& profile, bool keep_redundant)
      : graph_(graph), resharder_(profile), rewrite_(graph), keep_redundant_(keep_redundant) {}

  void run() {
    std::vector<NodeId> reshards;
    graph_.walk([&](NodeId id) {
      if (is<op::Reshard>(graph_.node(id))) reshards.push_back(id);
    });
    for (NodeId id : reshards) convert(id);
    rewrite_.apply();
  }

 private:
  void convert(NodeId id) {
    const ValueId input = through_barriers(graph_, graph_.node(id).operands[0]);
    const ValueId result = graph_.node(id).results[0];
    const Type type = graph_.type(input);
    const ShardingSpec target = graph_.node(id).attrs.find("sharding")->as<ShardingAttr>()->spec;
    std::optional<ShardingSpec> source = flowing_sharding(graph_, input);
    if (!source) source = ShardingSpec::closed_replicated(target.mesh, type.rank());
    if (source->mesh->is_maximal() || target.mesh->is_maximal() || !type.has_static_shape()) return;
    const bool same = source->same_layout(target) ||
                      (source->is_fully_replicated() && target.is_fully_replicated());
    if (same && keep_redundant_) return;
    if (!same && !target.is_fully_replicated() && !target.mesh->is_empty() &&
        source->mesh->axes != target.mesh->axes)
      return;
    ShardingSpec closed = target;
    for (DimSpec& dim : closed.dims) dim.open = false, dim.priority.reset();
    closed.replicated.clear();
    if (target.is_fully_replicated() && source->mesh->axes != target.mesh->axes)
      closed.mesh = source->mesh;

    ValueId value = input;
    ReduceOp reduce = source->partial_op;
    if (!same) {
      for (const ReshardStep& step :
           resharder_.plan(*source, closed, type.shape, type.dtype).steps) {
        if (step.kind == StepKind::Relabel) continue;
        const NodeId node = graph_.add_node("sdy." + std::string(name(step.kind)), {value}, {type},
                                            attributes_of(step, reduce));
        graph_.node(node).location = graph_.node(id).location;
        rewrite_.insert_before(id, node);
        value = graph_.node(node).results[0];
        reduce = step.after.partial_op;
      }
    }
    rewrite_.replace_uses(result, value);
    rewrite_.erase(id);
  }

  Graph& graph_;
  Resharder resharder_;
  GraphRewrite rewrite_;
  bool keep_redundant_;
};

}  // namespace

ValueId through_barriers(const Graph& graph, ValueId value) {
  while (true) {
    const NodeId producer = graph.value(value).producer;
    if (!producer.valid() || !is<op::PropagationBarrier>(graph.node(producer))) return value;
    value = graph.node(producer).operands[0];
  }
}

std::optional<ShardingSpec> flowing_sharding(const Graph& graph, ValueId value) {
  if (auto spec = get_sharding(graph, value)) return spec;
  if (graph.value(value).producer.valid()) return std::nullopt;
  const NodeId op = data_flow_op_of(graph, value);
  if (!op.valid()) return std::nullopt;
  const ValueId owner = edge_owner(graph, value);
  return owner.valid() && owner != value ? get_sharding(graph, owner) : std::nullopt;
}

void convert_reshards_to_collectives(Graph& graph, const MachineProfile& profile,
                                     bool keep_redundant) {
  Converter(graph, profile, keep_redundant).run();
}

}  // namespace cleave
