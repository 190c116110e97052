#include "cleave/compile/reduce_step.h"

#include <array>
#include <cstring>

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

constexpr size_t kMostTensors = 16;

class RegionFoldStep : public CodeStep {
 public:
  explicit RegionFoldStep(RegionFold fold) : f_(std::move(fold)) {}

  Next run(Frame& frame) const override {
    const size_t n = f_.rows.size();
    std::array<int64_t, kMostTensors> bytes;  // of a row
    for (size_t i = 0; i < n; ++i) bytes[i] = f_.width * byte_size(f_.rows[i].type.dtype);
    std::array<const std::byte*, 2 * kMostTensors> args;
    std::array<std::byte*, kMostTensors> results;
    std::byte* const work = frame.data(f_.work);
    for (int64_t count = f_.count; count > 1; count = (count + 1) / 2) {
      for (int64_t row = 0; row < count / 2; ++row) {
        for (size_t i = 0; i < n; ++i) {
          std::byte* const data = frame.data(f_.rows[i]);
          args[i] = data + 2 * row * bytes[i];
          args[n + i] = data + (2 * row + 1) * bytes[i];
          results[i] = data + row * bytes[i];
        }
        f_.body.run(args.data(), results.data(), f_.width, work);
      }
      if (count % 2 == 1)
        for (size_t i = 0; i < n; ++i) {
          std::byte* const data = frame.data(f_.rows[i]);
          std::memmove(data + count / 2 * bytes[i], data + (count - 1) * bytes[i],
                       static_cast<size_t>(bytes[i]));
        }
    }
    for (size_t i = 0; i < n; ++i) {
      args[i] = frame.data(f_.inits[i]);
      args[n + i] = frame.data(f_.rows[i]);
      results[i] = frame.data(f_.results[i]);
    }
    f_.body.run(args.data(), results.data(), f_.width, work);
    return Next::Continue;
  }

 private:
  RegionFold f_;
};

}  // namespace

std::unique_ptr<CodeStep> make_region_fold_step(RegionFold fold) {
  return fold.rows.size() > kMostTensors ? nullptr
                                         : std::make_unique<RegionFoldStep>(std::move(fold));
}

std::unique_ptr<CodeStep> make_reduce_step(const CodeView& operand,
                                           const std::vector<int64_t>& dims, Reducer reducer,
                                           const CodeView& init, const CodeView& result,
                                           int threads) {
  return std::make_unique<ReduceStep>(operand, dims, reducer, init, result, threads);
}

}  // namespace cleave
