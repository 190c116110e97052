#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/graph/op_def.h"

namespace cleave {

// What the interpreter does for one node.
struct Step {
  enum class Kind : uint8_t {
    Eval,      // calls the op's kernel
    Constant,  // has no operands and a small result: computed once, then kept
    Call,      // runs `callee`
    Return,    // ends the region with its operands
  };
  Kind kind = Kind::Eval;
  bool dynamic = false;  // sizes of operands are known only now: the op is checked before it runs
  NodeId node;
  RegionId callee;  // of a Call
  EvalFn eval = nullptr;
  uint32_t first_operand = 0, num_operands = 0;
  uint32_t first_free = 0, num_frees = 0;
};

struct StepOperand {
  uint32_t value;
  bool last;  // nothing reads the value after this step: it may be taken
};

struct RegionSchedule {
  std::vector<uint32_t> args;  // values; Id::kNone for those that nothing reads
  std::vector<Step> steps;
  // Only elementwise ops on scalars, scalar constants and calls of the like: the region means the
  // same element by element on arrays of any shape.
  bool elementwise = false;
};

// The order of execution of every region of a graph, with the place where each value is read for
// the last time: built once, then shared by all devices.
class Schedule {
 public:
  explicit Schedule(const Graph& graph);

  const RegionSchedule& region(RegionId id) const { return regions_[id.index]; }
  std::span<const StepOperand> operands(const Step& step) const {
    return {operands_.data() + step.first_operand, step.num_operands};
  }
  // Values to drop after the step, beyond the operands marked `last`.
  std::span<const uint32_t> frees(const Step& step) const {
    return {frees_.data() + step.first_free, step.num_frees};
  }

 private:
  class Builder;

  std::vector<RegionSchedule> regions_;  // by RegionId
  std::vector<StepOperand> operands_;
  std::vector<uint32_t> frees_;
};

}  // namespace cleave
