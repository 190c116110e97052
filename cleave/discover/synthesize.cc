#include "cleave/discover/synthesize.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/discover/transfer.h"

namespace cleave {
namespace {

size_t num_sharded(const std::vector<Placement>& operands) {
  return static_cast<size_t>(std::count_if(operands.begin(), operands.end(),
                                           [](const Placement& p) { return p.is_shard(); }));
}

bool has_partial(const std::vector<Placement>& operands) {
  return std::any_of(operands.begin(), operands.end(),
                     [](const Placement& p) { return p.is_partial(); });
}

bool is_valid(const SampleDecisions& sample, const std::vector<Placement>& operands, size_t result,
              const Placement& placement) {
  for (const Decision& d : sample.decisions)
    if (d.combination.result == result && d.combination.placement == placement &&
        d.combination.operands == operands)
      return d.verdict.valid();
  return false;
}

// The placement of every result for one row of operands: sharded before partial, sum before the
// others.
std::vector<std::optional<Placement>> best_results(const SampleDecisions& sample,
                                                   const std::vector<Placement>& operands,
                                                   size_t num_results) {
  std::vector<std::optional<Placement>> best(num_results);
  for (const Decision& d : sample.decisions) {
    const Combination& c = d.combination;
    if (!d.verdict.valid() || c.operands != operands || is_implied(sample, c)) continue;
    std::optional<Placement>& current = best[c.result];
    if (!current || (current->is_replicate() && !c.placement.is_replicate())) current = c.placement;
  }
  return best;
}

}  // namespace

bool is_implied(const SampleDecisions& sample, const Combination& c) {
  if (!c.placement.is_partial()) return false;
  if (c.placement.reduce == ReduceOp::Sum || c.placement.reduce == ReduceOp::Prod) return false;
  return is_valid(sample, c.operands, c.result, Placement::replicate());
}

SynthesizedRule synthesize(const SampleDecisions& sample) {
  const std::vector<Shape>& result_shapes = sample.result_shapes;
  SynthesizedRule synthesized;
  OpShardingRule& rule = synthesized.rule;
  for (const TensorDesc& desc : sample.sample.operands)
    rule.operands.emplace_back(desc.shape.size());
  for (const Shape& shape : result_shapes) rule.results.emplace_back(shape.size());

  // Rows that shard the most operands first: they are the factors; others repeat a part of them.
  std::vector<const Decision*> rows;
  for (const Decision& d : sample.decisions)
    if (d.verdict.valid() && d.combination.result == 0 && num_sharded(d.combination.operands) > 0 &&
        !has_partial(d.combination.operands) && !is_implied(sample, d.combination))
      rows.push_back(&d);
  std::stable_sort(rows.begin(), rows.end(), [](const Decision* a, const Decision* b) {
    return num_sharded(a->combination.operands) > num_sharded(b->combination.operands);
  });
  for (const Decision* row : rows) {
    const std::vector<Placement>& operands = row->combination.operands;
    const auto results = best_results(sample, operands, result_shapes.size());
    if (results[0] != row->combination.placement) continue;
    bool taken = false;
    int64_t size = 1;
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].is_shard()) {
        taken |= !rule.operands[i][operands[i].dim].empty();
        size = sample.sample.operands[i].shape[operands[i].dim];
      }
    for (size_t r = 0; r < results.size(); ++r)
      if (results[r] && results[r]->is_shard()) taken |= !rule.results[r][results[r]->dim].empty();
    if (taken) continue;
    Factor factor{size, FactorKind::PassThrough, false, ReduceOp::Sum};
    if (results[0]->is_partial()) {
      factor.kind = FactorKind::Reduction;
      factor.reduce = results[0]->reduce;
    }
    const auto index = static_cast<FactorIndex>(rule.factors.size());
    rule.factors.push_back(factor);
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].is_shard()) rule.operands[i][operands[i].dim].push_back(index);
    for (size_t r = 0; r < results.size(); ++r)
      if (results[r] && results[r]->is_shard()) rule.results[r][results[r]->dim].push_back(index);
  }
  // A dimension along which nothing is valid must be whole when the op runs.
  auto complete = [&](std::vector<TensorFactors>& tensors, auto size_of) {
    for (size_t t = 0; t < tensors.size(); ++t)
      for (size_t d = 0; d < tensors[t].size(); ++d)
        if (tensors[t][d].empty()) {
          tensors[t][d].push_back(static_cast<FactorIndex>(rule.factors.size()));
          rule.factors.push_back(
              {size_of(t, d), FactorKind::NeedReplication, false, ReduceOp::Sum});
        }
  };
  complete(rule.operands, [&](size_t t, size_t d) { return sample.sample.operands[t].shape[d]; });
  complete(rule.results, [&](size_t t, size_t d) { return result_shapes[t][d]; });

  for (const Decision& d : sample.decisions) {
    const Combination& c = d.combination;
    if (!d.verdict.valid() || c.result != 0 || !has_partial(c.operands) ||
        num_sharded(c.operands) > 0)
      continue;
    if (!c.placement.is_partial()) continue;
    std::optional<ReduceOp> in;
    bool uniform = true;
    PartialRow row{};
    for (const Placement& p : c.operands) {
      row.operands.push_back(p.is_partial());
      if (!p.is_partial()) continue;
      uniform &= !in || *in == p.reduce;
      in = p.reduce;
    }
    if (!uniform || *in == ReduceOp::Avg || c.placement.reduce == ReduceOp::Avg) continue;
    row.in = *in;
    row.out = c.placement.reduce;
    synthesized.partial.push_back(std::move(row));
  }
  for (const Decision& missing : diff_rule(rule, synthesized.partial, sample, {2, 3, 4}).missing) {
    const std::vector<Placement>& operands = missing.combination.operands;
    const char* why = num_sharded(operands) > 0 && has_partial(operands)
                          ? "mixes sharded and partial operands on one axis"
                          : "a dimension would belong to two factors";
    synthesized.not_expressible.push_back(to_string(missing.combination) + ": " + why);
  }
  return synthesized;
}

RuleDiff diff_rule(const OpShardingRule& rule, const PartialTransfer& partial,
                   const SampleDecisions& sample, const std::vector<int>& worlds) {
  RuleDiff diff;
  for (const Decision& decision : sample.decisions) {
    const Combination& c = decision.combination;
    bool claimed = true;
    for (int w : worlds) {
      const auto results = transfer(rule, partial, c.operands, w);
      claimed &= results && (*results)[c.result] == c.placement;
    }
    if (claimed && (decision.verdict.kind == VerdictKind::Refuted ||
                    decision.verdict.kind == VerdictKind::Rejected))
      diff.incorrect.push_back(decision);
    if (!claimed && decision.verdict.valid() && !is_implied(sample, c))
      diff.missing.push_back(decision);
  }
  return diff;
}

}  // namespace cleave
