#include "cleave/plan/verify_on_xla.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cleave/analyze/asked_collectives.h"
#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/program_memory.h"
#include "cleave/analyze/xla_cpu_memory.h"
#include "cleave/core/shard_layout.h"
#include "cleave/core/units.h"
#include "cleave/pjrt/engine.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"
#include "cleave/plan/path.h"
#include "cleave/plan/predicted_memory.h"
#include "cleave/plan/verify_parts.h"
#include "cleave/spmd/single_program.h"
#include "cleave/xla/compiled_program.h"

namespace cleave::plan {
namespace {

constexpr double kSame = 1e-3;  // of all bytes

std::vector<XlaCollectiveCheck> collective_checks(const analyze::ProgramCost& cost,
                                                  const Program& program, int64_t trips,
                                                  const xla::CompiledProgram& compiled,
                                                  bool widens) {
  std::map<std::string, XlaCollectiveCheck> checks;
  for (const analyze::CollectiveCostSum& sum : cost.transfers) {
    const std::string kind = analyze::asked_kind(sum.kind);
    if (kind.empty()) continue;
    checks[kind].planned += sum.bytes;
    checks[kind].planned_executions += sum.executions;
  }
  const SingleProgram single = single_program(program);
  for (const analyze::AskedCollective& asked :
       analyze::asked_collectives(single.graph, single.entry, single.mesh->num_devices(), trips)) {
    checks[asked.kind].asked += asked.received_bytes;
    checks[asked.kind].asked_executions += asked.executions;
    if (widens) checks[asked.kind].widened += asked.narrow_bytes;
  }
  for (const xla::CompiledTotal& total : compiled.totals) {
    if (total.received_bytes == 0) continue;
    checks[total.kind].compiled += total.received_bytes;
    checks[total.kind].compiled_executions += total.executions;
  }
  std::vector<XlaCollectiveCheck> result;
  for (auto& [kind, check] : checks) {
    check.kind = kind;
    result.push_back(std::move(check));
  }
  return result;
}

double sum_of(const std::vector<XlaCollectiveCheck>& checks, double XlaCollectiveCheck::*part) {
  double sum = 0;
  for (const XlaCollectiveCheck& check : checks) sum += check.*part;
  return sum;
}

std::string verdict_of(bool good) { return good ? "ok  " : "BAD "; }

std::string row_of(const XlaCollectiveCheck& c) {
  const auto size = [](double bytes) { return bytes_text(bytes, BytesStyle::Table); };
  return fmt::format(
      "       {:<20} planned {:>10} x{:<5.0f} asked {:>10} x{:<5.0f} compiled {:>10} x{:.0f}\n",
      c.kind, size(c.planned), c.planned_executions, size(c.asked), c.asked_executions,
      size(c.compiled), c.compiled_executions);
}

}  // namespace

bool has_uneven_values(const Program& program) {
  bool uneven = false;
  const auto look = [&](ValueId value) {
    const Type& type = program.graph.type(value);
    const ShardingSpec& spec = program.layout(value).spec;
    if (type.is_tensor() && spec.mesh) uneven |= !is_even(spec, type.shape);
  };
  for (ValueId value : program.graph.region(program.entry_function().body).args) look(value);
  program.graph.walk([&](NodeId id) {
    for (ValueId value : program.graph.node(id).results) look(value);
  });
  return uneven;
}

bool XlaVerification::asked_good() const {
  const double near = kSame * std::max(sum_of(collectives, &XlaCollectiveCheck::planned), 1.0);
  return std::all_of(collectives.begin(), collectives.end(), [&](const XlaCollectiveCheck& check) {
    const double more = check.asked - check.planned;
    return is_uneven ? more >= -near : std::abs(more) <= near;
  });
}

bool XlaVerification::compiled_good() const {
  return sum_of(collectives, &XlaCollectiveCheck::compiled) <=
         (1 + kSame) * (sum_of(collectives, &XlaCollectiveCheck::asked) +
                        sum_of(collectives, &XlaCollectiveCheck::widened));
}

bool XlaVerification::arguments_good() const {
  return is_uneven ? compiled_arguments >= planned_arguments
                   : compiled_arguments == planned_arguments;
}

bool XlaVerification::memory_good() const {
  return !predicted_peak || std::abs(static_cast<double>(compiled_peak - *predicted_peak)) <=
                                kMemoryWithin * static_cast<double>(compiled_peak);
}

XlaVerification verify_on_xla(const Plan& plan, const Graph& graph, const MachineProfile& profile,
                              const std::string& engine, const VerifyPlanOptions& options) {
  XlaVerification result;
  const Graph flat = flatten(graph, plan.entry, profile);
  const Graph module = without_layout_ops(flat);
  RunnableProgram small = runnable(partition_planned(bind(plan, flat), profile), options);
  // One device runs the body of a manual computation for all.
  if (has_manual_parts(module)) small.whole = module;
  const Program& program = small.program;
  result.changes = std::move(small.changes);
  result.mesh = to_string(*program.mesh);
  result.is_uneven = has_uneven_values(program);
  const std::vector<Array> args = verification_arguments(program, options.seed);
  const CountedRun alone = run_counted(small.whole, program.entry, args);
  const std::unique_ptr<pjrt::TensorProgram> on_xla = pjrt::sharded_program(engine, program);
  const std::vector<Array> sharded = on_xla->run(args);
  const ResultCheck check = check_results(small.whole, program.entry, args, alone.results, sharded);
  result.differences = check.differences;
  result.unsteady = check.unsteady;
  result.num_results = check.num_results;
  result.max_difference = check.max_difference;
  result.magnitude = check.magnitude;

  const pjrt::LoadedProgram& loaded = on_xla->executable().program();
  const pjrt::ProgramMemory memory = loaded.memory_stats();
  result.engine = fmt::format("{} ({}), {} devices", loaded.client().plugin().name(),
                              loaded.client().platform(), on_xla->num_devices());
  const std::string text = loaded.compiled_text();
  xla::CompiledOptions read;
  read.trips = plan.trips;
  read.devices = program.mesh->num_devices();
  const xla::CompiledProgram compiled = xla::read_compiled(text, read);
  result.unknown_loops = compiled.unknown_loops;
  const analyze::ProgramCost cost = analyze::program_cost(program, profile, plan.trips);
  result.collectives =
      collective_checks(cost, program, plan.trips, compiled, loaded.client().platform() == "cpu");
  const analyze::ProgramMemory predicted = analyze::program_memory(program);
  result.planned_arguments = predicted.arguments;
  result.planned_peak = predicted.peak;
  result.compiled_arguments = memory.arguments;
  result.compiled_peak = memory.total();
  if (loaded.client().platform() == "cpu")
    result.predicted_peak =
        analyze::xla_cpu_memory(single_program(program), analyze::has_library_fusions(text))
            .total();
  else if (is_executor_of(profile.executor, loaded.client().platform()))
    result.predicted_peak = predicted.peak;
  return result;
}

std::string to_string(const XlaVerification& v) {
  const auto size = [](double bytes) { return bytes_text(bytes, BytesStyle::Table); };
  std::string text = fmt::format("ran by {} on {}", v.engine, v.mesh);
  for (size_t i = 0; i < v.changes.size(); ++i)
    text += fmt::format("{} {}", i ? "," : ", smaller:", v.changes[i]);
  text += "\n" + to_string(ResultCheck{v.differences, v.unsteady, v.num_results, v.max_difference,
                                       v.magnitude});
  const double planned = sum_of(v.collectives, &XlaCollectiveCheck::planned);
  const double asked = sum_of(v.collectives, &XlaCollectiveCheck::asked);
  const double compiled = sum_of(v.collectives, &XlaCollectiveCheck::compiled);
  text += fmt::format(
      "{} XLA was asked for what the plan moves: {} received by a device, {} planned{}\n",
      verdict_of(v.asked_good()), size(asked), size(planned),
      v.is_uneven ? "; uneven shards travel padded" : "");
  text += fmt::format("{} XLA compiled {}{}{}\n", verdict_of(v.compiled_good()), size(compiled),
                      compiled <= (1 + kSame) * asked ? " of it" : "",
                      compiled < (1 - kSame) * asked
                          ? ": it takes out of loops what does not change there, and joins what is "
                            "the same"
                          : "");
  for (const XlaCollectiveCheck& check : v.collectives) text += row_of(check);
  const auto of = [&](const char* kind) {
    for (const XlaCollectiveCheck& check : v.collectives)
      if (check.kind == kind) return check;
    return XlaCollectiveCheck{};
  };
  if (compiled > (1 + kSame) * asked && v.compiled_good())
    text += "note: XLA for CPUs computes bf16 as f32, and moves twice the bytes for it\n";
  if (of("reduce-scatter").compiled < (1 - kSame) * of("reduce-scatter").asked)
    text += "note: this compiler makes all-reduces and slices of reduce-scatters\n";
  for (const std::string& loop : v.unknown_loops)
    text += fmt::format("note: XLA does not know the trips of loop {}\n", loop);
  text += fmt::format("{} arguments of a device: {}, planned {}\n", verdict_of(v.arguments_good()),
                      size(static_cast<double>(v.compiled_arguments)),
                      size(static_cast<double>(v.planned_arguments)));
  text += fmt::format("{} memory of a device: {} by XLA, {}{} planned for the plan's machine\n",
                      !v.predicted_peak ? "    "
                      : v.memory_good() ? "ok  "
                                        : "off ",
                      size(static_cast<double>(v.compiled_peak)),
                      v.predicted_peak ? size(static_cast<double>(*v.predicted_peak)) +
                                             " predicted for this compiler, "
                                       : "",
                      size(static_cast<double>(v.planned_peak)));
  return text + (v.good() ? "verified\n" : "NOT verified\n");
}

}  // namespace cleave::plan
