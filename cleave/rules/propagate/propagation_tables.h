#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/graph/op_def.h"
#include "cleave/rules/propagate/direction.h"
#include "cleave/rules/propagate/rule_index.h"
#include "cleave/rules/propagate/spec_table.h"

namespace cleave {

// The module as propagation sees it: ops and *slots* by number. A slot is a place that holds a
// sharding: a value, all values of one data-flow edge together, or a result of a function.
struct PropagationTables {
  static constexpr int32_t kNoSlot = -1;
  static constexpr int32_t kNoRule = -1;

  struct Op {
    NodeId node;
    int32_t rule = kNoRule;     // into `rules`
    uint32_t first_tensor = 0;  // into `tensors`: slots of operands, then results
    uint16_t num_tensors = 0;
    uint16_t num_operands = 0;
    PropagationClass op_class = PropagationClass::Other;
    Direction allowed = Direction::Both;
    bool elementwise = false;
    bool removable = false;  // goes when its results are not used
    bool erased = false;
    bool single_use = false;   // no operand that could be sharded has another use
    int32_t manual_edge = -1;  // into `manual_edges`
  };
  struct Slot {
    ValueId value;          // invalid for a result of a function
    int32_t function = -1;  // of a function's result
    uint32_t index = 0;
  };
  // A data-flow edge of a manual computation: inside, its manual axes are invisible.
  struct ManualEdge {
    NodeId op;
    bool argument;       // of an argument: the slot has no manual axes, the source has
    ShardingSpec outer;  // the in_sharding or out_sharding
  };
  // The return of a function: its operand's slot and the function's result.
  struct FunctionResult {
    int32_t value_slot;
    int32_t result_slot;
    int32_t rule;
  };

  std::vector<Op> ops;
  std::vector<int32_t> tensors;
  std::vector<std::unique_ptr<RuleIndex>> rules;
  std::vector<Slot> slots;
  std::vector<int32_t> slot_of_value;  // by ValueId
  std::vector<int32_t> op_of_node;     // by NodeId, -1: not an op that propagation visits
  std::vector<ManualEdge> manual_edges;
  std::vector<FunctionResult> function_results;
  std::vector<int32_t> initial;  // by slot: spec or SpecTable::kNone
  // What is visited again when a slot changes: an op, with kLastStage added if only the last stage
  // does so at once. (What flows into manual and named computations waits for the next stage
  // otherwise, as in Shardy.)
  static constexpr uint32_t kLastStage = 1u << 31;
  std::vector<uint32_t> notify_begin;
  std::vector<uint32_t> notify;
  // Uses, to see which ops are dead: by ValueId.
  std::vector<uint32_t> use_count;
  std::vector<uint32_t> user_begin;
  std::vector<uint32_t> users;
  // Ops without a rule, for warnings.
  std::vector<NodeId> without_rule;

  std::span<const int32_t> tensors_of(const Op& op) const {
    return {tensors.data() + op.first_tensor, op.num_tensors};
  }
  std::span<const uint32_t> notified_by(int32_t slot) const {
    return {notify.data() + notify_begin[slot], notify_begin[slot + 1] - notify_begin[slot]};
  }
};

// Which factors of a rule an op can run cut along, by factor.
using RunsAlongFn = std::vector<bool> (*)(const Graph& graph, const Node& node,
                                          const OpShardingRule& rule);

// With `runs_along`, nothing propagates along the other factors of an op's own rule.
PropagationTables build_propagation_tables(const Graph& graph, SpecTable& specs, bool conservative,
                                           RunsAlongFn runs_along = nullptr);

}  // namespace cleave
