#include "cleave/plan/apply.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/plan/check_plan.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/names.h"
#include "cleave/spmd/partition.h"

namespace cleave::plan {
namespace {

class Applier {
 public:
  Applier(const Plan& plan, Graph& graph)
      : plan_(plan),
        graph_(graph),
        names_(name_everything(graph, plan.entry)),
        rewrite_(graph),
        mesh_(named_mesh()) {}

  void run() {
    check_fits(plan_, graph_, names_);
    // Arguments come first, in order; printing a module may change their names.
    const std::vector<ValueId> args = graph_.region(body()).args;
    for (size_t i = 0; i < plan_.values.size(); ++i) {
      const PlannedValue& value = plan_.values[i];
      const auto it = names_.value_of.find(value.name);
      if (i >= args.size() && it == names_.value_of.end())
        throw_user("plan: the module has no value {}", value.name);
      const ValueId id = i < args.size() ? args[i] : it->second;
      specs_.emplace(value.name, value.spec);
      sources_.emplace(value.name, id);
      roots_.emplace(value.name, id);
    }
    shard_arguments();
    for (const PlannedCopy& copy : plan_.copies) add_copy(copy);
    for (const PlannedOp& op : plan_.ops) add_op(op);
    rewrite_.apply();
    shard_results();
    graph_.meshes = {mesh_};
    graph_.functions_before_mesh.clear();
  }

 private:
  RegionId body() const { return graph_.find_function(plan_.entry)->body; }

  MeshPtr named_mesh() const {
    Mesh mesh = *plan_.mesh;
    if (mesh.name.empty()) mesh.name = "mesh";
    return std::make_shared<const Mesh>(std::move(mesh));
  }

  ShardingSpec here(ShardingSpec spec) const {
    spec.mesh = mesh_;
    return spec;
  }

  ValueId source(const std::string& name) const {
    const auto it = sources_.find(name);
    if (it == sources_.end()) throw_user("plan: {} is neither a value nor an earlier copy", name);
    return it->second;
  }

  NodeId node(const std::string& name) const {
    const auto it = names_.node_of.find(name);
    if (it == names_.node_of.end()) throw_user("plan: the module has no op {}", name);
    return it->second;
  }

  void shard_arguments() {
    Function& function = *graph_.find_function(plan_.entry);
    const std::vector<ValueId>& args = graph_.region(function.body).args;
    function.arg_attrs.resize(args.size());
    for (size_t i = 0; i < args.size() && i < plan_.values.size(); ++i)
      if (plan_.values[i].spec.mesh)
        function.arg_attrs[i].set(kShardingAttr, ShardingAttr{here(plan_.values[i].spec)});
  }

  void shard_results() {
    Function& function = *graph_.find_function(plan_.entry);
    const PlannedOp* end = plan_.find_op("return");
    if (!end) throw_user("plan: there is no op return");
    function.result_attrs.resize(end->operands.size());
    for (size_t i = 0; i < end->operands.size(); ++i)
      if (end->operands[i].spec.mesh)
        function.result_attrs[i].set(kShardingAttr, ShardingAttr{here(end->operands[i].spec)});
  }

  // `root` is the value of the source module behind `value`.
  ValueId reshard(ValueId value, ValueId root, const ShardingSpec& spec, NodeId before) {
    AttrDict attrs;
    attrs.set("sharding", ShardingAttr{here(spec)});
    attrs.set("cleave.separate", UnitAttr{});
    const NodeId id =
        graph_.add_node("sdy.reshard", {value}, {Type(graph_.type(value))}, std::move(attrs));
    if (before.valid())
      rewrite_.insert_before(before, id);
    else if (graph_.value(root).producer.valid())
      rewrite_.insert_after(graph_.value(root).producer, id);
    else
      rewrite_.insert_at_start(graph_.value(root).region, id);
    return graph_.node(id).results[0];
  }

  void add_copy(const PlannedCopy& copy) {
    const ValueId from = source(copy.source);
    const NodeId before = copy.before.empty() ? NodeId{} : node(copy.before);
    const ValueId root = roots_.at(copy.source);
    sources_.emplace(copy.name, reshard(from, root, copy.spec, before));
    roots_.emplace(copy.name, root);
    specs_.emplace(copy.name, copy.spec);
  }

  void add_op(const PlannedOp& op) {
    const NodeId id = node(op.name);
    if (graph_.node(id).operands.size() != op.operands.size())
      throw_user("plan: {} has {} operands here and {} in the plan", op.name,
                 graph_.node(id).operands.size(), op.operands.size());
    std::vector<ValueId> operands;
    for (const PlannedOperand& operand : op.operands) {
      ValueId value = source(operand.source);
      const ShardingSpec& have = specs_.at(operand.source);
      if (operand.spec.mesh && !have.same_layout(operand.spec))
        value = reshard(value, roots_.at(operand.source), operand.spec, id);
      operands.push_back(value);
    }
    Node& node = graph_.node(id);
    node.operands = std::move(operands);
    if (op.name.ends_with("return")) return;
    std::vector<ShardingSpec> results;
    for (const ShardingSpec& spec : op.results)
      results.push_back(spec.mesh ? here(spec) : ShardingSpec::closed_replicated(mesh_, 0));
    if (const std::string_view own = own_sharding_attr(node); !own.empty()) {
      if (own == "sharding") node.attrs.set(own, ShardingAttr{std::move(results[0])});
      return;
    }
    node.attrs.set(kShardingAttr, ShardingsAttr{std::move(results)});
    node.attrs.set("cleave.planned", UnitAttr{});
  }

  const Plan& plan_;
  Graph& graph_;
  const Names names_;
  GraphRewrite rewrite_;
  const MeshPtr mesh_;
  std::unordered_map<std::string, ShardingSpec> specs_;  // by value or copy
  std::unordered_map<std::string, ValueId> sources_;
  std::unordered_map<std::string, ValueId> roots_;  // of copies: the value that they come from
};

}  // namespace

Graph apply(const Plan& plan, const Graph& graph) {
  Graph flat = flatten(graph, plan.entry);
  if (const std::string here = fingerprint(flat, plan.entry); here != plan.fingerprint)
    throw_user(
        "plan: it was made for another module (fingerprint {}, this one has {}); plan this module "
        "again",
        plan.fingerprint, here);
  Applier(plan, flat).run();
  return flat;
}

Program partition_planned(const Plan& plan, const Graph& graph, const MachineProfile& profile) {
  PartitionOptions options;
  options.entry = plan.entry;
  const MachineProfile shared = shared_by(profile, plan.mesh->num_devices());
  options.profile = &shared;
  options.reshard = reshard_options(*plan.mesh, plan.parts);
  options.verified = true;  // by `apply`
  return partition(apply(plan, graph), options);
}

}  // namespace cleave::plan
