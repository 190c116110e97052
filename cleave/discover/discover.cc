#include "cleave/discover/discover.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <exception>

#include "cleave/core/error.h"
#include "cleave/discover/more_samples.h"
#include "cleave/discover/transfer.h"

namespace cleave {
namespace {

// Of the first numbers that it takes: not every matrix has the inverse that is asked for.
std::vector<Array> example_results(const Operator& op, const Sample& sample) {
  std::exception_ptr refused;
  for (const InputGenerator& generator : default_generators()) {
    NumberStream random(0);
    std::vector<Array> operands;
    for (const TensorDesc& desc : sample.operands)
      operands.push_back(make_input(generator, desc, random, operands.size()));
    try {
      return op.run(sample.attrs, operands);
    } catch (const BrokenOperator&) {
      throw;
    } catch (const UserError&) {
      if (!refused) refused = std::current_exception();
    }
  }
  std::rethrow_exception(refused);
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

namespace {

void add_parameters(const Discovery& discovery, Analysis& analysis) {
  for (const std::string& name : discovery.attributes) {
    const bool known = (analysis.dim_parameter && analysis.dim_parameter->name == name) ||
                       (analysis.keepdim_parameter && analysis.keepdim_parameter->name == name);
    if (!known) analysis.other_parameters.push_back({name, "it changes which rules hold"});
  }
}

// What is known of a discovery before anything is decided.
Discovery begin_discovery(const Operator& op, const DiscoverOptions& options) {
  Discovery discovery;
  discovery.op = op.name;
  discovery.num_operands = op.samples.front().operands.size();
  discovery.worlds = options.worlds;
  discovery.dim_attrs = op.dim_attrs;
  discovery.seed = options.seed;
  discovery.signature = op.signature;
  discovery.operand_names = op.operand_names;
  discovery.versions = options.versions;
  for (const Sample& sample : op.samples)
    for (const TensorDesc& desc : sample.operands)
      if (!op.exact) discovery.tolerance = std::max(discovery.tolerance, tolerance_of(desc.dtype));
  return discovery;
}

// Whether equal calls of one sample agree.
bool agrees(const Operator& op, const Sample& sample) {
  Operator one = op;
  one.samples = {sample};
  try {
    require_deterministic(one);
    return true;
  } catch (const NotDeterministic&) {
    return false;
  }
}

// Equal calls differ: the calls are told, and nothing is decided about them.
Discovery random_discovery(const Operator& op, const DiscoverOptions& options,
                           const NotDeterministic& found) {
  Discovery discovery = begin_discovery(op, options);
  const Sample* equal = nullptr;
  size_t count = 0;
  for (const Sample& sample : op.samples) {
    const std::vector<Array> results = example_results(op, sample);
    discovery.num_results = results.size();
    discovery.samples.push_back({sample, {}, {}});
    for (const Array& result : results)
      discovery.samples.back().result_shapes.push_back(result.shape());
    if (!agrees(op, sample)) continue;
    ++count;
    if (!equal) equal = &sample;
  }
  Analysis& analysis = discovery.analysis;
  analysis.category = OpCategory::Random;
  analysis.deterministic = false;
  analysis.reason = fmt::format(
      "It draws random numbers or keeps a state: {}; so no rule can be confirmed by running it.",
      found.how());
  if (equal)
    analysis.reason += fmt::format(
        " In {} of {} calls, such as ({}), equal calls agree: sweep such values alone to find "
        "their rules.",
        count, op.samples.size(), to_string(*equal));
  return discovery;
}

void add_sample(const Operator& op, const Sample& sample, const DiscoverOptions& options,
                Discovery& discovery) {
  discovery.samples.push_back({sample, {}, decide(op, sample, options)});
  SampleDecisions& decided = discovery.samples.back();
  for (const Array& result : example_results(op, sample))
    decided.result_shapes.push_back(result.shape());
  prove(op, options, decided);
  discovery.combinations += decided.decisions.size();
  for (const Decision& decision : decided.decisions)
    discovery.num_results = std::max(discovery.num_results, decision.combination.result + 1);
}

// Conditions have words of their own.
void require_other_names(const Operator& op) {
  for (const Sample& sample : op.samples)
    for (const char* word : {"d", "w", "rank"})
      if (sample.attrs.contains(word))
        throw_user(
            "discover {}: in conditions d is a dimension, w the number of devices and rank that of "
            "a tensor; wrap it in a function whose argument {} has another name",
            op.name, word);
}

}  // namespace

Discovery discover(const Operator& given, const DiscoverOptions& asked) {
  if (given.samples.empty())
    throw_user("discover {}: no shapes to try; give some with --shape", given.name);
  require_other_names(given);
  try {
    require_deterministic(given);
  } catch (const NotDeterministic& error) {
    if (!asked.random_is_result) throw;
    return random_discovery(given, asked, error);
  }
  Operator op = given;
  op.exact = op.exact || is_below_rounding(given);
  const auto begin = std::chrono::steady_clock::now();
  const double processor_begin = processor_seconds();
  Discovery discovery = begin_discovery(op, asked);
  discovery.analysis = analyze_operator(op, asked.seed);
  DiscoverOptions options = asked;
  if (options.adversarial)
    for (InputGenerator& generator : adversarial_generators(op, discovery.analysis)) {
      discovery.adversarial_generators.push_back({generator.name, generator.description});
      options.generators.push_back(std::move(generator));
    }
  for (const InputGenerator& generator : options.generators)
    discovery.generators.push_back({generator.name, generator.description});
  for (size_t i = 0; i < op.samples.size(); ++i) {
    DiscoverOptions of_sample = options;
    if (options.progress)
      of_sample.progress = [&](const std::string& name, double share) {
        options.progress(name,
                         (static_cast<double>(i) + share) / static_cast<double>(op.samples.size()));
      };
    add_sample(op, op.samples[i], of_sample, discovery);
  }
  for (const Sample& sample : samples_with_uneven_shards(op, discovery))
    add_sample(op, sample, options, discovery);
  explain_by_rules(op, discovery, options.every_family);
  add_parameters(discovery, discovery.analysis);
  for (RefutedRule& rule : discovery.refuted)
    if (rule.witness && options.shrink_witnesses) rule.witness = shrink(op, *rule.witness);
  discovery.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  discovery.processor_seconds = processor_seconds() - processor_begin;
  return discovery;
}

}  // namespace cleave
