#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/program_memory.h"
#include "cleave/analyze/schedule.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/numbered_program.h"
#include "cleave/plan/plan.h"

namespace cleave::report {

using plan::BoundPlan;
using plan::Plan;
using plan::PlannedChange;
using plan::PlannedOp;

// A plan with its module on a machine, and what becomes of it there: the program of the plan, what
// it takes, and which of its nodes are of which op and which change of the plan. All parts of a
// report read it.
struct PlannedProgram {
  // Both must live as long. `profile` is shared among the devices here (shared_by).
  PlannedProgram(const Plan& plan, const Graph& graph, const MachineProfile& profile);
  PlannedProgram(const PlannedProgram&) = delete;

  // By node of the program, in Plan::ops and in `changes`; -1: of none.
  int op_of(NodeId node) const { return op_of_[node.index]; }
  int change_of(NodeId node) const { return change_of_[node.index]; }
  // Whether the node is a change of layout or a collective that the user wrote.
  bool is_change(NodeId node) const;
  // Null if the node takes no time.
  const analyze::NodeCost* cost_of(NodeId node) const { return cost_of_[node.index]; }
  // In Plan::ops; -1: there is no such op.
  int op_named(const std::string& name) const;
  // "model.py:41"; empty: not known.
  std::string line_of(int op) const;

  // What an operand is made from: an op with one of its results, or an argument of the function.
  // Arguments of regions stand for what enters them.
  struct Source {
    int op = -1;
    int result = 0;
    int argument = -1;
  };
  Source source_of(ValueId value) const;

  const Plan& plan;
  const MachineProfile profile;
  const Graph flat;
  const BoundPlan bound;
  const std::vector<PlannedChange> changes;
  const Program program;
  const analyze::ProgramCost cost;
  const analyze::Schedule schedule;
  int end = -1;  // the op that returns, in Plan::ops

 private:
  void find_owners();

  std::vector<int> op_of_, change_of_;
  std::vector<const analyze::NodeCost*> cost_of_;
  std::unordered_map<std::string, int> by_name_;
};

// The same plan as it costs on another machine: seconds of ops and totals are those of the program
// there, no bound is known, and memory is what the plan says.
Plan priced_on(const Plan& plan, const Graph& graph, const MachineProfile& profile,
               const std::string& machine);

}  // namespace cleave::report
