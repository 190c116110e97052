#include "cleave/plan/constraints.h"

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave::plan {
namespace {

class Constrainer {
 public:
  explicit Constrainer(const BoundPlan& bound)
      : bound_(bound), graph_(apply(bound)), rewrite_(graph_), mesh_(mesh_of_xla()) {}

  Graph run() {
    transform_shardings(graph_, [&](const ShardingSpec& spec) { return here(spec); });
    const RegionId body = graph_.find_function(bound_.plan.entry)->body;
    constrain_arguments(body);
    std::vector<NodeId> nodes;
    graph_.walk(body, [&](NodeId id) { nodes.push_back(id); });
    for (const NodeId id : nodes) constrain(id);
    for (size_t i = 0; i < bound_.values.size(); ++i) constrain_region_argument(i);
    rewrite_.apply();
    graph_.meshes = {mesh_};
    return std::move(graph_);
  }

 private:
  MeshPtr mesh_of_xla() const {
    Mesh mesh = *bound_.plan.mesh;
    mesh.name = "mesh";  // JAX knows no other name
    return std::make_shared<const Mesh>(std::move(mesh));
  }

  ShardingSpec here(ShardingSpec spec) const {
    spec.mesh = mesh_;
    return spec;
  }

  // The constraint is not placed yet.
  NodeId constraint(ValueId value, ShardingSpec spec) {
    spec.partial.clear();
    spec.partial_op = ReduceOp::Sum;
    AttrDict attrs;
    attrs.set("sharding", ShardingAttr{here(std::move(spec))});
    return graph_.add_node("sdy.sharding_constraint", {value}, {Type(graph_.type(value))},
                           std::move(attrs));
  }

  // What follows sees the value behind its constraint.
  void replace(ValueId value, NodeId constraint) {
    rewrite_.replace_uses(value, graph_.node(constraint).results[0], constraint);
  }

  void constrain_arguments(RegionId body) {
    Function& function = *graph_.find_function(bound_.plan.entry);
    const auto make_even = [&](AttrDict& attrs, const Shape& shape) -> std::optional<ShardingSpec> {
      const ShardingSpec* spec = sharding_in(attrs);
      if (!spec) return std::nullopt;
      const ShardingSpec planned = *spec, even = even_part(planned, shape);
      attrs.set(kShardingAttr, ShardingAttr{even});
      return even.same_layout(planned) ? std::nullopt : std::optional(planned);
    };
    const std::vector<ValueId> arguments = graph_.region(body).args;
    for (size_t i = 0; i < function.arg_attrs.size(); ++i)
      if (const auto planned = make_even(function.arg_attrs[i], function.arg_types[i].shape)) {
        const NodeId id = constraint(arguments[i], *planned);
        rewrite_.insert_at_start(body, id);
        replace(arguments[i], id);
      }
    for (size_t i = 0; i < function.result_attrs.size(); ++i)
      make_even(function.result_attrs[i], function.result_types[i].shape);
  }

  void constrain(NodeId id) {
    if (is<op::Reshard>(graph_.node(id))) return constrain_reshard(id);
    if (!graph_.node(id).attrs.has(kPlannedAttr)) return;
    const std::vector<ShardingSpec> specs = get_shardings(graph_.node(id), kShardingAttr);
    graph_.node(id).attrs.erase(kShardingAttr);
    graph_.node(id).attrs.erase(kPlannedAttr);
    const std::vector<ValueId> results = graph_.node(id).results;
    for (size_t i = 0; i < results.size(); ++i) {
      if (graph_.type(results[i]).shape.empty()) continue;
      const NodeId added = constraint(results[i], specs[i]);
      rewrite_.insert_after(id, added);
      replace(results[i], added);
    }
  }

  void constrain_reshard(NodeId id) {
    const ValueId result = graph_.node(id).results[0];
    const NodeId added = constraint(graph_.node(id).operands[0], *get_sharding(graph_, result));
    rewrite_.insert_before(id, added);
    rewrite_.replace_uses(result, graph_.node(added).results[0]);
    rewrite_.erase(id);
  }

  // What a loop carries lies in its body as outside.
  void constrain_region_argument(size_t index) {
    const ValueId value = bound_.values[index];
    const ShardingSpec& spec = bound_.plan.values[index].spec;
    const Value& argument = graph_.value(value);
    if (argument.producer.valid() || argument.region == bound_.body()) return;
    if (!spec.mesh || argument.type.shape.empty()) return;
    const RegionId region = argument.region;
    const NodeId added = constraint(value, spec);
    rewrite_.insert_at_start(region, added);
    replace(value, added);
  }

  const BoundPlan& bound_;
  Graph graph_;
  GraphRewrite rewrite_;
  const MeshPtr mesh_;
};

}  // namespace

ShardingSpec even_part(ShardingSpec spec, const Shape& shape) {
  spec.partial.clear();
  spec.partial_op = ReduceOp::Sum;
  for (size_t d = 0; d < spec.rank(); ++d)
    if (shape[d] % total_size(spec.dims[d].axes) != 0) spec.dims[d].axes.clear();
  return spec;
}

Graph with_constraints(const Plan& plan, const Graph& graph) {
  const Graph flat = flatten(graph, plan.entry);
  return Constrainer(bind(plan, flat)).run();
}

}  // namespace cleave::plan
