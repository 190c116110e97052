#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/plan/fixed_cost.h"
#include "cleave/plan/layouts.h"
#include "cleave/plan/names.h"
#include "cleave/plan/pins.h"
#include "cleave/plan/strategies.h"
#include "cleave/solve/problem.h"

namespace cleave::plan {

// A planning in terms of decisions: which there are, what each choice means for ops and values, and
// which values each op wants in which layout. Costs follow from it by tables; nothing is chosen
// yet.
//
// An op is a decision of its own, but for these, which follow another one:
//   - an elementwise op or view of one tensor runs as that tensor lies (resharding after it costs
//     no more than before it, by the triangle inequality)
//   - what costs nothing to have in any layout (constants, broadcasts, arguments with one use)
//     lies as its only user wants it
// A value with several users that may be partial gets a second decision: how it is completed, once
// for all of them. Several matmuls that use one value at about the same time may share a copy.

// A list of specs, one for each choice of a decision; equal lists have equal numbers.
using ListId = int32_t;

struct Decision {
  int count = 1;  // choices
  std::string label;
  std::vector<int> ops;           // that it decides on
  std::vector<int> versions;      // that it lays out
  std::vector<std::string> pins;  // that limit it
};

struct FormulatedOp {
  NodeId node;
  int decision = 0;
  const StrategySet* set = nullptr;  // null: takes its operands as they are demanded
  std::vector<int32_t> pick;         // by choice: the strategy
  std::vector<int> operands;         // versions
  // Without a set: which decision says how each operand lies; decision -1: it is taken as it is.
  struct Want {
    int decision = -1;
    ListId list = 0;
  };
  std::vector<Want> wants;
  double times = 1;  // that its region runs, were it always taken
  int branch = -1;   // the innermost branch that it is in
  int position = 0;
  FixedCost fixed = {};  // without a set: what it takes in any case
};

// A value, or another layout of it.
struct Version {
  ValueId value;
  int source = -1;  // another version, of which this is a copy
  NodeId before;    // a copy: where it is made; invalid: right after its source
  int decision = 0;
  ListId list = 0;
  std::vector<bool> alias;  // a copy, by choice: whether it is the source itself
  int first = 0, last = 0;  // positions at which it is needed; last is included
  bool takes_memory = true;
  // Of a value that its op leaves in no memory: what it takes to have it there (KernelUse::spills),
  // paid by every reshard of it.
  double spill_bytes = 0;
};

// A decision wants a version in the layouts of a list; the difference is resharded.
struct Demand {
  int version = 0;
  int decision = 0;
  ListId list = 0;
  double times = 1;
  int branch = -1;
  int op = -1;  // whose operand it is; -1: the source of `copy`
  int operand = 0;
  int copy = -1;  // a version
};

// The branches of one stablehlo.if or case. One of them runs, and a step takes as long as with the
// dearest, which depends on the choice. Costs of a Problem are sums: there, each branch counts with
// a weight. For any weights that add up to one, the sum is a lower bound of what the dearest takes.
struct BranchGroup {
  NodeId node;
  int parent = -1;  // the branch that the node is in
  int first = 0;    // its branches are numbered from here on
  std::vector<double> weights;
};

// On an argument of the entry: the number of the result that is the same argument of the next step
// (a state that goes around), so that both have to lie alike. Donated arguments need no such mark.
inline constexpr const char* kNextAttr = "cleave.next";

// In which layouts arguments and results of the entry may lie.
enum class Borders : uint8_t {
  Any,
  Even,        // those that divide their dimensions: JAX takes no others
  Placements,  // those that DTensor's placements say as well (core/placement.h)
};
Borders borders_from_name(std::string_view name);  // any, even, placements; throws UserError

struct FormulationOptions {
  std::string entry = "main";
  std::vector<Pin> pins;
  std::vector<std::string> ignored = {};  // annotations that do not count, by name (annotations.h)
  int threads = 1;
  int64_t trips = 1;  // of loops whose number of trips is not known
  Borders borders = Borders::Any;
};

class Formulation {
 public:
  Formulation(const Graph& flat, const Names& names, Layouts& layouts, StrategyBook& book,
              const FormulationOptions& options);

  std::vector<Decision> decisions;
  std::vector<FormulatedOp> ops;  // in the order of the program
  std::vector<Version> versions;
  std::vector<Demand> demands;
  std::vector<NodeId> schedule;  // by position
  std::vector<int> argument_versions;
  std::vector<int> definitions;     // by ValueId: the version in which its op leaves it; -1: none
  std::vector<BranchGroup> groups;  // outer ones before those inside
  std::vector<std::string> notes;
  bool is_marked = false;  // ops say what an executor makes of them (analyze/kernels.h)

  // With what weight a branch counts, those around it included; 1 outside of all.
  double weight(int branch) const;
  // Gives each group all its weight on one branch, but for a share of it to each other branch.
  void weigh(const std::vector<int>& heavy, double share);
  // The dearest branch of each group under a choice by decision: the first of those that take as
  // long as any, up to rounding.
  std::vector<int> dearest_branches(const std::vector<int>& choice, Layouts& layouts) const;

  const std::vector<SpecId>& list(ListId id) const { return *lists_[id]; }
  const Type& type(int version) const { return graph_.type(versions[version].value); }
  int end() const { return static_cast<int>(schedule.size()) + 1; }
  // The spec of a version, and of operand i of an op, under a choice for each decision.
  SpecId spec(int version, const std::vector<int>& choice) const;
  // What resharding a version takes beside the reshard, if it lies as choice c of its decision.
  double spill_seconds(int version, int c, const Layouts& layouts) const;

 private:
  friend class Formulator;
  // By branch: its group, and its place in that.
  std::vector<std::pair<int, int>> group_of_;
  const Graph& graph_;
  std::vector<const std::vector<SpecId>*> lists_;
  struct HashList {
    size_t operator()(const std::vector<SpecId>& list) const {
      uint64_t hash = list.size();
      for (SpecId id : list) hash = (hash ^ static_cast<uint32_t>(id)) * 0x9E3779B97F4A7C15ull;
      return hash ^ hash >> 32;
    }
  };
  std::unordered_map<std::vector<SpecId>, ListId, HashList> list_ids_;
};

}  // namespace cleave::plan
