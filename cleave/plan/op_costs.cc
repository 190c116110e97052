#include "cleave/plan/op_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "cleave/analyze/kernels.h"
#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/machine/limits.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/op_price.h"
#include "cleave/runtime/dry_run.h"
#include "cleave/spmd/partition.h"

namespace cleave::plan {
namespace {

constexpr std::string_view kLimitNames[] = {"nothing", "arithmetic", "memory", "launch"};

// Before anything prints them: axes go by their numbers in the mesh.
void check_axes(const ShardingSpec& spec, const std::string& what) {
  const auto known = static_cast<int64_t>(spec.mesh->axes.size());
  std::vector<const AxisList*> lists = {&spec.replicated, &spec.partial};
  for (const DimSpec& dim : spec.dims) lists.push_back(&dim.axes);
  for (const AxisList* list : lists)
    for (const AxisRef& ref : *list)
      if (ref.axis < 0 || ref.axis >= known)
        throw_user("{}: its layout uses axis {} of the mesh {}, which has {}", what, ref.axis,
                   to_string(*spec.mesh), known);
}

void check_spec(const ShardingSpec& spec, const Type& type, const MeshPtr& mesh,
                const std::string& what) {
  if (!is_ranked_tensor(type)) {
    if (spec.mesh) throw_user("{} is {}, which has no layout", what, to_string(type));
    return;
  }
  if (!spec.mesh) throw_user("{} needs a layout on the mesh {}", what, to_string(*mesh));
  if (spec.mesh != mesh && spec.mesh->axes != mesh->axes)
    throw_user("{} lies on the mesh {}, and others lie on {}; one mesh is needed", what,
               to_string(*spec.mesh), to_string(*mesh));
  check_axes(spec, what);
  if (spec.rank() != type.rank())
    throw_user("{} is {}, and its layout {} has {} dimensions", what, to_string(type),
               to_string(spec), spec.rank());
  try {
    verify(spec, type.shape);
  } catch (const UserError& error) {
    throw_user("{}: {}", what, error.what());
  }
}

MeshPtr mesh_of(const OpLayouts& specs, const std::string& op) {
  for (const auto* list : {&specs.operands, &specs.results})
    for (const ShardingSpec& spec : *list)
      if (spec.mesh) return spec.mesh;
  throw_user("{}: none of the layouts has a mesh", op);
}

std::string layouts_text(const OpLayouts& specs) {
  std::string text;
  auto add = [&](const std::vector<ShardingSpec>& list) {
    for (size_t i = 0; i < list.size(); ++i)
      text += (i ? ", " : "") + (list[i].mesh ? to_string(list[i]) : std::string("-"));
  };
  add(specs.operands);
  text += specs.operands.empty() ? "-> " : " -> ";
  add(specs.results);
  return text;
}

bool is_same(const std::vector<ShardingSpec>& a, const std::vector<ShardingSpec>& b) {
  return std::ranges::equal(a, b, [](const ShardingSpec& x, const ShardingSpec& y) {
    return !x.mesh || !y.mesh ? !x.mesh == !y.mesh : x.same_layout(y);
  });
}

// What the partitioner would do with these operands, if it wants these results.
OpPartition as_partitioned(const Graph& graph, const Node& node, const OpRule& rule,
                           const OpLayouts& specs, const MeshPtr& mesh) {
  std::vector<std::optional<ShardingSpec>> wanted(specs.results.begin(), specs.results.end());
  for (std::optional<ShardingSpec>& spec : wanted)
    if (!spec->mesh) spec.reset();
  return partition_op(graph, node, rule, mesh, specs.operands, wanted);
}

// Whether some axis is on a factor whose shards take elements of others.
bool borrows(const Graph& graph, const Node& node, const OpShardingRule& rule,
             const OpLayouts& specs) {
  FactorChooser chooser(graph, node, rule);
  for (size_t i = 0; i < specs.operands.size(); ++i) chooser.propose(i, specs.operands[i]);
  for (size_t i = 0; i < specs.results.size(); ++i)
    chooser.propose(specs.operands.size() + i, specs.results[i]);
  const FactorAxes axes = chooser.choose();
  for (size_t f = 0; f < axes.size(); ++f)
    if (!axes[f].empty() && !chooser.runs_apart(static_cast<FactorIndex>(f))) return true;
  return false;
}

bool is_laid_out_freely(const Node& node) {
  return node.def->has(kConstantLike) && node.def->localize && node.results.size() == 1;
}

void check_runs(const Graph& graph, const Node& node, const OpLayouts& specs, const MeshPtr& mesh,
                const std::string& op) {
  if (is_laid_out_freely(node)) {
    if (specs.results[0].is_partial()) throw_user("{}: a constant is not made in parts", op);
    return;
  }
  const OpRule rule = op_rule(graph, node);
  const OpPartition how = as_partitioned(graph, node, rule, specs, mesh);
  if (how.halo && borrows(graph, node, *rule.to_run(node), specs))
    throw_user(
        "{} in the layouts {} needs elements of neighbours, which is not priced; gather "
        "that dimension",
        op, layouts_text(specs));
  if (!is_same(how.operands, specs.operands) || !is_same(how.results, specs.results))
    throw_user("{} cannot run as {}; it can as {}", op, layouts_text(specs), layouts_text(how));
}

MeshPtr check(const Graph& graph, const Node& node, const OpLayouts& specs) {
  const std::string op = node.name();
  if (specs.operands.size() != node.operands.size())
    throw_user("{} has {} operands, and {} layouts are given for them", op, node.operands.size(),
               specs.operands.size());
  if (specs.results.size() != node.results.size())
    throw_user("{} has {} results, and {} layouts are given for them", op, node.results.size(),
               specs.results.size());
  const Flow flow = flow_of(node);
  if ((flow != Flow::None && flow != Flow::Scan) || node.def->has(kTerminator))
    throw_user("{} computes nothing itself; ask for the ops inside", op);
  const MeshPtr mesh = mesh_of(specs, op);
  for (size_t i = 0; i < node.operands.size(); ++i)
    check_spec(specs.operands[i], graph.operand_type(node, i), mesh,
               fmt::format("operand {} of {}", i, op));
  for (size_t i = 0; i < node.results.size(); ++i)
    check_spec(specs.results[i], graph.result_type(node, i), mesh,
               fmt::format("result {} of {}", i, op));
  check_runs(graph, node, specs, mesh, op);
  return mesh;
}

// Whether an executor has the value in memory, as the planner counts it (formulator_memory.cc).
bool is_in_memory(const Graph& graph, ValueId value) {
  const Value& made = graph.value(value);
  if (!made.producer.valid()) return true;
  const Node& node = graph.node(made.producer);
  const std::optional<analyze::KernelUse> use = analyze::kernel_use(node);
  return !use || use->writes[made.index] > 0 || flow_of(node) == Flow::Loop ||
         flow_of(node) == Flow::Branches;
}

int64_t local_bytes(const Graph& graph, ValueId value, const ShardingSpec& spec) {
  const Type& type = graph.type(value);
  if (!is_in_memory(graph, value)) return 0;
  if (!type.is_tensor() || !type.has_static_shape()) return 0;
  if (!spec.mesh) return type.byte_count();
  return num_elements(local_shape(spec, type.shape)) * byte_size(type.dtype);
}

// What a dry run of the op alone holds beside its operands and results.
int64_t temporary_bytes(const Graph& graph, const Node& node, const OpLayouts& specs,
                        const MeshPtr& mesh, int64_t results) {
  if (analyze::kernel_use(node)) return 0;
  for (const auto* values : {&node.operands, &node.results})
    for (ValueId value : *values)
      if (!graph.type(value).is_tensor() || !graph.type(value).has_static_shape()) return 0;
  OpPrice alone(graph, node, mesh, default_profile());
  const Program& program = alone.program(specs.operands, specs.results);
  const int64_t device = mesh->device_at(0);
  const DryRun run = dry_run(program, instantiate_shapes(program, device), device);
  return std::max<int64_t>(0, run.peak - run.arguments - results);
}

}  // namespace

std::string_view name(Limit limit) { return kLimitNames[static_cast<size_t>(limit)]; }

Limit ComputeCost::limit() const {
  if (seconds <= 0) return Limit::Nothing;
  if (launch >= arithmetic && launch >= memory) return Limit::Launch;
  return arithmetic >= memory ? Limit::Arithmetic : Limit::Memory;
}

ComputeCost compute_cost(const Graph& graph, NodeId id, const OpLayouts& specs,
                         const MachineProfile& profile) {
  const MeshPtr mesh = check(graph, graph.node(id), specs);
  return ComputeQuestions(graph, mesh, profile).ask(id, specs);
}

ComputeQuestions::ComputeQuestions(const Graph& graph, MeshPtr mesh, const MachineProfile& profile)
    : graph_(graph),
      mesh_(std::move(mesh)),
      profile_(shared_by(profile, mesh_->num_devices())),
      no_memory_(without_memory(profile_)),
      no_arithmetic_(without_arithmetic(profile_)),
      launches_(without_arithmetic(no_memory_)) {}

ComputeCost ComputeQuestions::ask(NodeId id, const OpLayouts& specs) const {
  auto seconds = [&](const MachineProfile& profile) {
    return OpPrice(graph_, graph_.node(id), mesh_, profile).seconds(specs.operands, specs.results);
  };
  ComputeCost cost;
  cost.seconds = seconds(profile_);
  if (cost.seconds <= 0) return cost;
  cost.launch = seconds(launches_);
  cost.arithmetic = std::max(0.0, seconds(no_memory_) - cost.launch);
  cost.memory = std::max(0.0, seconds(no_arithmetic_) - cost.launch);
  return cost;
}

MemoryCost memory_cost(const Graph& graph, NodeId id, const OpLayouts& specs) {
  return memory_in(graph, id, specs, check(graph, graph.node(id), specs));
}

MemoryCost memory_in(const Graph& graph, NodeId id, const OpLayouts& specs, const MeshPtr& mesh) {
  const Node& node = graph.node(id);
  MemoryCost cost;
  std::set<std::pair<uint32_t, std::string>> counted;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const std::string layout = specs.operands[i].mesh ? to_string(specs.operands[i]) : "";
    if (!counted.insert({node.operands[i].index, layout}).second) continue;
    cost.operands += local_bytes(graph, node.operands[i], specs.operands[i]);
  }
  for (size_t i = 0; i < node.results.size(); ++i)
    cost.results += local_bytes(graph, node.results[i], specs.results[i]);
  cost.temporaries = temporary_bytes(graph, node, specs, mesh, cost.results);
  return cost;
}

CommunicationCost communication_cost(const Graph& graph, ValueId value, const ShardingSpec& from,
                                     const ShardingSpec& to, const MachineProfile& profile,
                                     const std::vector<AxisList>& parts) {
  const Type& type = graph.type(value);
  if (!from.mesh || !to.mesh)
    throw_user("a change of layout needs a layout on a mesh before it and after it");
  check_spec(from, type, from.mesh, "the value before");
  check_spec(to, type, from.mesh, "the value after");
  if (from.same_layout(to)) return {};
  const MachineProfile shared = shared_by(profile, from.mesh->num_devices());
  return {
      plan_reshard(from, to, type.shape, type.dtype, shared, reshard_options(*from.mesh, parts)),
      analyze::spill_seconds(analyze::spill_bytes(graph, value), from, shared)};
}

}  // namespace cleave::plan
