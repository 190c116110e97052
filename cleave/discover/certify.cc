#include "cleave/discover/certify.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/discover/op_call.h"
#include "cleave/discover/transfer.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/rules/propagate/propagation.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave {
namespace {

void annotate(AttrDict& attrs, const Placement& placement, const MeshPtr& mesh, size_t rank) {
  attrs.set("sdy.sharding", ShardingAttr{from_placements({placement}, mesh, rank)});
}

// The program of one claim; the function's arguments and results are the op's.
Program program_of(const Graph& sample, const std::vector<Placement>& arguments,
                   const std::vector<Placement>& results, int w, bool propagate = false) {
  Graph graph = sample;
  graph.walk([&](NodeId id) {
    AttrDict& attrs = graph.node(id).attrs;
    if (attrs.has("sdy.sharding_rule")) attrs.set(kStatedRuleAttr, UnitAttr{});
  });
  auto mesh = std::make_shared<const Mesh>(Mesh({{"x", w}}, {}, "mesh"));
  graph.meshes = {mesh};
  Function& main = *graph.find_function("main");
  for (size_t i = 0; i < arguments.size(); ++i)
    annotate(main.arg_attrs[i], arguments[i], mesh, main.arg_types[i].rank());
  for (size_t r = 0; r < results.size(); ++r)
    annotate(main.result_attrs[r], results[r], mesh, main.result_types[r].rank());
  if (propagate) propagate_shardings(graph, {});
  PartitionOptions options;
  options.mesh = mesh;
  options.verified = propagate;  // there already
  return partition(graph, options);
}

// Beside those that discovery tries, the bitwise reductions of a program.
std::vector<Placement> certified_placements(const TensorDesc& desc) {
  std::vector<Placement> placements = placements_of(desc);
  if (desc.dtype == DType::Bool || is_integer(desc.dtype))
    for (ReduceOp op : {ReduceOp::And, ReduceOp::Or}) placements.push_back(Placement::partial(op));
  return placements;
}

bool communicates(const Program& program) {
  bool found = false;
  program.graph.walk(program.entry_function().body,
                     [&](NodeId id) { found |= is_transfer(program.graph.node(id)); });
  return found;
}

class Certifier {
 public:
  Certifier(const Graph& sample, const DiscoverOptions& options)
      : sample_(sample), call_(sample_of(sample)), options_(options) {
    arguments_.resize(call_.operands.size());
    const auto arguments = arguments_of(sample);
    for (size_t i = 0; i < arguments.size(); ++i)
      if (arguments[i]) arguments_[*arguments[i]] = i;
  }

  void test(Claim& claim) {
    std::vector<Placement> operands;
    for (size_t operand : arguments_) operands.push_back(claim.operands[operand]);
    const Program program = program_of(sample_, operands, claim.results, claim.w);
    if (communicates(program)) {
      claim.verdict = VerdictKind::Rejected;
      claim.reason = "the partitioned program communicates";
      return;
    }
    const Executor executor(program, nullptr);
    counts_ = {};
    const int repeats = has_partial(claim.operands) ? kNumDecompositions : 1;
    for (size_t g = 0; g < options_.generators.size(); ++g)
      for (int repeat = 0; repeat < (options_.generators[g].one_place ? 1 : repeats); ++repeat)
        if (!run(claim, executor, g, repeat)) return;
    claim.verdict = claim.tests > 0 ? VerdictKind::Tested : VerdictKind::Untestable;
    if (claim.tests == 0)
      claim.reason = fmt::format(
          "of {} inputs {} could not be split so, {} gave zeros, {} numbers that are not finite",
          counts_.inputs, counts_.unsplit, counts_.zeros, counts_.nonfinite);
  }

