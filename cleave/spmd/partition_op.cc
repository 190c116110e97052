#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/spmd/factor_axes.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

bool is_ranked(const Type& type) { return type.is_tensor() && !type.unranked; }

ShardingSpec replicated_spec(const MeshPtr& mesh, const Type& type) {
  return is_ranked(type) ? ShardingSpec::closed_replicated(mesh, type.rank()) : ShardingSpec{};
}

OpPartition run_whole(const Graph& graph, const Node& node, const MeshPtr& mesh) {
  OpPartition result;
  for (ValueId id : node.operands) result.operands.push_back(replicated_spec(mesh, graph.type(id)));
  for (ValueId id : node.results) result.results.push_back(replicated_spec(mesh, graph.type(id)));
  return result;
}

// Which axes stay pending through the op, and on which operands.
struct Pending {
  AxisList axes;
  ReduceOp out = ReduceOp::Sum;
  std::vector<AxisList> operands;  // by operand
};

AxisList sorted_union(AxisList a, const AxisList& b) {
  for (const AxisRef& ref : without(b, a)) a.push_back(ref);
  std::sort(a.begin(), a.end());
  merge_neighbours(a);
  return a;
}

Pending carry_partials(const Graph& graph, const Node& node, std::span<const ShardingSpec> operands,
                       const AxisList& used, std::optional<ReduceOp> reduction) {
  Pending pending;
  pending.operands.resize(operands.size());
  if (!node.def || !node.def->partial) return pending;
  AxisList atoms;
  for (const ShardingSpec& spec : operands) atoms = sorted_union(std::move(atoms), spec.partial);
  for (const ShardingSpec& spec : operands) atoms = split_at(atoms, spec.partial);
  if (atoms.empty()) return pending;
  const PartialTransfer transfer = node.def->partial(graph, node);
  std::optional<ReduceOp> out = reduction;
  for (const AxisRef& atom : atoms) {
    if (overlaps_any(atom, used)) continue;
    for (const PartialRow& row : transfer) {
      bool fits = row.operands.size() == operands.size() && (!out || *out == row.out);
      for (size_t i = 0; fits && i < operands.size(); ++i) {
        const bool is_partial = overlaps_any(atom, operands[i].partial);
        fits = is_partial == row.operands[i] && (!is_partial || operands[i].partial_op == row.in);
      }
      if (!fits) continue;
      out = row.out;
      append_axis(pending.axes, atom);
      for (size_t i = 0; i < operands.size(); ++i)
        if (row.operands[i]) append_axis(pending.operands[i], atom);
      break;
    }
  }
  if (out) pending.out = *out;
  return pending;
}

}  // namespace

std::optional<OpShardingRule> rule_of(const Graph& graph, const Node& node) {
  if (const Attribute* attr = node.attrs.find("sdy.sharding_rule"))
    if (const auto* rule = attr->as<ShardingRuleAttr>()) return *rule->rule;
  if (!node.def || !node.def->rule) return std::nullopt;
  for (ValueId id : node.operands)
    if (graph.type(id).is_tensor() && !graph.type(id).has_static_shape()) return std::nullopt;
  for (ValueId id : node.results)
    if (graph.type(id).is_tensor() && !graph.type(id).has_static_shape()) return std::nullopt;
  return node.def->rule(graph, node);
}

OpPartition partition_op(const Graph& graph, const Node& node, const MeshPtr& mesh,
                         std::span<const ShardingSpec> operands,
                         std::span<const std::optional<ShardingSpec>> wanted) {
  // A constant is as any layout wants it.
  if (node.def && node.def->has(kConstantLike) && node.def->localize && wanted.size() == 1 &&
      wanted[0] && wanted[0]->mesh) {
    OpPartition result = run_whole(graph, node, mesh);
    result.results[0] = *wanted[0];
    result.results[0].partial.clear();
    return result;
  }
  const std::optional<OpShardingRule> rule = rule_of(graph, node);
  if (!rule || rule->operands.size() != node.operands.size() ||
      rule->results.size() != node.results.size())
    return run_whole(graph, node, mesh);

  FactorChooser chooser(graph, node, *rule);
  for (size_t i = 0; i < operands.size(); ++i)
    if (operands[i].mesh) chooser.propose(i, operands[i]);
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] && wanted[i]->mesh) chooser.propose(operands.size() + i, *wanted[i]);
  const FactorAxes axes = chooser.choose();

  OpPartition result = run_whole(graph, node, mesh);
  for (size_t i = 0; i < operands.size(); ++i)
    if (result.operands[i].mesh) place(axes, rule->operands[i], result.operands[i]);
  for (size_t i = 0; i < result.results.size(); ++i)
    if (result.results[i].mesh) place(axes, rule->results[i], result.results[i]);

  // No device holds anything of an empty dimension.
  auto drop_empty = [&](ValueId value, ShardingSpec& spec) {
    for (size_t d = 0; d < spec.dims.size(); ++d)
      if (graph.type(value).shape[d] == 0) spec.dims[d].axes.clear();
  };
  for (size_t i = 0; i < operands.size(); ++i) drop_empty(node.operands[i], result.operands[i]);
  for (size_t i = 0; i < result.results.size(); ++i) drop_empty(node.results[i], result.results[i]);

  AxisList used, reduced;
  std::optional<ReduceOp> reduction;
  for (size_t f = 0; f < axes.size(); ++f) {
    used.insert(used.end(), axes[f].begin(), axes[f].end());
    if (rule->factors[f].kind == FactorKind::Permutation && !axes[f].empty()) result.halo = true;
    if (rule->factors[f].kind != FactorKind::Reduction || axes[f].empty()) continue;
    reduced = sorted_union(std::move(reduced), axes[f]);
    reduction = rule->factors[f].reduce;
  }
  if (node.def && node.def->needs && !used.empty()) result.halo = true;

  const Pending pending = carry_partials(graph, node, operands, used, reduction);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (pending.operands[i].empty()) continue;
    result.operands[i].partial = sorted_union({}, pending.operands[i]);
    result.operands[i].partial_op = operands[i].partial_op;
  }
  const AxisList partial = sorted_union(reduced, pending.axes);
  for (ShardingSpec& spec : result.results) {
    if (!spec.mesh) continue;
    spec.partial = partial;
    spec.partial_op = reduction ? *reduction : pending.out;
  }
  return result;
}

}  // namespace cleave
