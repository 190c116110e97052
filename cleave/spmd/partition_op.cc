#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
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

bool has_factor(const std::vector<TensorFactors>& tensors, FactorIndex factor) {
  for (const TensorFactors& tensor : tensors)
    for (const DimFactors& dim : tensor)
      if (std::find(dim.begin(), dim.end(), factor) != dim.end()) return true;
  return false;
}

// Whether an op says that it runs along a factor which its rule, for propagation, calls replicated.
bool runs_all_the_same(const Graph& graph, const Node& node, const OpShardingRule& rule,
                       FactorIndex factor) {
  return rule.factors[factor].kind == FactorKind::NeedReplication && node.def &&
         node.def->shardable && node.def->shardable(graph, node, rule, factor);
}

// Without `needs`, such an op computes what its part of the operand gives, and the parts are
// summed: the factor is a reduction, and the result has a factor of its own.
//   dynamic_slice 12 -> 4: ([i])->([i]) {i=12} becomes ([i])->([j]) {i=12, j=4} reduction={i}
void make_reductions(const Graph& graph, const Node& node, OpShardingRule& rule) {
  if (!node.def || !node.def->shardable || node.def->needs) return;
  const size_t count = rule.factors.size();
  for (size_t f = 0; f < count; ++f) {
    const auto factor = static_cast<FactorIndex>(f);
    if (!runs_all_the_same(graph, node, rule, factor) || !has_factor(rule.results, factor))
      continue;
    const DType dtype = graph.result_type(node).dtype;
    rule.factors[f].kind = FactorKind::Reduction;
    rule.factors[f].reduce = dtype == DType::Bool ? ReduceOp::Or : ReduceOp::Sum;
    Factor own = rule.factors[f];
    own.kind = FactorKind::NeedReplication;
    for (size_t i = 0; i < rule.results.size(); ++i)
      for (size_t d = 0; d < rule.results[i].size(); ++d)
        for (FactorIndex& place : rule.results[i][d])
          if (place == factor) {
            own.size = graph.result_type(node, i).shape[d];
            place = static_cast<FactorIndex>(rule.factors.size());
          }
    rule.factors.push_back(own);
  }
}

// With `needs`, dimensions that only an operand has (the source of a select_and_scatter) stay as
// they are laid out: each device asks for the elements that its part of the result takes.
void keep_own_dims(const Graph& graph, const Node& node, const OpShardingRule& rule,
                   std::span<const ShardingSpec> have, OpPartition& how) {
  if (!node.def || !node.def->needs || !node.def->shardable) return;
  for (size_t i = 0; i < have.size(); ++i) {
    if (!have[i].mesh || !how.operands[i].mesh) continue;
    AxisList used;
    for (const DimSpec& dim : how.operands[i].dims)
      used.insert(used.end(), dim.axes.begin(), dim.axes.end());
    for (size_t d = 0; d < rule.operands[i].size(); ++d) {
      const DimFactors& factors = rule.operands[i][d];
      if (factors.size() != 1 || has_factor(rule.results, factors[0]) ||
          !runs_all_the_same(graph, node, rule, factors[0]))
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

}  // namespace

std::vector<bool> runs_along(const Graph& graph, const Node& node, const OpShardingRule& rule) {
  std::vector<bool> runs(rule.factors.size(), true);
  if (rule.operands.size() != node.operands.size() || rule.results.size() != node.results.size())
    return runs;
  const FactorChooser chooser(graph, node, rule);
  for (size_t f = 0; f < runs.size(); ++f) runs[f] = chooser.can_shard(static_cast<FactorIndex>(f));
  return runs;
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
  std::optional<OpShardingRule> rule = execution_rule(graph, node);
  if (!rule || rule->operands.size() != node.operands.size() ||
      rule->results.size() != node.results.size())
    return run_whole(graph, node, mesh);
  make_reductions(graph, node, *rule);

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
  if (result.halo) keep_own_dims(graph, node, *rule, operands, result);
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
