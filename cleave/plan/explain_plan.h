#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

struct BoundPlan;  // bound_plan.h

// The name that people have for how one matmul runs. The planner knows no such names: they are read
// off the layouts, axis by axis.
//
//   x [{"data"}, {}] times w [{}, {"model"}]           data parallel over "data",
//                                                      column-parallel over "model"
//   x [{}, {"model"}] times w [{"model"}, {}]          row-parallel over "model"
//   w lies as [{"data"}, {"model"}], taken as [{}, {"model"}]
//                                                      fully sharded over "data"
//   e c d, e d f -> e c f   with e over "expert"       expert parallel over "expert"
struct NamedPattern {
  std::vector<std::string> ops;  // that run so, in order
  std::string weight;            // the argument that is multiplied with; empty: two activations
  std::vector<ValueId> weights;  // those of all ops, in the flat module
  std::string weight_layout;     // as it lies
  std::string types;             // "tensor<8x512xf32> x tensor<512x2048xf32>"
  std::string result_layout;
  std::vector<std::string> names;
};
std::vector<NamedPattern> named_patterns(const Plan& plan, const Graph& graph);
std::vector<NamedPattern> named_patterns(const BoundPlan& bound);

// One way to run an op, with its neighbours as planned.
struct Alternative {
  std::string layouts;  // "[{"data"}, {}], [{}, {"model"}] -> [{"data"}, {"model"}]"
  double compute = 0;   // seconds of the op, all its executions
  double operands = 0;  // of bringing operands into layout
  double results = 0;   // of bringing results to the ops that take them
  int64_t bytes = 0;    // of operands and results on a device
  bool chosen = false;
  double seconds() const { return compute + operands + results; }
};
// The cheapest first; throws UserError if the plan has no such op.
std::vector<Alternative> alternatives(const Plan& plan, const Graph& graph,
                                      const MachineProfile& profile, const std::string& op);

// What the plan file itself says: time by compute and collectives, bound, memory.
std::string explain_totals(const Plan& plan);
// The whole: time of the program with the ten dearest groups of ops, memory by class with what is
// alive at the peak, how parameters and state lie, and how matmuls run.
std::string explain_plan(const Plan& plan, const Graph& graph, const MachineProfile& profile);
// Why an op runs as it does: the chosen way, the next best ones, and what each would cost more.
std::string explain_op(const Plan& plan, const Graph& graph, const MachineProfile& profile,
                       const std::string& op, size_t most = 8);

}  // namespace cleave::plan
