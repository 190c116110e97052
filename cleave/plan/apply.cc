#include "cleave/plan/apply.h"

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/names.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave::plan {
namespace {

class Applier {
 public:
  explicit Applier(const BoundPlan& bound)
      : bound_(bound),
        plan_(bound.plan),
        graph_(bound.flat),
        rewrite_(graph_),
        mesh_(named_mesh()) {}

  Graph run() {
    shard_arguments();
    for (size_t i = 0; i < plan_.copies.size(); ++i) add_copy(plan_.copies[i], bound_.copies[i]);
    for (size_t i = 0; i < plan_.ops.size(); ++i) add_op(plan_.ops[i], bound_.ops[i]);
    rewrite_.apply();
    shard_results();
    graph_.meshes = {mesh_};
    graph_.functions_before_mesh.clear();
    return std::move(graph_);
  }

 private:
  MeshPtr named_mesh() const {
    Mesh mesh = *plan_.mesh;
    if (mesh.name.empty()) mesh.name = "mesh";
    return std::make_shared<const Mesh>(std::move(mesh));
  }

  ShardingSpec here(ShardingSpec spec) const {
    spec.mesh = mesh_;
    return spec;
  }

  void shard_arguments() {
    Function& function = *graph_.find_function(plan_.entry);
    const size_t count = graph_.region(function.body).args.size();
    function.arg_attrs.resize(count);
    for (size_t i = 0; i < count; ++i)
      if (plan_.values[i].spec.mesh)
        function.arg_attrs[i].set(kShardingAttr, ShardingAttr{here(plan_.values[i].spec)});
  }

  void shard_results() {
    Function& function = *graph_.find_function(plan_.entry);
    const std::vector<PlannedOperand>& returned = bound_.end->operands;
    function.result_attrs.resize(returned.size());
    for (size_t i = 0; i < returned.size(); ++i)
      if (returned[i].spec.mesh)
        function.result_attrs[i].set(kShardingAttr, ShardingAttr{here(returned[i].spec)});
  }

  // The value in the new graph: copies are made in order, so a source has been made.
  ValueId made(const BoundSource& source) const {
    return source.copy < 0 ? source.value : copies_[static_cast<size_t>(source.copy)];
  }

  ValueId reshard(const BoundSource& source, const ShardingSpec& spec, NodeId before) {
    AttrDict attrs;
    attrs.set("sharding", ShardingAttr{here(spec)});
    attrs.set(kSeparateAttr, UnitAttr{});
    const ValueId value = made(source);
    const NodeId id =
        graph_.add_node("sdy.reshard", {value}, {Type(graph_.type(value))}, std::move(attrs));
    const Value& root = graph_.value(source.value);
    if (before.valid())
      rewrite_.insert_before(before, id);
    else if (root.producer.valid())
      rewrite_.insert_after(root.producer, id);
    else
      rewrite_.insert_at_start(root.region, id);
    return graph_.node(id).results[0];
  }

  void add_copy(const PlannedCopy& copy, const BoundCopy& bound) {
    copies_.push_back(reshard(bound.source, copy.spec, bound.before));
  }

  void add_op(const PlannedOp& op, const BoundOp& bound) {
    std::vector<ValueId> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ShardingSpec& wanted = op.operands[i].spec;
      const BoundSource& source = bound.operands[i];
      operands.push_back(wanted.mesh && !bound_.spec(source).same_layout(wanted)
                             ? reshard(source, wanted, bound.node)
                             : made(source));
    }
    Node& node = graph_.node(bound.node);
    node.operands = std::move(operands);
    if (bound_.flat.terminator(node.parent) == bound.node) return;
    std::vector<ShardingSpec> results;
    for (const ShardingSpec& spec : op.results)
      results.push_back(spec.mesh ? here(spec) : ShardingSpec::closed_replicated(mesh_, 0));
    if (const std::string_view own = own_sharding_attr(node); !own.empty()) {
      if (own == "sharding") node.attrs.set(own, ShardingAttr{std::move(results[0])});
      return;
    }
    node.attrs.set(kShardingAttr, ShardingsAttr{std::move(results)});
    node.attrs.set(kPlannedAttr, UnitAttr{});
  }

  const BoundPlan& bound_;
  const Plan& plan_;
  Graph graph_;
  GraphRewrite rewrite_;
  const MeshPtr mesh_;
  std::vector<ValueId> copies_;  // by copy of the plan: the value that is it
};

}  // namespace

Graph apply(const BoundPlan& bound) { return Applier(bound).run(); }

Graph apply(const Plan& plan, const Graph& graph) {
  const Graph flat = flatten(graph, plan.entry);
  return apply(bind(plan, flat));
}

Program partition_planned(const BoundPlan& bound, const MachineProfile& profile) {
  const Plan& plan = bound.plan;
  PartitionOptions options;
  options.entry = plan.entry;
  const MachineProfile shared = shared_by(profile, plan.mesh->num_devices());
  options.profile = &shared;
  options.reshard = reshard_options(*plan.mesh, plan.parts);
  options.verified = true;  // by `apply`
  return partition(apply(bound), options);
}

Program partition_planned(const Plan& plan, const Graph& graph, const MachineProfile& profile) {
  const Graph flat = flatten(graph, plan.entry, profile);
  return partition_planned(bind(plan, flat), profile);
}

}  // namespace cleave::plan
