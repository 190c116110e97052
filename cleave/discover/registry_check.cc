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

bool is_average(const Placement& p) { return p.is_partial() && p.reduce == ReduceOp::Avg; }

// Why a rule cannot, or does not, say a combination.
std::string reason_of(const Graph& call, const OpShardingRule& rule, const Combination& c) {
  const std::vector<Placement> operands = with_constants(call, c.operands);
  int sharded = 0, partial = 0;
  bool one_reduction = true, along_reduction = true;
  std::optional<ReduceOp> reduce;
  FactorKind kind = FactorKind::PassThrough;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].is_shard()) {
      ++sharded;
      const DimFactors& dim = rule.operands[i][operands[i].dim];
      if (!dim.empty()) kind = rule.factors[dim.front()].kind;
      along_reduction &= kind == FactorKind::Reduction;
    }
    if (!operands[i].is_partial()) continue;
    ++partial;
    one_reduction &= !reduce || *reduce == operands[i].reduce;
    reduce = operands[i].reduce;
  }
  if (sharded && partial) return "sharded and partial operands meet on one axis";
  if (!one_reduction) return "two reductions meet on one axis";
  if (sharded) {
    if (c.placement.is_replicate()) return "the result does not depend on the sharded operand";
    if (kind == FactorKind::NeedReplication) return "the rule asks for the whole dimension";
    if (kind == FactorKind::Permutation) return "the rule moves elements along the dimension";
    return "a second factor of the same dimension";
  }
  if (partial && !c.placement.is_partial()) return "the result does not depend on the operand";
  if (partial) return "a reduction that no row of the partial transfer carries";
  return c.placement.is_shard() ? "equal numbers along the dimension"
                                : "equal numbers are their own reduction";
}

}  // namespace

void find_missing(const Graph& call, const DiscoverOptions& options, RegistryReport& report) {
  const Node& node = call.node(called_op(call));
  const std::optional<OpShardingRule> rule = executed_rule(call, node);
  if (!rule) return;
  const PartialTransfer partial = partial_of(call, node);
  const Operator op = operator_of_calls({call});
  const SampleDecisions decided{op.samples[0], {}, decide(op, op.samples[0], options)};
  report.combinations += decided.decisions.size();
  for (const Decision& d : decided.decisions) {
    const Combination& c = d.combination;
    if (is_average(c.placement) || std::any_of(c.operands.begin(), c.operands.end(), is_average))
      continue;
    bool always = true;
    for (int w : options.worlds) {
      const auto results = transfer(*rule, partial, with_constants(call, c.operands), w);
      always &= results && (*results)[c.result] == c.placement;
    }
    if (always && d.verdict.kind == VerdictKind::Refuted)
      report.incorrect.push_back({node.name,
                                  c.operands,
                                  {c.placement},
                                  0,
                                  d.verdict.kind,
                                  0,
                                  to_string(node.name, *d.verdict.witness)});
    if (always || !d.verdict.valid() || is_implied(decided, c)) continue;
    std::string text;
    for (const Placement& p : c.operands) text += (text.empty() ? "" : ", ") + to_string(p);
    text += node.results.size() > 1 ? fmt::format(" -> result {}: ", c.result) : " -> ";
    report.missing.push_back({node.name, to_string(op.samples[0]), text + to_string(c.placement),
                              reason_of(call, *rule, c)});
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
  auto check = [&](const Graph& sample, RegistryReport& report) {
    for (Claim& claim : certify(sample, alone)) {
      ++report.claims;
      report.untestable += claim.verdict == VerdictKind::Untestable;
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
      if (options.progress) options.progress(samples[i].node(called_op(samples[i])).name, share);
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
    all.untestable += part.untestable;
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
  std::string text;
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
