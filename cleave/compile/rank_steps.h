#pragma once

#include "cleave/compile/device_code.h"
#include "cleave/compile/rank_transfer.h"

// A change of layout over ranks is two steps: one starts it, and one needs its result. The steps
// between them run while messages are under way.
namespace cleave {

class RankStartStep : public CodeStep {
 public:
  RankStartStep(std::shared_ptr<RankTransfer> transfer, CodeView operand, CodeView staging,
                CodeView result)
      : transfer(std::move(transfer)),
        operand_(std::move(operand)),
        staging_(std::move(staging)),
        result_(std::move(result)) {}
  Next run(Frame& frame) const override;

  const std::shared_ptr<RankTransfer> transfer;

 private:
  CodeView operand_, staging_, result_;
};

class RankWaitStep : public CodeStep {
 public:
  RankWaitStep(std::shared_ptr<RankTransfer> transfer, CodeView result, uint32_t state)
      : transfer(std::move(transfer)), result_(std::move(result)), state_(state) {}
  Next run(Frame& frame) const override;

  const std::shared_ptr<RankTransfer> transfer;

 private:
  CodeView result_;
  uint32_t state_;
};

// Advances the transfers that are under way; called between two steps.
void advance_transfers(Frame& frame);

}  // namespace cleave
