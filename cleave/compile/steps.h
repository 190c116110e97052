#pragma once

#include "cleave/compile/device_code.h"
#include "cleave/compile/meetings.h"

// The kinds of steps. Each knows its operands as views of buffers.
namespace cleave {

class FusedStep : public CodeStep {
 public:
  FusedStep(FusedLoop loop, std::vector<CodeView> operands, std::vector<CodeView> written)
      : loop_(std::move(loop)), operands_(std::move(operands)), written_(std::move(written)) {}
  Next run(Frame& frame) const override;

 private:
  FusedLoop loop_;
  std::vector<CodeView> operands_, written_;
};

// Copies elements; does nothing if both views lie at the same place.
class CopyStep : public CodeStep {
 public:
  CopyStep(CodeView from, CodeView to);
  Next run(Frame& frame) const override;

 private:
  CodeView from_, to_;
  StridedCopy copy_;
};

// `to` gets `operand` with `update` at the place that the scalars say.
class UpdateSliceStep : public CodeStep {
 public:
  UpdateSliceStep(CodeView operand, CodeView update, std::vector<CodeView> starts, CodeView to);
  Next run(Frame& frame) const override;

 private:
  CodeView operand_, update_, to_;
  std::vector<CodeView> starts_;
  StridedCopy whole_, part_;
};

class DynamicSliceStep : public CodeStep {
 public:
  DynamicSliceStep(CodeView operand, std::vector<CodeView> starts, CodeView to);
  Next run(Frame& frame) const override;

 private:
  CodeView operand_, to_;
  std::vector<CodeView> starts_;
  StridedCopy copy_;
};

// Any op, by its kernel; results are held arrays.
class KernelStep : public CodeStep {
 public:
  KernelStep(std::vector<CodeView> operands, std::vector<uint32_t> results, bool alone)
      : operands_(std::move(operands)), results_(std::move(results)), alone_(alone) {}
  Next run(Frame& frame) const override;

 private:
  std::vector<CodeView> operands_;
  std::vector<uint32_t> results_;
  bool alone_;  // needs nothing but its operands
};

// Runs the kernel of an op that needs nothing but its operands, for a step that cannot do without
// it. The kernel's results are in memory of its own, and are copied.
void run_kernel(Frame& frame, NodeId node, const std::vector<CodeView>& operands,
                const std::vector<CodeView>& results);

// Calls a function that was prepared when the step was made.
class CallStep : public CodeStep {
 public:
  explicit CallStep(std::function<void(const Frame&)> call) : call_(std::move(call)) {}
  Next run(Frame& frame) const override {
    call_(frame);
    return Next::Continue;
  }

 private:
  std::function<void(const Frame&)> call_;
};

class WhileStep : public CodeStep {
 public:
  Next run(Frame& frame) const override;

  uint32_t state = 0;
  CodeBlock condition, body;
  CodeView predicate;
  std::vector<std::pair<uint32_t, uint32_t>> rotated;  // buffers that trade places after each turn
};

class CaseStep : public CodeStep {
 public:
  Next run(Frame& frame) const override;

  uint32_t state = 0;
  CodeView index;
  std::vector<CodeBlock> branches;
};

// One device's part in a change of layout. Members of a group find each other by `key`.
class TransferStep : public CodeStep {
 public:
  TransferStep(const Transfer& plan, CodeView operand, CodeView result);
  Next run(Frame& frame) const override;

  const Transfer& plan;
  CodeView operand, result;  // of an all_reduce and a shared gather the result is held
  uint32_t state = 0;
  size_t meeting = 0;      // in Meetings
  size_t place = 0;        // among the group
  bool is_shared = false;  // all members get the same

 private:
  // What is copied into the result or into one of the parts that are combined: worked out when all
  // shapes are known, at the first run.
  struct Move {
    size_t member;
    int64_t from, to;  // bytes
    size_t part;
    StridedCopy copy;
  };
  struct Prepared {
    bool done = false;
    std::vector<Move> moves;
    std::vector<Array> parts;                       // that do not lie whole with one member
    std::vector<const std::byte*> places;           // of the parts
    std::vector<std::pair<size_t, int64_t>> whole;  // by part: the member that has it, and where
    Array identity;                                 // one element
    StridedCopy fill;
  };
  void prepare(const Meetings::Meeting& meeting) const;
  void receive(Frame& frame, const Meetings::Meeting& meeting) const;
  void give(Frame& frame, const Meetings::Meeting& meeting) const;

  mutable Prepared prepared_;
  mutable Meetings::Meeting alone_{{0}, {{}}, 0, 0, {}, {}};  // of a device without others
};

}  // namespace cleave
