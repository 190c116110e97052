#include "cleave/kernels/window.h"

#include <algorithm>

namespace cleave {
namespace {

// What no memory holds anyway; sums of it with paddings still fit.
constexpr int64_t kHuge = int64_t{1} << 61;

int64_t dilated(int64_t size, int64_t dilation) {
  int64_t span = 0;
  if (size == 0) return 0;
  return __builtin_mul_overflow(size - 1, dilation, &span) || span >= kHuge ? kHuge : span + 1;
}

int64_t padded_size(int64_t size, const Window::Dim& dim) {
  return std::max<int64_t>(0, dilated(size, dim.base_dilation) + dim.low + dim.high);
}

}  // namespace

int64_t num_windows(int64_t size, const Window::Dim& dim) {
  const int64_t padded = padded_size(size, dim), window = dilated(dim.size, dim.dilation);
  return padded == 0 || window > padded ? 0 : (padded - window) / dim.stride + 1;
}

Padding plan_padding(const Shape& input, const Window& window) {
  const size_t rank = input.size();
  Padding plan{Shape(rank), Shape(rank), Shape(rank), Shape(rank), Shape(rank), true};
  for (size_t d = 0; d < rank; ++d) {
    const Window::Dim& dim = window.dims[d];
    const int64_t holes = dim.base_dilation;
    plan.shape[d] = padded_size(input[d], dim);
    // Element i goes to low + i * holes; keep those inside [0, shape).
    plan.start[d] = dim.low >= 0 ? 0 : ceil_div(-dim.low, holes);
    const int64_t last = plan.shape[d] - 1 - dim.low;  // the largest i * holes that remains
    const int64_t end = last < 0 ? 0 : std::min(input[d], last / holes + 1);
    plan.size[d] = std::max<int64_t>(0, end - plan.start[d]);
    plan.target[d] = dim.low + plan.start[d] * holes;
    plan.step[d] = holes;
    plan.only_crops &= holes == 1 && dim.low <= 0 && dim.high <= 0;
  }
  plan.only_crops &= plan.size == plan.shape;
  if (num_elements(plan.size) == 0) plan.start = plan.target = Shape(rank, 0);
  return plan;
}

Array pad_and_dilate(const Array& input, const Window& window, const Array& fill) {
  const Padding plan = plan_padding(input.shape(), window);
  const Array kept = input.slice(plan.start, plan.size);
  if (plan.only_crops) return kept;
  Array result(input.dtype(), plan.shape);
  copy_elements(fill.broadcast(plan.shape, {}), result);
  if (kept.num_elements() > 0) copy_elements(kept, result.slice(plan.target, plan.size, plan.step));
  return result;
}

Array window_view(const Array& padded, const Window& window) {
  const size_t rank = padded.rank();
  Shape shape(2 * rank), strides(2 * rank);
  for (size_t d = 0; d < rank; ++d) {
    const Window::Dim& dim = window.dims[d];
    Window::Dim plain = dim;
    plain.base_dilation = 1;
    plain.low = plain.high = 0;
    shape[d] = num_windows(padded.shape()[d], plain);
    strides[d] = padded.strides()[d] * dim.stride;
    shape[rank + d] = dim.size;
    strides[rank + d] = padded.strides()[d] * dim.dilation;
  }
  const int64_t offset = (padded.raw() - padded.buffer().get()) / byte_size(padded.dtype());
  return Array(padded.dtype(), std::move(shape), std::move(strides), offset, padded.buffer());
}

}  // namespace cleave
