#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/rules/propagate/factor_propagation.h"
#include "cleave/rules/propagate/propagation_tables.h"

namespace cleave {

enum class FactorStrategy : uint8_t { Basic, Aggressive, BasicThenAggressive };

struct PropagationOptions {
  FactorStrategy strategy = FactorStrategy::Aggressive;
  bool op_priorities = true;  // in five stages: ops that only pass through first, broadcasts last
  bool user_priorities =
      true;                   // dimensions {...}p1 wait until everything of priority 0 has settled
  bool conservative = false;  // no parts of axes, no propagation along factors that move elements
  bool keep_rules = false;    // leave the rules that were used on the ops
  // Says along which factors an op can run sharded. Nothing propagates along the others, since what
  // is sharded there would be gathered again. Null: shardings propagate along all factors, as in
  // Shardy.
  RunsAlongFn runs_along = nullptr;
  // Dimensions of size 0 stay whole, which programs ask for; Shardy splits them with the others.
  bool keep_empty_whole = false;
};

// Why a sharding changed.
enum class ChangeCause : uint8_t {
  Op,              // its factors, from the other operands and results of `op`
  FunctionResult,  // between a returned value and the result of the function
  Group,           // another member of its sharding group changed
  Priority,        // the user's annotation of this priority took effect (or was parked)
};

// One decision. The list of all of them is complete: replaying it gives the final shardings.
struct ShardingChange {
  uint32_t visit;  // number of op visits so far
  int32_t op;      // into the tables' ops; -1 if the cause is no op
  int32_t slot;
  int32_t before;  // specs
  int32_t after;
  int32_t other_slot;  // FunctionResult: the other side; Group: the member that changed
  ChangeCause cause;
  uint8_t stage;
  int16_t priority;
};

// Ops take their turn in stages, each of which also does what the earlier ones do:
//   0  pass-through ops whose operands have no other use       3  everything but broadcasts forward
//   1  pass-through ops                                         4  everything
//   2  pass-through factors of all ops, broadcasts backward
inline constexpr int kNumOpStages = 5;
inline constexpr int kAllOps = kNumOpStages - 1;

// Propagates the shardings of a module. Works on dense tables built from the graph's attributes;
// `write_back` puts the result into the graph.
//
//   PropagationEngine engine(graph, options);
//   engine.run();
//   engine.write_back();
//
// Sweeps visit ops from a stack: all ops in the order of the text at first, then those next to a
// change. Every change extends the axes of a dimension of a slot, of which there are finitely many,
// and nothing ever takes axes away within a priority. So every sweep ends.
class PropagationEngine {
 public:
  PropagationEngine(Graph& graph, PropagationOptions options);

  void run();
  void write_back();

  // One sweep to the fixed point with a strategy, at a stage. Used by the strategies below.
  void sweep(const FactorPropagation& factors, int stage);
  // Assigns a sharding from outside a sweep and records why.
  void assign(int32_t slot, int32_t spec, ChangeCause cause, int16_t priority = 0,
              int32_t other_slot = PropagationTables::kNoSlot);

  const Graph& graph() const { return graph_; }
  const PropagationOptions& options() const { return options_; }
  const PropagationTables& tables() const { return tables_; }
  SpecTable& specs() { return specs_; }
  const SpecTable& specs() const { return specs_; }
  int32_t spec_of(int32_t slot) const { return slot < 0 ? SpecTable::kNone : spec_[slot]; }
  const std::vector<ShardingChange>& changes() const { return changes_; }
  uint32_t visits() const { return visits_; }

 private:
  void keep_empty_dimensions_whole();
  Direction direction(const PropagationTables::Op& op, int stage, bool pass_through) const;
  void visit(uint32_t op_index, const FactorPropagation& factors, int stage);
  void propagate_function_results(const FactorPropagation& factors);
  void set_slot(int32_t slot, int32_t spec, int32_t op, ChangeCause cause, int32_t other = -1);
  void open_other_results(int32_t slot);
  bool is_dead(const PropagationTables::Op& op) const;
  void erase(uint32_t op_index);
  void push(uint32_t op_index);
  void update_single_use(PropagationTables::Op& op);
  void drop_erased();

  Graph& graph_;
  PropagationOptions options_;
  SpecTable specs_;
  PropagationTables tables_;
  std::vector<std::vector<int32_t>> groups_;  // slots by group
  std::vector<int32_t> group_of_slot_;        // empty if the module has none
  std::vector<int32_t> spec_;                 // by slot
  std::vector<uint32_t> changed_at_;          // by slot: the clock at its last change
  struct Clean {                              // the last visit that changed nothing
    uint32_t clock = 0;
    uint8_t directions = 0xFF;
    const FactorPropagation* factors = nullptr;
  };
  std::vector<Clean> clean_;  // by op
  std::vector<uint32_t> stack_;
  std::vector<uint8_t> on_stack_;
  std::vector<ShardingChange> changes_;
  uint32_t clock_ = 1;
  uint32_t visits_ = 0;
  int32_t current_op_ = -1;
  uint8_t stage_ = 0;
  int16_t priority_ = 0;
  bool any_erased_ = false;
  Projection projection_;
  std::vector<const ShardingSpec*> tensor_specs_;
  std::vector<Direction> directions_;
};

// Layers of propagation behind one interface; each adds one idea and calls the one below.
class PropagationStrategy {
 public:
  virtual ~PropagationStrategy() = default;
  virtual void propagate(PropagationEngine& engine, int stage) const = 0;
};

// Runs the pass: groups, priorities, op stages and factor strategy as the options say.
void propagate_shardings(Graph& graph, const PropagationOptions& options);

}  // namespace cleave
