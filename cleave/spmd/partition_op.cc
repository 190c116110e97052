#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/spmd/op_layouts.h"
#include "cleave/spmd/partition.h"

namespace cleave {
namespace {

// Which axes stay pending through the op, and on which operands. `used` are those that shard its
// factors, `reduction` what it makes pending itself.
CarriedPartials carry_partials(const Graph& graph, const Node& node,
                               std::span<const ShardingSpec> operands, const AxisList& used,
                               std::optional<ReduceOp> reduction) {
  CarriedPartials pending;
  pending.operands.resize(operands.size());
  for (const ShardingSpec& spec : operands) pending.in.push_back(spec.partial_op);
  if (!node.def->partial) return pending;
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

bool in_results(const OpShardingRule& rule, FactorIndex factor) {
  return std::any_of(rule.results.begin(), rule.results.end(),
                     [&](const TensorFactors& result) { return has_factor(result, factor); });
}

// With `needs`, dimensions that only an operand has (the source of a select_and_scatter) stay as
// they are laid out: each device asks for the elements that its part of the result takes.
void keep_own_dims(const Graph& graph, const Node& node, const OpShardingRule& rule,
                   std::span<const ShardingSpec> have, OpPartition& how) {
  if (!node.def->needs || !node.def->shardable) return;
  for (size_t i = 0; i < have.size(); ++i) {
    if (!have[i].mesh || !how.operands[i].mesh) continue;
    AxisList used;
    for (const DimSpec& dim : how.operands[i].dims)
      used.insert(used.end(), dim.axes.begin(), dim.axes.end());
    for (size_t d = 0; d < rule.operands[i].size(); ++d) {
      const DimFactors& factors = rule.operands[i][d];
      if (factors.size() != 1 || in_results(rule, factors[0]) ||
          !runs_though_replicated(graph, node, rule, factors[0]))
        continue;
      const AxisList& axes = have[i].dims[d].axes;
      const bool free = std::all_of(axes.begin(), axes.end(), [&](const AxisRef& ref) {
        return !overlaps_any(ref, have[i].partial) &&
               std::all_of(used.begin(), used.end(), [&](const AxisRef& other) {
                 return can_coexist(ref, other) && !overlaps(ref, other);
               });
      });
      if (!free) continue;
      how.operands[i].dims[d].axes = axes;
      used.insert(used.end(), axes.begin(), axes.end());
    }
  }
}

// A result is as important as what it follows from.
void pass_priorities(const FactorChooser& chooser, const TensorFactors& factors,
                     const FactorAxes& axes, ShardingSpec& result) {
  if (!result.mesh) return;
  for (size_t d = 0; d < factors.size(); ++d)
    for (FactorIndex f : factors[d]) {
      if (axes[f].empty() || result.dims[d].axes.empty()) continue;
      const std::optional<int64_t> priority = chooser.priority_of(f, axes[f]);
      std::optional<int64_t>& said = result.dims[d].priority;
      if (priority) said = std::min(said.value_or(*priority), *priority);
    }
}

}  // namespace

std::vector<bool> runs_along(const Graph& graph, const Node& node, const OpShardingRule& rule) {
  std::vector<bool> runs(rule.factors.size(), true);
  if (rule.operands.size() != node.operands.size() || rule.results.size() != node.results.size())
    return runs;
  const FactorChooser chooser(graph, node, rule);
  for (size_t f = 0; f < runs.size(); ++f) runs[f] = chooser.can_shard(static_cast<FactorIndex>(f));
  return runs;
}

OpPartition partition_op(const Graph& graph, const Node& node, const OpRule& op_rule,
                         const MeshPtr& mesh, std::span<const ShardingSpec> operands,
                         std::span<const std::optional<ShardingSpec>> wanted) {
  // A constant is as any layout wants it.
  if (node.def->has(kConstantLike) && node.def->localize && wanted.size() == 1 && wanted[0] &&
      wanted[0]->mesh) {
    OpPartition result{whole_layouts(graph, node, mesh)};
    result.results[0] = *wanted[0];
    result.results[0].partial.clear();
    return result;
  }
  const OpShardingRule* given = op_rule.to_run(node);
  if (!given) return {whole_layouts(graph, node, mesh)};
  const std::optional<OpShardingRule> summing = with_reductions(graph, node, *given);
  const OpShardingRule& rule = summing ? *summing : *given;

  FactorChooser chooser(graph, node, rule);
  AxisList used;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].mesh) continue;
    chooser.propose(i, operands[i]);
    chooser.bar(operands[i].replicated);
    used.insert(used.end(), operands[i].replicated.begin(), operands[i].replicated.end());
  }
  for (size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i] && wanted[i]->mesh) chooser.propose(operands.size() + i, *wanted[i]);
  const FactorAxes axes = chooser.choose();

  bool permutes = false, is_cut = false;
  for (size_t f = 0; f < axes.size(); ++f) {
    is_cut |= !axes[f].empty();
    used.insert(used.end(), axes[f].begin(), axes[f].end());
    permutes |= rule.factors[f].kind == FactorKind::Permutation && !axes[f].empty();
  }
  const CarriedPartials carried =
      carry_partials(graph, node, operands, used, own_partials(rule, axes).reduction);
  OpPartition result{layouts_for(graph, node, mesh, rule, axes, &carried)};
  for (size_t i = 0; i < result.results.size(); ++i)
    pass_priorities(chooser, rule.results[i], axes, result.results[i]);
  if (permutes) keep_own_dims(graph, node, rule, operands, result);
  result.halo = permutes || (node.def->needs && is_cut);
  return result;
}

}  // namespace cleave
