#pragma once

#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// A plan and its module: everything that the plan names, as ids of the flat module (names.h). A
// Plan is data by names, which files keep and which are compared and shown without a module; code
// that needs both binds them once, and looks no name up after that.
//
//   const Graph flat = flatten(graph, plan.entry);
//   const BoundPlan bound = bind(plan, flat);
//   for (size_t i = 0; i < plan.ops.size(); ++i)
//     use(plan.ops[i], flat.node(bound.ops[i].node));

// What an operand or a copy is made from: a value, or a copy of it.
struct BoundSource {
  ValueId value;  // of the module; of a copy, what it is a copy of in the end
  int copy = -1;  // in Plan::copies; negative: the value itself
  bool operator==(const BoundSource&) const = default;
};

struct BoundCopy {
  BoundSource source;
  NodeId before;  // invalid: made right after the source
};

struct BoundOp {
  NodeId node;
  std::vector<BoundSource> operands;
};

// Refers to the plan and to the module, which must live as long.
struct BoundPlan {
  const Plan& plan;
  const Graph& flat;
  std::vector<ValueId> values = {};    // as Plan::values
  std::vector<BoundCopy> copies = {};  // as Plan::copies
  std::vector<BoundOp> ops = {};       // as Plan::ops
  std::vector<int> value_index = {};   // by ValueId: in Plan::values; -1: the plan has it not
  std::vector<int> op_index = {};      // by NodeId: in Plan::ops; -1: the plan has it not
  const PlannedOp* end = nullptr;      // the return of the function

  RegionId body() const { return flat.find_function(plan.entry)->body; }
  // How a source lies. An argument's place decides, not its name.
  const ShardingSpec& spec(const BoundSource& source) const;
  // Null if the plan does not have it.
  const PlannedValue* planned(ValueId value) const;
  const PlannedOp* planned(NodeId node) const;
};

// Throws UserError unless the plan was made for this module and everything that it says fits: every
// op and value that it names is there, with as many operands and results, in layouts of their
// ranks.
BoundPlan bind(const Plan& plan, const Graph& flat);

}  // namespace cleave::plan
