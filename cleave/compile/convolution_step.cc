#include "cleave/compile/convolution_step.h"

#include <algorithm>
#include <utility>

#include "cleave/compile/onednn_call.h"
#include "cleave/core/aligned.h"
#include "cleave/kernels/convolution_onednn.h"

namespace cleave {
namespace {

using conv_detail::ConvLayout;
using conv_detail::OneDnnConvolution;
using dnnl::memory;
using Kind = EpilogueStep::Kind;

ConvLayout layout_of(const CodeView& view) {
  return {view.type.dtype, view.type.shape, view.type.strides};
}

class ReorderStep : public CodeStep {
 public:
  ReorderStep(const CodeView& from, const memory::desc& has, const CodeView& to,
              const memory::desc& wants)
      : from_(from), to_(to), call_(reorder_call(has, wants)) {
    call_.add(DNNL_ARG_FROM, has, &from_, 0);
    call_.add(DNNL_ARG_TO, wants, &to_, 0);
  }
  Next run(Frame& frame) const override {
    call_.run(frame, nullptr);
    return Next::Continue;
  }

 private:
  CodeView from_, to_;
  mutable OneDnnCall call_;
};

class OneDnnConvolutionStep : public ConvolutionStep {
 public:
  OneDnnConvolutionStep(const ConvolutionViews& views, std::vector<DotEpilogue> epilogue,
                        int threads)
      : views_(views), epilogue_(std::move(epilogue)), clips_(views.result.type.dtype) {
    while (num_post_ops_ < epilogue_.size() && !is_clip(epilogue_[num_post_ops_].step))
      ++num_post_ops_;
    for (size_t i = num_post_ops_; i < epilogue_.size(); ++i)
      clips_.add(epilogue_[i].step.kind == Kind::Maximum, epilogue_[i].step.alpha);
    const int64_t n = views.input.type.shape[0];
    const int64_t parts = std::min<int64_t>(n, is_worth_sharing(threads) ? 2 * threads : 1);
    const int64_t step = ceil_div(n, parts);
    for (int64_t start = 0; start < n; start += step) add(start, std::min(step, n - start));
  }

  bool is_slow() const { return is_slow_; }
  // Every part takes the kernel in one layout.
  bool is_uniform() const { return is_uniform_; }

  size_t scratch_bytes(int threads) const override {
    return scratch_ * static_cast<size_t>(threads);
  }
  size_t kernel_bytes() const override {
    return kernel_ == own_kernel_ ? 0 : own_kernel_.get_size();
  }
  std::unique_ptr<CodeStep> kernel_step(const CodeView& to) override {
    const CodeView from = views_.kernel;
    views_.kernel = to;
    return std::make_unique<ReorderStep>(from, kernel_, to, own_kernel_);
  }

  Next run(Frame& frame) const override {
    const auto run_part = [&](int64_t index, int worker) {
      Part& part = parts_[static_cast<size_t>(index)];
      std::byte* const scratch = frame.scratch + scratch_ * static_cast<size_t>(worker);
      if (part.before.valid()) part.before.run(frame, scratch);
      part.call.run(frame, scratch);
      if (part.after.valid()) part.after.run(frame, scratch);
      if (!clips_.empty())
        clips_.run(frame.data(views_.result) + part.result_offset, part.result_elements);
    };
    if (frame.team)
      frame.team->run(static_cast<int64_t>(parts_.size()), run_part);
    else
      for (size_t i = 0; i < parts_.size(); ++i) run_part(static_cast<int64_t>(i), 0);
    return Next::Continue;
  }

 private:
  struct Part {
    OneDnnCall before, call, after;
    int64_t result_offset = 0, result_elements = 0;  // bytes
  };

  bool is_worth_sharing(int threads) const {
    constexpr double kWorthSharing = 2e6;  // operations: some tens of microseconds
    const Shape& kernel = views_.kernel.type.shape;
    const double each = 2.0 * static_cast<double>(num_elements(kernel)) /
                        static_cast<double>(kernel[0] * kernel[1]);
    return threads > 1 &&
           each * static_cast<double>(num_elements(views_.result.type.shape)) >= kWorthSharing;
  }

