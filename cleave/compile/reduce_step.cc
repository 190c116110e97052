#include "cleave/compile/reduce_step.h"

#include "cleave/kernels/reduce_plan.h"

namespace cleave {
namespace {

constexpr int64_t kWorthSharing = 1 << 15;  // elements

class ReduceStep : public CodeStep {
 public:
  ReduceStep(const CodeView& operand, const std::vector<int64_t>& dims, Reducer reducer,
             const CodeView& init, const CodeView& result, int threads)
      : operand_(operand),
        init_(init),
        result_(result),
        loop_(operand.type.dtype, operand.type.shape, operand.type.strides, dims, reducer,
              result.type.strides,
              threads > 1 && num_elements(operand.type.shape) >= kWorthSharing ? 2 * threads : 1) {}

  Next run(Frame& frame) const override {
    const std::byte* in = frame.data(operand_);
    const std::byte* init = frame.data(init_);
    std::byte* out = frame.data(result_);
    const auto run_part = [&](int64_t part, int) { loop_.run(part, in, init, out); };
    if (frame.team)
      frame.team->run(loop_.num_parts(), run_part);
    else
      for (int64_t part = 0; part < loop_.num_parts(); ++part) run_part(part, 0);
    return Next::Continue;
  }

 private:
  CodeView operand_, init_, result_;
  ReduceLoop loop_;
};

}  // namespace

std::unique_ptr<CodeStep> make_reduce_step(const CodeView& operand,
                                           const std::vector<int64_t>& dims, Reducer reducer,
                                           const CodeView& init, const CodeView& result,
                                           int threads) {
  return std::make_unique<ReduceStep>(operand, dims, reducer, init, result, threads);
}

}  // namespace cleave
