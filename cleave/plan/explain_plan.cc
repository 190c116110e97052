#include "cleave/plan/explain_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/program_memory.h"
#include "cleave/analyze/schedule.h"
#include "cleave/core/error.h"
#include "cleave/core/near_names.h"
#include "cleave/core/units.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/location.h"
#include "cleave/graph/op_def.h"
#include "cleave/plan/alternatives.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/explain_groups.h"
#include "cleave/plan/names.h"
#include "cleave/plan/op_costs.h"

namespace cleave::plan {
namespace {

std::string spec_text(const ShardingSpec& spec) { return spec.mesh ? to_string(spec) : "-"; }

// The place of an op that a user named, in Plan::ops.
size_t op_named(const Plan& plan, const std::string& op) {
  if (const PlannedOp* found = plan.find_op(op))
    return static_cast<size_t>(found - plan.ops.data());
  std::vector<std::string> names;
  for (const PlannedOp& known : plan.ops) names.push_back(known.name);
  constexpr size_t kMost = 8;
  throw_user("the plan has no op '{}'; near to it are {}{}", op,
             fmt::join(near_names(op, names, kMost), ", "), names.size() > kMost ? ", ..." : "");
}

// The op as the plan runs it: layouts, communication before it, time, memory.
std::string as_planned(const BoundPlan& bound, const MachineProfile& profile, size_t op) {
  const Plan& plan = bound.plan;
  const PlannedOp& planned = plan.ops[op];
  const Node& node = bound.flat.node(bound.ops[op].node);
  std::string text;
  OpLayouts specs{{}, planned.results};
  for (size_t i = 0; i < planned.operands.size(); ++i) {
    const ShardingSpec &lies = bound.spec(bound.ops[op].operands[i]),
                       &taken = planned.operands[i].spec;
    const Type& type = bound.flat.operand_type(node, i);
    specs.operands.push_back(taken);
    text += fmt::format("  operand {}  {}  {}  {}\n", i, planned.operands[i].source,
                        to_string(type), spec_text(taken));
    if (!lies.mesh || !taken.mesh || lies.same_layout(taken)) continue;
    const CommunicationCost change = communication_cost(bound.flat, bound.ops[op].operands[i].value,
                                                        lies, taken, profile, plan.parts);
    text += fmt::format("    lies as {}; {} and {} received to change that\n", spec_text(lies),
                        seconds_text(change.seconds()), bytes_text(change.way.bytes));
    if (change.spill_seconds > 0)
      text +=
          fmt::format("    {:>10}  written and read for it\n", seconds_text(change.spill_seconds));
    for (const ReshardStep& step : change.way.steps)
      text += fmt::format("    {:>10}  {}\n", seconds_text(step.seconds), to_string(step));
  }
  for (size_t i = 0; i < planned.results.size(); ++i)
    text += fmt::format("  result {}   {}  {}\n", i, to_string(bound.flat.result_type(node, i)),
                        spec_text(planned.results[i]));
  const Flow flow = flow_of(node);
  if ((flow != Flow::None && flow != Flow::Scan) || node.def->has(kTerminator))
    return text;  // the ops inside have costs of their own
  const ComputeCost compute =
      ComputeQuestions(bound.flat, plan.mesh, profile).ask(bound.ops[op].node, specs);
  text += fmt::format("  compute   {}, limited by {}", seconds_text(compute.seconds),
                      name(compute.limit()));
  if (compute.seconds > 0)
    text += fmt::format(" (launch {}, arithmetic {}, memory {})", seconds_text(compute.launch),
                        seconds_text(compute.arithmetic), seconds_text(compute.memory));
  const MemoryCost memory = memory_in(bound.flat, bound.ops[op].node, specs, plan.mesh);
  text += fmt::format("\n  memory    {}: operands {}, results {}, temporaries {}\n",
                      bytes_text(memory.total()), bytes_text(memory.operands),
                      bytes_text(memory.results), bytes_text(memory.temporaries));
  return text;
}

// " (model.py:41)", if it is known which line of the source an op comes from.
std::string line_of(const BoundPlan& bound, const std::string& op) {
  for (size_t i = 0; i < bound.plan.ops.size(); ++i) {
    if (bound.plan.ops[i].name != op) continue;
    const std::string line = source_line(bound.flat.node(bound.ops[i].node).location);
    return line.empty() ? line : " (" + line + ")";
  }
  return {};
}

}  // namespace

std::vector<Alternative> alternatives(const Plan& plan, const Graph& graph,
                                      const MachineProfile& profile, const std::string& op) {
  const Graph flat = flatten(graph, plan.entry, profile);
  const BoundPlan bound = bind(plan, flat);
  return Alternatives(bound, profile).of(op_named(plan, op));
}

std::string explain_totals(const Plan& plan) {
  const double total = plan.totals.seconds > 0 ? plan.totals.seconds : 1;
  std::string text = fmt::format("@{} on {} of {}: a step takes {}\n",
                                 plan.module.empty() ? plan.entry : plan.module,
                                 to_string(*plan.mesh), plan.machine, step_text(plan));
  auto row = [&](const std::string& what, double seconds, const std::string& more) {
    text += fmt::format("  {:<34} {:>10} {:>5.1f}%  {}\n", what, seconds_text(seconds),
                        100 * seconds / total, more);
  };
  row("compute", plan.totals.compute_seconds, "");
  for (const CollectiveTotal& sum : plan.totals.collectives)
    row(sum.kind + " " + sum.axes, sum.seconds,
        fmt::format("x{:.0f}, {} received", sum.count,
                    bytes_text(static_cast<int64_t>(sum.bytes))));
  text += fmt::format(
      "memory {} at {}, {} of it arguments{}\n", bytes_text(plan.memory.peak), plan.memory.peak_at,
      bytes_text(plan.memory.arguments),
      plan.memory.limit
          ? ", limit " + limit_text(*plan.memory.limit, plan.memory.share, BytesStyle::Log)
          : "");
  std::vector<const PlannedOp*> dearest;
  for (const PlannedOp& op : plan.ops) dearest.push_back(&op);
  std::stable_sort(dearest.begin(), dearest.end(), [](const PlannedOp* a, const PlannedOp* b) {
    return a->seconds * a->times > b->seconds * b->times;
  });
  if (dearest.size() > 10) dearest.resize(10);
  text += "the dearest ops:\n";
  for (const PlannedOp* op : dearest) {
    text += fmt::format("  {:>10} {:>5.1f}%  {:<20} {}\n", seconds_text(op->seconds * op->times),
                        100 * op->seconds * op->times / total, op->name, layouts_text(*op));
  }
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  return text;
}

std::string explain_plan(const Plan& plan, const Graph& graph, const MachineProfile& profile) {
  const Graph flat = flatten(graph, plan.entry, profile);
  const BoundPlan bound = bind(plan, flat);
  const Program program = partition_planned(bound, profile);
  std::string text = fmt::format("@{} on {} of {}: a step takes {}\n\ntime\n",
                                 plan.module.empty() ? plan.entry : plan.module,
                                 to_string(*plan.mesh), plan.machine, step_text(plan));
  const analyze::ProgramCost cost = analyze::program_cost(program, profile, plan.trips);
  const analyze::Schedule schedule = analyze::schedule(program, cost, profile, plan.trips);
  if (schedule.hidden() > 0) text += to_string(schedule) + "\n";
  text += to_string(cost, program, 0);
  text += "the ten dearest:\n";
  const std::vector<CostGroup> groups = cost_groups(bound, profile);
  for (size_t i = 0; i < groups.size() && i < 10; ++i) {
    const CostGroup& group = groups[i];
    text += fmt::format("  {:>10} {:>5.1f}%  x{:<4.0f} {}  {}, {}{}\n{:>28}{}\n",
                        seconds_text(group.seconds), 100 * group.seconds / plan.totals.seconds,
                        group.times, group.what, group.type, group.count > 1 ? "as at " : "at ",
                        group.example + line_of(bound, group.example), "", group.layouts);
  }
  text += "\nmemory of a device\n" + to_string(analyze::program_memory(program), program, 10);
  std::string role;
  text += "\nhow arguments lie\n";
  for (const ArgumentGroup& group : argument_groups(bound, program)) {
    if (group.role != role) text += "  " + group.role + "\n";
    role = group.role;
    text += fmt::format("    {}{}  {}  {}\n        {}\n", group.name,
                        group.count > 1 ? fmt::format("  {} x", group.count) : std::string(),
                        group.type, group.layout, group.pattern);
  }
  text += "\nhow matmuls run\n";
  for (const NamedPattern& pattern : named_patterns(bound)) {
    std::string ops = pattern.ops[0] + line_of(bound, pattern.ops[0]);
    if (pattern.ops.size() > 1) ops += fmt::format(" and {} more", pattern.ops.size() - 1);
    text += fmt::format("  {:<28} {}\n", ops, fmt::join(pattern.names, "; "));
    text += fmt::format("  {:<28} {}{} -> {}\n", "", pattern.types,
                        pattern.weight.empty()
                            ? ""
                            : fmt::format(", {} lies as {}", pattern.weight, pattern.weight_layout),
                        pattern.result_layout);
  }
  for (const std::string& note : plan.notes) text += "note: " + note + "\n";
  return text;
}

std::string explain_op(const Plan& plan, const Graph& graph, const MachineProfile& profile,
                       const std::string& op, size_t most) {
  const Graph flat = flatten(graph, plan.entry, profile);
  const BoundPlan bound = bind(plan, flat);
  const size_t place = op_named(plan, op);
  const std::vector<Alternative> ways = Alternatives(bound, profile).of(place);
  const PlannedOp& planned = plan.ops[place];
  const auto chosen =
      std::find_if(ways.begin(), ways.end(), [](const Alternative& way) { return way.chosen; });
  std::string text =
      fmt::format("{}{}: {}, {} time{} a step, {} ways to run it\n", op, line_of(bound, op),
                  planned.op, planned.times, planned.times == 1 ? "" : "s", ways.size());
  text += as_planned(bound, profile, place);
  auto describe = [&](const Alternative& way) {
    return fmt::format("{:>10}  {} compute, {} for operands, {} for results, {}\n{:>14}{}\n",
                       seconds_text(way.seconds()), seconds_text(way.compute),
                       seconds_text(way.operands), seconds_text(way.results), bytes_text(way.bytes),
                       "", way.layouts);
  };
  text += "chosen\n" + describe(*chosen) + "others, with the neighbours as they are\n";
  size_t shown = 0;
  for (const Alternative& way : ways) {
    if (way.chosen || shown++ >= most) continue;
    text += describe(way) + fmt::format("{:>14}{}\n", "", why_not(*chosen, way));
  }
  if (ways.size() > most + 1) text += fmt::format("  and {} more\n", ways.size() - most - 1);
  if (!ways[0].chosen)
    text += fmt::format(
        "why not the first of them: alone it would be {} cheaper, but ops that look alike are "
        "decided together, and the memory of a device counts\n",
        seconds_text(chosen->seconds() - ways[0].seconds()));
  else if (ways.size() > 1)
    text += fmt::format("why: every other way costs at least {} more here\n",
                        seconds_text(ways[1].seconds() - ways[0].seconds()));
  return text;
}

}  // namespace cleave::plan
