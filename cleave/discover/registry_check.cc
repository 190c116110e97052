#include "cleave/discover/registry_check.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "cleave/core/error.h"
#include "cleave/discover/op_call.h"
#include "cleave/discover/registry_operator.h"
#include "cleave/discover/synthesize.h"
#include "cleave/discover/transfer.h"

namespace cleave {
namespace {

// On Bool, Min and And are one reduction, as are Max and Or.
bool same_placement(const Placement& a, const Placement& b, DType dtype) {
  if (a == b || dtype != DType::Bool || !a.is_partial() || !b.is_partial()) return a == b;
  auto canonical = [](ReduceOp op) {
    return op == ReduceOp::And ? ReduceOp::Min : op == ReduceOp::Or ? ReduceOp::Max : op;
  };
  return canonical(a.reduce) == canonical(b.reduce);
}

// Why a rule does not say a combination.
std::string reason_of(const Graph& call, const OpShardingRule& rule, const Combination& c) {
  const std::vector<Placement> operands = with_constants(call, c.operands);
  int sharded = 0, partial = 0;
  bool one_reduction = true, products = c.placement.is_partial(), average = false, whole = false;
  const Node& node = call.node(called_op(call));
  // An operand that is whole although it has the dimension that is split in another.
  bool whole_beside = false;
  auto has_factor = [&](size_t i, FactorIndex factor) {
    return std::any_of(rule.operands[i].begin(), rule.operands[i].end(),
                       [&](const DimFactors& dim) { return !dim.empty() && dim[0] == factor; });
  };
  std::optional<ReduceOp> reduce;
  FactorKind kind = FactorKind::PassThrough;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_shard()) {
      ++sharded;
      const DimFactors& dim = rule.operands[i][operands[i].dim];
      if (dim.empty()) continue;
      kind = rule.factors[dim.front()].kind;
      for (size_t j = 0; j < operands.size(); ++j)
        whole_beside |= operands[j].is_replicate() && has_factor(j, dim.front());
    }
    if (!operands[i].is_partial()) continue;
    ++partial;
    average |= operands[i].reduce == ReduceOp::Avg;
    whole |= !has_fractions(call.operand_type(node, i).dtype);
    one_reduction &= !reduce || *reduce == operands[i].reduce;
    reduce = operands[i].reduce;
  }
  products &= (reduce && *reduce == ReduceOp::Prod) || c.placement.reduce == ReduceOp::Prod;
  if (sharded && partial) return "sharded and partial operands meet on one axis";
  if (!one_reduction) return "two reductions meet on one axis";
  if (sharded) {
    if (c.placement.is_replicate()) return "the result does not depend on the operand";
    if (kind == FactorKind::NeedReplication)
      return "the rule asks for the whole dimension, as Shardy's does";
    return whole_beside
               ? "a device takes its part of a whole operand: a free slice of it says the same"
               : "a second factor of one dimension";
  }
  if (partial && c.placement.is_replicate()) return "the result does not depend on the operand";
  if (average)
    return whole ? "averages of whole numbers are rounded: no row carries them"
                 : "averages are carried where sums are, and by x + c";
  if (products) return "products over devices are not carried: parts over- and underflow";
  if (node.results.size() > 1) return "a row of a partial transfer speaks of all results";
  if (partial)
    return "an operand that is rarely partial (an initial value, an index, a flag): no row carries "
           "it";
  return c.placement.is_shard()
             ? "a device takes its part of a whole operand: a free slice of it says the same"
             : "equal numbers are their own reduction";
}

// An operand that does not matter: right under every reduction, and so written once as P(*).
std::string operands_text(const SampleDecisions& decided, const Combination& c) {
  std::string text;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    bool any = c.operands[i].is_partial();
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod}) {
      if (!any) break;
      std::vector<Placement> other = c.operands;
      other[i] = Placement::partial(op);
      any &=
          std::any_of(decided.decisions.begin(), decided.decisions.end(), [&](const Decision& d) {
            return d.verdict.valid() && d.combination.result == c.result &&
                   d.combination.placement == c.placement && d.combination.operands == other;
          });
    }
    text += (i ? ", " : "") + (any ? "P(*)" : to_string(c.operands[i]));
  }
  return text;
}

}  // namespace

