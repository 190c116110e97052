#pragma once

#include <map>
#include <tuple>
#include <unordered_map>

#include "cleave/graph/op_rule.h"
#include "cleave/plan/formulation.h"

namespace cleave::plan {

// Builds a Formulation; internal to cleave/plan/formulat*.cc.
class Formulator {
 public:
  Formulator(Formulation& out, const Graph& graph, const Names& names, Layouts& layouts,
             StrategyBook& book, const FormulationOptions& options);
  void run();

 private:
  using Want = FormulatedOp::Want;

  // Schedule and use counts, before anything else.
  void number(RegionId region, double times, int branch);
  void number_branches(const Node& node, NodeId id, double times, int branch);
  void check_pins() const;  // every one names some value
  bool is_about_something(const Pin& pin) const;
  void count_uses();
  // Values that the scalar code inside an op sees: no operand of it asks for a layout of them, so
  // that they are made whole.
  void find_captured();
  // Numbers all ops that have strategies, and has their strategies prepared.
  void prepare_strategies();
  bool is_plain(const Node& node) const;
  std::vector<ShardingSpec> own_shardings(const Node& node) const;

  void arguments();
  void region(RegionId id);
  void visit(NodeId id);
  void visit_plain(NodeId id);
  void visit_fixed(NodeId id, std::vector<ShardingSpec> operands,
                   std::vector<ShardingSpec> results);
  void visit_manual(NodeId id);
  // An op that says how its value lies, and may leave dimensions to the planner.
  void visit_constraint(NodeId id, const ShardingSpec& spec);
  void visit_barrier(NodeId id);
  void visit_while(NodeId id);
  void visit_branches(NodeId id);
  void finish_function(NodeId id);

  // Ways for an op to follow another decision; -1 or false if it can't.
  int join(NodeId id, const StrategySet& set, const std::vector<int>& operands,
           std::vector<int32_t>& pick);
  bool retarget(int decision, int target, ListId list);
  bool is_inside_its_user(NodeId id, const std::vector<int>& operands) const;
  bool is_free(int version) const;

  int new_decision(int count, std::string label);
  int new_version(ValueId value, int decision, ListId list, int position);
  // An op without strategies of its own, with a demand for each want.
  void new_taker(NodeId id, const std::vector<Want>& wants);
  int new_op(NodeId id, int decision, const StrategySet* set, std::vector<int32_t> pick,
             std::vector<int> operands);
  // `at`: the node for which it is made; invalid: once, at the beginning.
  void demand(int version, int decision, ListId list, NodeId at, int op, int operand,
              int copy = -1);
  ListId intern(std::vector<SpecId> list);
  // The layouts of a tensor under those strategies of a set that an op picks.
  ListId picked(const StrategySet& set, const std::vector<int32_t>& pick, size_t tensor);
  // For each layout of a list the strategy that has it for a tensor; empty if one has none.
  const std::vector<int32_t>& strategies_for(const StrategySet& set, size_t tensor, ListId list);
  std::vector<int> operand_versions(NodeId id) const;
  // After a value is defined: a decision on how it is completed, pins, copies that users share.
  void settle(ValueId value);
  bool contracts(NodeId id);
  void share_copies(int version);
  void share_copy(int version, NodeId before, const std::vector<Use>& users);
  bool has_argument(int decision) const;
  // Those of an argument or result: even ones alone, if that is asked for.
  std::vector<SpecId> at_border(std::string_view name, const Type& type,
                                std::vector<SpecId> specs) const;
  // Candidates of a value under the pins on it; notes which were used.
  std::vector<SpecId> allowed(ValueId value, const std::vector<SpecId>& candidates,
                              std::vector<std::string>& used) const;
  // Those of its shape; whole alone, if scalar code sees it.
  std::vector<SpecId> candidates(ValueId value, std::vector<std::string>& used) const;
  std::optional<ShardingSpec> annotation(ValueId value) const;
  bool is_ignored(const std::string& name) const;
  // The layouts of a tensor that an annotation allows; never none.
  std::vector<SpecId> matching(const ShardingSpec& spec, const Type& type) const;
  // The annotation of the value and what the caller said of it.
  std::vector<Pin> pins_on(ValueId value) const;
  // Which values an executor holds, and how long: what is in no memory is computed where it is
  // used, from what it is made of, and some results take the place of an operand.
  void hold_as_executed();
  void hold_carries(const FormulatedOp& op, const std::vector<std::vector<int>>& of);
  void hold_in_place(const std::vector<std::vector<int>>& of);
  void hold_beside(const Function& function, const std::vector<std::vector<int>>& of);
  void compact();

  bool is_ranked(ValueId value) const;
  int position(NodeId id) const { return position_[id.index]; }

  Formulation& out_;
  const Graph& graph_;
  const Names& names_;
  Layouts& layouts_;
  StrategyBook& book_;
  const FormulationOptions& options_;
  UseMap uses_;
  OpRules rules_;
  std::vector<int> position_;    // by node
  std::vector<double> times_;    // by node
  std::vector<int> branch_;      // by node
  std::vector<int> use_count_;   // by value: operand slots of planned nodes
  std::vector<int> version_of_;  // by value: what users get
  std::vector<bool> trivial_;    // by value: made of constants and scalars
  std::vector<bool> captured_;   // by value
  std::vector<int> number_;      // by node: of its strategies
  enum : char { kUnknown, kNo, kYes };
  std::vector<char> contracts_;                          // by number
  std::vector<bool> free_;                               // by decision
  std::vector<bool> donated_;                            // by argument
  std::vector<std::vector<int>> demands_of_;             // by decision
  std::map<std::pair<uint32_t, uint32_t>, int> shared_;  // by node and operand: the shared copy
  std::map<std::tuple<const StrategySet*, size_t, ListId>, std::vector<int32_t>> found_;
  std::map<std::pair<const StrategySet*, size_t>, ListId> of_all_;  // picked, of all strategies
};

}  // namespace cleave::plan