 private:
  // False if the claim is refuted.
  bool run(Claim& claim, const Executor& executor, size_t generator, int repeat) {
    NumberStream random(options_.seed * 31 + generator * 7 + static_cast<uint64_t>(repeat));
    std::vector<Array> operands;
    std::vector<std::vector<Array>> parts;  // [operand][device]
    for (size_t i = 0; i < call_.operands.size(); ++i) {
      const TensorDesc& desc = call_.operands[i];
      const InputGenerator& fill = options_.generators[generator];
      if (fill.floats_only && !has_fractions(desc.dtype)) return true;
      counts_.inputs += i == 0;
      operands.push_back(make_input(fill, desc, random, i));
      auto devices = represent(
          operands.back(), claim.operands[arguments_[i]], claim.w,
          static_cast<Decomposition>((repeat + static_cast<int>(i)) % kNumDecompositions), random);
      if (!devices) {
        ++counts_.unsplit;
        return true;
      }
      parts.push_back(std::move(*devices));
    }
    const std::vector<Array> truth = run_function(sample_, "main", operands);
    std::vector<std::vector<Array>> by_device(static_cast<size_t>(claim.w));
    for (const auto& operand : parts)
      for (size_t device = 0; device < operand.size(); ++device)
        by_device[device].push_back(operand[device]);
    const auto outputs = executor.run_shards(by_device);
    for (size_t r = 0; r < truth.size(); ++r) {
      std::vector<Array> devices;
      for (const auto& output : outputs) devices.push_back(output[r]);
      if (!check(claim, r, truth[r], devices, parts)) return false;
    }
    return true;
  }

  bool check(Claim& claim, size_t result, const Array& truth, const std::vector<Array>& devices,
             const std::vector<std::vector<Array>>& parts) {
    const bool partial = has_partial(claim.operands);
    const MatchResult match = judge(
        represents(devices, truth, claim.results[result], tolerance_for(parts, truth, partial)),
        parts, devices, partial, claim.results[result].is_partial());
    if (match.match == Match::No || match.match == Match::Shape) {
      claim.verdict = VerdictKind::Refuted;
      claim.reason = match.match == Match::Shape
                         ? fmt::format("result {} has another shape on the devices", result)
                         : fmt::format("result {}, element {}: expected {}, the devices give {}",
                                       result, match.element, match.expected, match.actual);
      return false;
    }
    const bool zero = magnitude(truth) == 0;
    claim.tests += match.match == Match::Yes && !zero;
    counts_.zeros += match.match == Match::Yes && zero;
    counts_.nonfinite += match.match == Match::NonFinite;
    return true;
  }

  // Of the claim at hand: why inputs told nothing.
  struct {
    int inputs = 0, unsplit = 0, zeros = 0, nonfinite = 0;
  } counts_;
  const Graph& sample_;
  const Sample call_;
  std::vector<size_t> arguments_;  // by argument of the function: the operand of the op
  const DiscoverOptions& options_;
};

}  // namespace

bool runs_alone(const Graph& call, const std::vector<Placement>& operands,
                const std::vector<Placement>& results, int w) {
  Graph planned = call;
  const std::vector<NodeId> nodes = planned.region(planned.find_function("main")->body).nodes;
  for (NodeId id : nodes) planned.node(id).attrs.set(kPlannedAttr, UnitAttr{});
  // Constants are split with what they meet.
  const bool sharded = std::any_of(operands.begin(), operands.end(),
                                   [](const Placement& p) { return p.is_shard(); });
  return !communicates(program_of(planned, operands, results, w, sharded));
}

std::string to_string(const Claim& claim) {
  std::string text = claim.op + ": ";
  for (size_t i = 0; i < claim.operands.size(); ++i)
    text += (i ? ", " : "") + to_string(claim.operands[i]);
  text += " -> ";
  for (size_t i = 0; i < claim.results.size(); ++i)
    text += (i ? ", " : "") + to_string(claim.results[i]);
  return text + fmt::format(" on {} devices: {}{}{}", claim.w, name(claim.verdict),
                            claim.reason.empty() ? "" : ": ", claim.reason);
}

std::vector<Claim> certify(const Graph& sample, const DiscoverOptions& options) {
  const Node& op = sample.node(called_op(sample));
  const std::optional<OpShardingRule> rule = executed_rule(sample, op);
  if (!rule) return {};
  const PartialTransfer partial = partial_of(sample, op);
  Certifier certifier(sample, options);
  std::vector<Claim> claims;
  for (int w : options.worlds)
    for (const std::vector<Placement>& arguments :
         operand_rows(sample_of(sample).operands, certified_placements)) {
      const std::vector<Placement> row = with_constants(sample, arguments);
      const auto results = transfer(*rule, partial, row, w);
      if (!results) continue;
      Claim claim{op.name(), row, *results, w, VerdictKind::Untestable, 0, {}};
      certifier.test(claim);
      claims.push_back(std::move(claim));
    }
  return claims;
}

}  // namespace cleave