void find_missing(const Graph& call, const DiscoverOptions& options, RegistryReport& report) {
  const Node& node = call.node(called_op(call));
  const std::optional<OpShardingRule> rule = executed_rule(call, node);
  if (!rule) return;
  const PartialTransfer partial = partial_of(call, node);
  const Operator op = operator_of_calls({call});
  DiscoverOptions claimed = options;
  claimed.uneven_worlds = false;  // rules are asked for the given numbers of devices
  const SampleDecisions decided{op.samples[0], {}, decide(op, op.samples[0], claimed)};
  report.combinations += decided.decisions.size();
  for (const Decision& d : decided.decisions) {
    const Combination& c = d.combination;
    bool always = true;
    for (int w : options.worlds) {
      const auto results = transfer(*rule, partial, with_constants(call, c.operands), w);
      always &= results && same_placement((*results)[c.result], c.placement,
                                          call.result_type(node, c.result).dtype);
    }
    if (always && d.verdict.kind == VerdictKind::Refuted)
      report.incorrect.push_back({node.name(),
                                  c.operands,
                                  {c.placement},
                                  0,
                                  d.verdict.kind,
                                  0,
                                  to_string(node.name(), *d.verdict.witness)});
    if (always || !d.verdict.valid() || is_implied(decided, c)) continue;
    std::string text = operands_text(decided, c);
    text += node.results.size() > 1 ? fmt::format(" -> result {}: ", c.result) : " -> ";
    MissingClaim missing{node.name(), to_string(op.samples[0]), text + to_string(c.placement),
                         reason_of(call, *rule, c)};
    const bool known =
        std::any_of(report.missing.begin(), report.missing.end(), [&](const MissingClaim& m) {
          return m.op == missing.op && m.call == missing.call &&
                 m.combination == missing.combination;
        });
    if (!known) report.missing.push_back(std::move(missing));
  }
}

RegistryReport check_registry(const DiscoverOptions& options, bool with_missing) {
  const std::vector<Graph>& samples = registry_samples();
  std::vector<RegistryReport> parts(samples.size());
  std::vector<std::exception_ptr> errors(samples.size());
  std::atomic<size_t> next = 0, done = 0;
  std::mutex progress;
  DiscoverOptions alone = options;
  alone.threads = 1;
  alone.progress = {};
  auto check = [&](const Graph& sample, RegistryReport& report) {
    for (Claim& claim : certify(sample, alone)) {
      ++report.claims;
      if (claim.verdict == VerdictKind::Untestable) report.untestable.push_back(claim);
      if (claim.verdict == VerdictKind::Refuted || claim.verdict == VerdictKind::Rejected)
        report.incorrect.push_back(std::move(claim));
    }
    if (with_missing) find_missing(sample, alone, report);
  };
  auto work = [&] {
    for (size_t i = next++; i < samples.size(); i = next++) {
      try {
        check(samples[i], parts[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
      const double share = static_cast<double>(++done) / static_cast<double>(samples.size());
      std::lock_guard lock(progress);
      if (options.progress) options.progress(samples[i].node(called_op(samples[i])).name(), share);
    }
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < options.threads; ++t) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  RegistryReport all;
  all.samples = samples.size();
  for (RegistryReport& part : parts) {
    all.claims += part.claims;
    std::move(part.untestable.begin(), part.untestable.end(), std::back_inserter(all.untestable));
    all.combinations += part.combinations;
    std::move(part.incorrect.begin(), part.incorrect.end(), std::back_inserter(all.incorrect));
    std::move(part.missing.begin(), part.missing.end(), std::back_inserter(all.missing));
  }
  return all;
}

std::string missing_markdown(const RegistryReport& report) {
  // By reason, then by op and call.
  std::map<std::string, std::map<std::pair<std::string, std::string>, std::vector<std::string>>>
      by_reason;
  for (const MissingClaim& m : report.missing)
    by_reason[m.reason][{m.op, m.call}].push_back(m.combination);
  std::string text = fmt::format(
      "# What no rule claims\n\nRight placements that a rule or partial transfer of the registry "
      "does not claim: {} over {} samples, by\nthe reason why. Nothing here is wrong; an operand "
      "in one of these layouts is resharded first. Made by\n`cleave discover --all --diff "
      "--format markdown > docs/discovery-missing.md`; a test keeps it true.\n\nLeft out: what "
      "follows from a replicated result (it is also P(avg), P(max) and P(min)). `P(*)` is any\n"
      "reduction.\n",
      report.missing.size(), report.samples);
  for (const auto& [reason, calls] : by_reason) {
    size_t count = 0;
    for (const auto& [call, combinations] : calls) count += combinations.size();
    text += fmt::format("\n## {}{} ({})\n\n", static_cast<char>(std::toupper(reason[0])),
                        reason.substr(1), count);
    text += "| op | placements |\n|---|---|\n";
    for (const auto& [call, combinations] : calls) {
      std::string list;
      for (const std::string& c : combinations) list += (list.empty() ? "`" : "<br>`") + c + "`";
      text += fmt::format("| `{}({})` | {} |\n", call.first, call.second, list);
    }
  }
  return text;
}

}  // namespace cleave