  // Examples [start, start + count).
  void add(int64_t start, int64_t count) {
    ConvLayout input = layout_of(views_.input), result = layout_of(views_.result);
    input.shape[0] = result.shape[0] = count;
    const bool has_bias =
        num_post_ops_ > 0 && epilogue_[0].step.kind == Kind::Add && epilogue_[0].step.by_column;
    const memory::desc by_feature = conv_detail::describe_features(result);
    dnnl::post_ops post;
    std::vector<std::pair<int, const CodeView*>> operands;
    const int64_t out_size = byte_size(result.dtype);
    for (size_t i = has_bias ? 1 : 0; i < num_post_ops_; ++i) {
      const EpilogueStep& step = epilogue_[i].step;
      if (!step.operand.valid()) {
        post.append_eltwise(1.0f, onednn_algorithm(step.kind), static_cast<float>(step.alpha),
                            static_cast<float>(step.beta));
        continue;
      }
      operands.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(post.len()) | DNNL_ARG_SRC_1,
                            &epilogue_[i].operand);
      post.append_binary(onednn_algorithm(step.kind), by_feature);
    }
    dnnl::primitive_attr attr;
    attr.set_post_ops(post);
    const OneDnnConvolution conv = conv_detail::make_onednn(input, layout_of(views_.kernel), result,
                                                            views_.window, has_bias, attr);
    is_slow_ |= conv.is_slow;
    if (parts_.empty()) {
      kernel_ = conv.kernel;
      own_kernel_ = conv.own_kernel;
    }
    is_uniform_ &= conv.own_kernel == own_kernel_;

    Part part;
    size_t scratch = 0;
    const int64_t in_offset = start * input.strides[0] * byte_size(input.dtype);
    part.result_offset = start * result.strides[0] * out_size;
    part.result_elements = num_elements(result.shape);
    part.call = OneDnnCall(conv.primitive);
    if (conv.input == conv.own_input) {
      part.call.add(DNNL_ARG_SRC, conv.input, &views_.input, in_offset);
    } else {
      part.before = reorder_call(conv.input, conv.own_input);
      part.before.add(DNNL_ARG_FROM, conv.input, &views_.input, in_offset);
      part.before.add_scratch(DNNL_ARG_TO, conv.own_input, scratch);
      part.call.add_scratch(DNNL_ARG_SRC, conv.own_input, scratch);
      scratch += aligned(conv.own_input.get_size());
    }
    part.call.add(DNNL_ARG_WEIGHTS, conv.own_kernel, &views_.kernel, 0);
    if (conv.result == conv.own_result) {
      part.call.add(DNNL_ARG_DST, conv.result, &views_.result, part.result_offset);
    } else {
      part.call.add_scratch(DNNL_ARG_DST, conv.own_result, scratch);
      part.after = reorder_call(conv.own_result, conv.result);
      part.after.add_scratch(DNNL_ARG_FROM, conv.own_result, scratch);
      part.after.add(DNNL_ARG_TO, conv.result, &views_.result, part.result_offset);
      scratch += aligned(conv.own_result.get_size());
    }
    if (has_bias) part.call.add(DNNL_ARG_BIAS, conv.bias, &epilogue_[0].operand, 0);
    for (const auto& [id, view] : operands) part.call.add(id, by_feature, view, 0);
    if (const size_t size = conv.scratch.get_size(); size > 0) {
      part.call.add_scratch(DNNL_ARG_SCRATCHPAD, conv.scratch, scratch);
      scratch += aligned(size);
    }
    scratch_ = std::max(scratch_, scratch);
    parts_.push_back(std::move(part));
  }

  ConvolutionViews views_;
  std::vector<DotEpilogue> epilogue_;
  size_t num_post_ops_ = 0;  // the first ones; the others are clips
  ClipTail clips_;
  bool is_slow_ = false, is_uniform_ = true;
  memory::desc kernel_, own_kernel_;
  mutable std::vector<Part> parts_;
  size_t scratch_ = 0;  // of one thread
};

// The examples of the result lie one after the other.
bool is_by_example(const CodeView& result) {
  const Shape &shape = result.type.shape, &strides = result.type.strides;
  return shape[0] == 1 || strides[0] == num_elements(shape) / shape[0];
}

}  // namespace

std::unique_ptr<ConvolutionStep> make_convolution_step(const ConvolutionViews& views,
                                                       const std::vector<DotEpilogue>& epilogue,
                                                       int threads) {
  const ConvLayout input = layout_of(views.input), kernel = layout_of(views.kernel),
                   result = layout_of(views.result);
  if (!conv_detail::suits_onednn(input, kernel, result) || !conv_detail::is_plain_tensor(input) ||
      !conv_detail::is_plain_kernel(kernel) || !conv_detail::is_plain_tensor(result))
    return nullptr;
  if (!epilogue.empty() && !is_by_example(views.result)) return nullptr;
  try {
    auto step = std::make_unique<OneDnnConvolutionStep>(views, epilogue, threads);
    if (!step->is_uniform()) step = std::make_unique<OneDnnConvolutionStep>(views, epilogue, 1);
    if (!epilogue.empty() && step->is_slow()) return nullptr;
    return step;
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace cleave
