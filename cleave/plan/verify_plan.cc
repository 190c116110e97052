#include "cleave/plan/verify_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/program_memory.h"
#include "cleave/analyze/schedule.h"
#include "cleave/core/shard_layout.h"
#include "cleave/core/units.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/ops/op.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/names.h"
#include "cleave/plan/path.h"
#include "cleave/plan/verify_parts.h"
#include "cleave/runtime/executor.h"

namespace cleave::plan {
namespace {

// Buffers of libraries that no model of them foresees.
constexpr double kLibraryBytes = 16 << 10;

using Key = std::pair<std::string, std::string>;  // kind and axes

bool is_local(const std::string& kind) {
  return kind == "all_slice" || kind == "relabel" || kind.ends_with("_to_unreduced");
}

// What the log says of a step that costs this. Virtual devices complete an all_reduce from the
// parts of all others, and the log counts those: n - 1 times the buffer of a group of n. Plans
// price and count a ring, in which a device receives 2 (n - 1) / n of it.
double logged_bytes(const Program& program, NodeId id, const analyze::TransferCost& transfer) {
  if (transfer.kind != "all_reduce") return static_cast<double>(transfer.bytes);
  const Node& op = program.graph.node(id);
  const ShardingSpec& before = program.layout(op.operands[0]).spec;
  const ShardingSpec& after = program.layout(op.results[0]).spec;
  const Type& type = program.graph.operand_type(op, 0);
  const int64_t parts = total_size(before.partial) / total_size(after.partial);
  return static_cast<double>((parts - 1) * num_elements(local_shape(before, type.shape)) *
                             byte_size(type.dtype));
}

class CollectiveChecks {
 public:
  CollectiveCheck& at(const std::string& kind, const std::string& axes) {
    CollectiveCheck& check = checks_[{kind, axes}];
    check.kind = kind;
    check.axes = axes;
    return check;
  }

  void plan(const Plan& plan, const analyze::ProgramCost& cost) {
    for (const CollectiveTotal& total : plan.totals.collectives)
      if (!is_local(total.kind)) at(total.kind, total.axes).planned += total.count;
    for (const analyze::CollectiveCostSum& sum : cost.transfers)
      if (!is_local(sum.kind)) at(sum.kind, sum.axes).counted += sum.executions;
  }

  // What should happen on the way that the run went.
  void expect(const Program& program, const MachineProfile& profile, const RegionRuns& runs) {
    program.graph.walk([&](NodeId id) {
      const Node& node = program.graph.node(id);
      const auto times = static_cast<double>(runs[node.parent.index]);
      if (!is_transfer(node) || times == 0) return;
      const analyze::TransferCost transfer = analyze::transfer_cost(program, id, profile);
      if (is_local(transfer.kind)) return;
      CollectiveCheck& check = at(transfer.kind, transfer.axes);
      check.expected += times;
      check.received_bytes += times * static_cast<double>(transfer.bytes);
      check.predicted_log += times * logged_bytes(program, id, transfer);
    });
  }

  void execute(const CommLog& log) {
    for (const CommEvent& event : log.events()) {
      if (is_local(event.kind)) continue;
      CollectiveCheck& check = at(event.kind, event.axes);
      check.executed += 1;
      check.measured_log += static_cast<double>(event.bytes);
    }
  }

  // Collectives that the user wrote are not in the log; a device tells how often they ran.
  void execute_users(const Program& program, const analyze::ProgramCost& cost,
                     const RegionRuns& runs, const DevicePath& path) {
    for (const analyze::NodeCost& node : cost.nodes) {
      const Node& op = program.graph.node(node.node);
      if (!node.is_transfer || is_transfer(op)) continue;
      CollectiveCheck& check = at(node.transfer.kind, node.transfer.axes);
      const auto times = static_cast<double>(runs[op.parent.index]);
      check.expected += times;
      check.received_bytes += times * static_cast<double>(node.transfer.bytes);
      check.executed += static_cast<double>(path.executions(node.node));
    }
  }

  std::vector<CollectiveCheck> take() {
    std::vector<CollectiveCheck> result;
    for (auto& [key, check] : checks_) result.push_back(std::move(check));
    return result;
  }

 private:
  std::map<Key, CollectiveCheck> checks_;
};

// A loop that ends when numbers have settled may take a trip more or less on several devices, whose
// sums are rounded otherwise: its regions, and those inside it, ran as often as they did there.
RegionRuns with_trips_of(const RegionRuns& devices, RegionRuns runs, const Graph& graph) {
  auto follow = [&](auto&& self, RegionId region) -> void {
    if (devices[region.index] > 0 && runs[region.index] > 0)
      runs[region.index] = devices[region.index];
    for (NodeId id : graph.region(region).nodes)
      for (RegionId inner : graph.node(id).regions) self(self, inner);
  };
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (flow_of(node) == Flow::Loop && !trip_count(graph, node))
      for (RegionId region : node.regions) follow(follow, region);
  });
  return runs;
}

bool goes_one_way(const Graph& graph, const RegionRuns& runs) {
  bool one_way = true;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (flow_of(node) != Flow::Branches) return;
    one_way &= std::count_if(node.regions.begin(), node.regions.end(),
                             [&](RegionId region) { return runs[region.index] > 0; }) <= 1;
  });
  return one_way;
}

std::string verdict(bool good) { return good ? "ok  " : "BAD "; }

}  // namespace

bool PlanVerification::seconds_good() const {
  return std::abs(planned_seconds - program_seconds) <= 1e-6 * std::max(planned_seconds, 1e-12);
}

