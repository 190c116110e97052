#include "cleave/discover/discover.h"

#include <time.h>

#include <algorithm>
#include <chrono>

#include "cleave/core/error.h"
#include "cleave/discover/transfer.h"

namespace cleave {
namespace {

std::vector<Array> example_results(const Operator& op, const Sample& sample) {
  NumberStream random(0);
  std::vector<Array> operands;
  for (const TensorDesc& desc : sample.operands)
    operands.push_back(make_input(default_generators().front(), desc, random));
  return op.run(sample.attrs, operands);
}

// A combination that held in every test and also follows, op by op, from the visible definition.
void prove(const Operator& op, const DiscoverOptions& options, SampleDecisions& sample) {
  if (!op.define) return;
  const Graph definition = op.define(sample.sample);
  for (Decision& decision : sample.decisions) {
    if (decision.verdict.kind != VerdictKind::Tested) continue;
    bool follows = true;
    for (int w : options.worlds) {
      const auto results = transfer_through(definition, decision.combination.operands, w);
      follows &=
          results && (*results)[decision.combination.result] == decision.combination.placement;
    }
    if (follows) decision.verdict.kind = VerdictKind::Proved;
  }
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

}  // namespace

VerdictCounts count_verdicts(const Discovery& discovery) {
  VerdictCounts counts;
  for (const SampleDecisions& sample : discovery.samples)
    for (const Decision& decision : sample.decisions) {
      const VerdictKind kind = decision.verdict.kind;
      (kind == VerdictKind::Proved     ? counts.proved
       : kind == VerdictKind::Tested   ? counts.tested
       : kind == VerdictKind::Refuted  ? counts.refuted
       : kind == VerdictKind::Rejected ? counts.rejected
                                       : counts.untestable) += 1;
    }
  return counts;
}

Discovery discover(const Operator& given, const DiscoverOptions& options) {
  if (given.samples.empty())
    throw_user("discover {}: no shapes to try; give some with --shape", given.name);
  require_deterministic(given);
  Operator op = given;
  op.exact = op.exact || is_below_rounding(given);
  const auto begin = std::chrono::steady_clock::now();
  const double processor_begin = processor_seconds();
  Discovery discovery;
  discovery.op = op.name;
  discovery.num_operands = op.samples.front().operands.size();
  discovery.worlds = options.worlds;
  discovery.dim_attrs = op.dim_attrs;
  discovery.seed = options.seed;
  for (const InputGenerator& generator : options.generators)
    discovery.generators.push_back(generator.name);
  for (size_t i = 0; i < op.samples.size(); ++i) {
    DiscoverOptions of_sample = options;
    if (options.progress)
      of_sample.progress = [&](const std::string& name, double share) {
        options.progress(name,
                         (static_cast<double>(i) + share) / static_cast<double>(op.samples.size()));
      };
    discovery.samples.push_back({op.samples[i], {}, decide(op, op.samples[i], of_sample)});
    for (const Array& result : example_results(op, op.samples[i]))
      discovery.samples.back().result_shapes.push_back(result.shape());
    prove(op, options, discovery.samples.back());
    discovery.combinations += discovery.samples.back().decisions.size();
    for (const Decision& decision : discovery.samples.back().decisions)
      discovery.num_results = std::max(discovery.num_results, decision.combination.result + 1);
  }
  explain_by_rules(op, discovery, options.every_family);
  for (RefutedRule& rule : discovery.refuted)
    if (rule.witness && options.shrink_witnesses) rule.witness = shrink(op, *rule.witness);
  discovery.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  discovery.processor_seconds = processor_seconds() - processor_begin;
  return discovery;
}

}  // namespace cleave
