#include "cleave/report/planned_program.h"

#include <fmt/format.h>

#include "cleave/graph/flow.h"
#include "cleave/graph/location.h"
#include "cleave/plan/names.h"
#include "cleave/spmd/planned_marks.h"

namespace cleave::report {

PlannedProgram::PlannedProgram(const Plan& plan, const Graph& graph, const MachineProfile& machine)
    : plan(plan),
      profile(shared_by(machine, plan.mesh->num_devices())),
      flat(plan::flatten(graph, plan.entry, profile)),
      bound(plan::bind(plan, flat)),
      changes(plan::planned_changes(bound)),
      program(plan::partition_numbered(bound, profile)),
      cost(analyze::program_cost(program, profile, plan.trips)),
      schedule(analyze::schedule(program, cost, profile, plan.trips)),
      op_of_(program.graph.num_nodes(), -1),
      change_of_(program.graph.num_nodes(), -1),
      cost_of_(program.graph.num_nodes(), nullptr) {
  for (size_t i = 0; i < plan.ops.size(); ++i) by_name_.emplace(plan.ops[i].name, i);
  end = static_cast<int>(bound.end - plan.ops.data());
  for (const analyze::NodeCost& node : cost.nodes) cost_of_[node.node.index] = &node;
  find_owners();
}

void PlannedProgram::find_owners() {
  program.graph.walk(program.entry_function().body, [&](NodeId id) {
    const Node& node = program.graph.node(id);
    op_of_[id.index] = static_cast<int>(node.attrs.get_int(kOpAttr, -1));
    change_of_[id.index] = static_cast<int>(node.attrs.get_int(kChangeAttr, -1));
  });
}

bool PlannedProgram::is_change(NodeId id) const {
  if (is_transfer(program.graph.node(id))) return true;
  const analyze::NodeCost* cost = cost_of(id);
  return cost && cost->is_transfer;
}

int PlannedProgram::op_named(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

std::string PlannedProgram::line_of(int op) const {
  if (op < 0) return {};
  return source_line(flat.node(bound.ops[static_cast<size_t>(op)].node).location);
}

PlannedProgram::Source PlannedProgram::source_of(ValueId id) const {
  while (true) {
    const Value& value = flat.value(id);
    if (value.producer.valid())
      return {bound.op_index[value.producer.index], static_cast<int>(value.index), -1};
    const NodeId owner = flat.region(value.region).owner;
    if (!owner.valid()) return {-1, 0, static_cast<int>(value.index)};
    const Node& around = flat.node(owner);
    if (value.index >= around.operands.size()) return {bound.op_index[owner.index], 0, -1};
    id = around.operands[value.index];
  }
}

Plan priced_on(const Plan& plan, const Graph& graph, const MachineProfile& profile,
               const std::string& machine) {
  const PlannedProgram planned(plan, graph, profile);
  Plan priced = plan;
  priced.machine = machine;
  for (PlannedOp& op : priced.ops) op.seconds = 0;
  for (const analyze::NodeCost& node : planned.cost.nodes) {
    const int op = planned.op_of(node.node);
    if (node.is_transfer || op < 0) continue;
    PlannedOp& mine = priced.ops[static_cast<size_t>(op)];
    if (mine.times > 0) mine.seconds += node.seconds / mine.times;
  }
  plan::PlanTotals& totals = priced.totals;
  totals = {};
  totals.seconds = planned.cost.seconds;
  totals.compute_seconds = planned.cost.seconds - planned.cost.transfer_seconds;
  for (const analyze::CollectiveCostSum& sum : planned.cost.transfers)
    totals.collectives.push_back({sum.kind, sum.axes, sum.executions, sum.bytes, sum.seconds});
  const bool overlaps = planned.profile.executor.overlaps;
  totals.step_seconds = overlaps ? planned.schedule.seconds : planned.cost.seconds;
  totals.communication_seconds = planned.schedule.communication();
  totals.exposed_seconds = planned.schedule.exposed;
  totals.slowed_seconds = planned.schedule.slowed;
  priced.bound = plan::PlanBound::none(plan.bound.solver);
  priced.figures.reset();
  priced.notes.push_back(fmt::format(
      "times are those of {}; the plan was made for {}, and its bound does not hold here", machine,
      plan.machine));
  return priced;
}

}  // namespace cleave::report