bool PlanVerification::step_good() const {
  return std::abs(planned_step - program_step) <= 1e-6 * std::max(planned_step, 1e-12);
}

bool PlanVerification::collectives_good() const {
  return std::all_of(collectives.begin(), collectives.end(),
                     [](const CollectiveCheck& check) { return check.good(); });
}

bool PlanVerification::memory_good() const {
  const auto above = static_cast<double>(predicted_peak - measured_peak);
  return (one_way ? std::abs(above) : -above) <=
         0.05 * static_cast<double>(measured_peak) + kLibraryBytes;
}

PlanVerification verify_plan(const Plan& plan, const Graph& graph, const MachineProfile& profile,
                             const VerifyPlanOptions& options) {
  PlanVerification result;
  const Graph flat = flatten(graph, plan.entry, profile);
  Program program = partition_planned(bind(plan, flat), profile);
  CollectiveChecks collectives;
  const analyze::ProgramCost cost = analyze::program_cost(program, profile, plan.trips);
  collectives.plan(plan, cost);
  result.planned_seconds = plan.totals.seconds;
  result.program_seconds = cost.seconds;
  result.planned_step = plan.totals.step_seconds;
  result.program_step = analyze::schedule(program, cost, profile, plan.trips).seconds;

  const Graph as_planned = without_transfers(program);
  const Graph module = without_layout_ops(flat);
  const bool is_manual = has_manual_parts(module);
  result.same_program =
      fingerprint(is_manual ? without_layout_ops(as_planned) : as_planned, program.entry) ==
      fingerprint(is_manual ? with_manual_in_place(module) : module, plan.entry);
  RunnableProgram small = runnable(std::move(program), options);
  result.changes = std::move(small.changes);
  program = std::move(small.program);
  Graph whole = std::move(small.whole);
  // One device runs the body of a manual computation for all.
  if (is_manual) whole = module;
  result.mesh = to_string(*program.mesh);

  const std::vector<Array> args = verification_arguments(program, options.seed);
  const CountedRun alone = run_counted(whole, program.entry, args);
  const Executor executor(program);
  DevicePath path(executor, program.mesh->device_at(0));
  CommLog log;
  MemoryUse memory;
  const std::vector<Array> sharded =
      executor.run(args, {.log = &log, .observer = &path, .memory = &memory});
  const ResultCheck check = check_results(whole, program.entry, args, alone.results, sharded);
  result.num_results = check.num_results;
  result.differences = check.differences;
  result.unsteady = check.unsteady;
  result.max_difference = check.max_difference;
  result.magnitude = check.magnitude;
  const RegionRuns runs =
      is_manual ? path.runs() : with_trips_of(path.runs(), alone.runs, program.graph);
  collectives.expect(program, profile, runs);
  collectives.execute(log);
  if (is_manual) collectives.execute_users(program, cost, runs, path);
  result.collectives = collectives.take();
  result.one_way = goes_one_way(program.graph, runs);
  result.measured_peak = memory.peak();
  for (int64_t device = 0; device < executor.num_devices(); ++device)
    if (device == memory.fullest_device() || device == 0)
      result.predicted_peak =
          std::max(result.predicted_peak, analyze::program_memory(program, device, runs).peak);
  return result;
}

std::string to_string(const PlanVerification& v) {
  std::string text;
  if (v.changes.empty()) {
    text += fmt::format("ran as it is on {}\n", v.mesh);
  } else {
    text += fmt::format("ran on {}, smaller:", v.mesh);
    for (size_t i = 0; i < v.changes.size(); ++i)
      text += fmt::format("{} {}", i ? "," : "", v.changes[i]);
    text += "\n";
  }
  text += fmt::format("{} the program without its communication is the module\n",
                      verdict(v.same_program));
  text += to_string(
      ResultCheck{v.differences, v.unsteady, v.num_results, v.max_difference, v.magnitude});
  text += fmt::format("{} the plan's {} are the sum over the program's nodes, {}\n",
                      verdict(v.seconds_good()), seconds_text(v.planned_seconds),
                      seconds_text(v.program_seconds));
  if (v.planned_step != v.planned_seconds)
    text += fmt::format("{} the plan's step of {} is the length of the program's schedule, {}\n",
                        verdict(v.step_good()), seconds_text(v.planned_step),
                        seconds_text(v.program_step));
  double executed = 0;
  for (const CollectiveCheck& check : v.collectives) executed += check.executed;
  text += fmt::format(
      "{} {:.0f} collectives were executed, of the kinds, axes, numbers and bytes "
      "that were planned\n",
      verdict(v.collectives_good()), executed);
  for (const CollectiveCheck& check : v.collectives)
    text += fmt::format(
        "       {} {:<20} {:<18} x{:<5.0f} {} received{}\n", check.good() ? " " : "!", check.kind,
        check.axes, check.executed, bytes_text(static_cast<int64_t>(check.received_bytes)),
        check.good() ? ""
                     : fmt::format("   planned x{:.0f}, x{:.0f} in the program, x{:.0f} on the way "
                                   "that it went; {} logged, {} foreseen",
                                   check.planned, check.counted, check.expected,
                                   bytes_text(static_cast<int64_t>(check.measured_log)),
                                   bytes_text(static_cast<int64_t>(check.predicted_log))));
  text += fmt::format("{} memory of a device: measured {}, predicted {}{}\n",
                      verdict(v.memory_good()), bytes_text(v.measured_peak),
                      v.one_way ? "" : "at most ", bytes_text(v.predicted_peak));
  return text + (v.good() ? "verified\n" : "NOT verified\n");
}

}  // namespace cleave::plan
