#include "cleave/plan/apply.h"

#include "cleave/graph/flow.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/names.h"
#include "cleave/plan/numbered_program.h"
#include "cleave/plan/objective.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave::plan {
namespace {

class Applier {
 public:
  explicit Applier(const BoundPlan& bound, bool numbers = false)
      : bound_(bound),
        numbers_(numbers),
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
    if (numbers_) attrs.set(kChangeAttr, int_attr(changes_++));
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
    if (numbers_) number(bound.node, static_cast<int64_t>(&op - plan_.ops.data()));
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

  // The ops inside that the plan does not have are its own.
  void number(NodeId id, int64_t op) {
    graph_.node(id).attrs.set(kOpAttr, int_attr(op));
    if (flow_of(graph_.node(id)) == Flow::None) return;
    for (RegionId region : graph_.node(id).regions)
      for (NodeId inner : graph_.region(region).nodes)
        if (!bound_.planned(inner)) number(inner, op);
  }

  const BoundPlan& bound_;
  const bool numbers_;
  int64_t changes_ = 0;
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

namespace {

Program partition_applied(const BoundPlan& bound, const MachineProfile& profile, bool numbers) {
  const Plan& plan = bound.plan;
  PartitionOptions options;
  options.entry = plan.entry;
  const MachineProfile shared =
      profile_for(shared_by(profile, plan.mesh->num_devices()), plan.objective);
  options.profile = &shared;
  options.reshard = reshard_options(*plan.mesh, plan.parts);
  options.verified = true;  // by `apply`
  return partition(Applier(bound, numbers).run(), options);
}

}  // namespace

std::vector<PlannedChange> planned_changes(const BoundPlan& bound) {
  const Plan& plan = bound.plan;
  std::vector<PlannedChange> changes;
  for (size_t c = 0; c < plan.copies.size(); ++c) {
    const BoundCopy& copy = bound.copies[c];
    const NodeId producer = bound.flat.value(copy.source.value).producer;
    const NodeId at = copy.before.valid() ? copy.before : producer;
    const int op = copy.before.valid() ? bound.op_index[copy.before.index] : -1;
    const PlannedOp* placed = at.valid() ? bound.planned(at) : nullptr;
    changes.push_back({copy.source, plan.copies[c].spec, static_cast<int>(c), op, -1,
                       placed ? placed->times : 1});
  }
  for (size_t o = 0; o < plan.ops.size(); ++o) {
    const PlannedOp& op = plan.ops[o];
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const BoundSource& source = bound.ops[o].operands[i];
      if (op.operands[i].spec.mesh && !bound.spec(source).same_layout(op.operands[i].spec))
        changes.push_back(
            {source, op.operands[i].spec, -1, static_cast<int>(o), static_cast<int>(i), op.times});
    }
  }
  return changes;
}

Program partition_planned(const BoundPlan& bound, const MachineProfile& profile) {
  return partition_applied(bound, profile, false);
}

Program partition_numbered(const BoundPlan& bound, const MachineProfile& profile) {
  return partition_applied(bound, profile, true);
}

Program partition_planned(const Plan& plan, const Graph& graph, const MachineProfile& profile) {
  const Graph flat = flatten(graph, plan.entry, profile);
  return partition_planned(bind(plan, flat), profile);
}

}  // namespace cleave::plan
