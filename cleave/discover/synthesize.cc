#include "cleave/discover/synthesize.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/discover/transfer.h"
#include "cleave/rules/rule_sketch.h"

namespace cleave {
namespace {

size_t num_sharded(const std::vector<Placement>& operands) {
  return static_cast<size_t>(std::count_if(operands.begin(), operands.end(),
                                           [](const Placement& p) { return p.is_shard(); }));
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

// A factor splits all results, or leaves all pending under one reduction.
bool is_one_factor(const std::vector<std::optional<Placement>>& results) {
  return std::all_of(results.begin(), results.end(), [&](const std::optional<Placement>& p) {
    return p && !p->is_replicate() && p->is_partial() == results[0]->is_partial() &&
           (!p->is_partial() || p->reduce == results[0]->reduce);
  });
}

}  // namespace

bool is_degenerate(const Sample& sample) {
  return std::any_of(sample.operands.begin(), sample.operands.end(), [](const TensorDesc& desc) {
    return std::find(desc.shape.begin(), desc.shape.end(), 1) != desc.shape.end();
  });
}

bool is_implied(const SampleDecisions& sample, const Combination& c) {
  if (!c.placement.is_partial()) return false;
  if (c.placement.reduce == ReduceOp::Sum || c.placement.reduce == ReduceOp::Prod) return false;
  return is_valid(sample, c.operands, c.result, Placement::replicate());
}

SynthesizedRule synthesize(const SampleDecisions& sample) {
  const std::vector<Shape>& result_shapes = sample.result_shapes;
  std::vector<Shape> operand_shapes;
  for (const TensorDesc& desc : sample.sample.operands) operand_shapes.push_back(desc.shape);
  RuleSketch sketch(operand_shapes, result_shapes);

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
    if (results[0] != row->combination.placement || !is_one_factor(results)) continue;
    std::vector<int> operand_dims, result_dims;
    for (const Placement& p : operands) operand_dims.push_back(p.is_shard() ? p.dim : kNoDim);
    for (const auto& p : results) result_dims.push_back(p && p->is_shard() ? p->dim : kNoDim);
    if (results[0]->is_partial()) {
      sketch.factor(operand_dims, result_dims, FactorKind::Reduction, results[0]->reduce);
    } else {
      sketch.factor(operand_dims, result_dims);
    }
  }
  SynthesizedRule synthesized;
  synthesized.rule = sketch.build();
  const OpShardingRule& rule = synthesized.rule;

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
    if (!uniform) continue;
    // A row speaks of all results.
    bool all = true;
    for (size_t r = 1; r < result_shapes.size(); ++r)
      all &= is_valid(sample, c.operands, r, c.placement);
    if (!all) continue;
    row.in = *in;
    row.out = c.placement.reduce;
    synthesized.partial.push_back(std::move(row));
  }
  for (const Decision& missing : diff_rule(rule, synthesized.partial, sample, {2, 3, 4}).missing) {
    const std::vector<Placement>& operands = missing.combination.operands;
    const char* why = num_sharded(operands) > 0 && has_partial(operands)
                          ? "mixes sharded and partial operands on one axis"
                      : result_shapes.size() > 1 ? "of one result alone"
                                                 : "a dimension would belong to two factors";
    const std::string of =
        result_shapes.size() > 1 ? fmt::format(" (result {})", missing.combination.result) : "";
    synthesized.not_expressible.push_back(to_string(missing.combination) + of + ": " + why);
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
