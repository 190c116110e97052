#include "cleave/runtime/ops_arrange.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_shape.h"

namespace cleave {
namespace {

// The element that stands at place i, which may be outside of [0, size).
int64_t source_of(int64_t i, int64_t size, PadMode mode) {
  if (mode == PadMode::Edge || size == 1) return std::clamp<int64_t>(i, 0, size - 1);
  const int64_t period = mode == PadMode::Wrap      ? size
                         : mode == PadMode::Reflect ? 2 * size - 2
                                                    : 2 * size;
  const int64_t at = ((i % period) + period) % period;
  if (at < size) return at;
  return mode == PadMode::Reflect ? period - at : period - 1 - at;
}

Tensor constant_places(Shape shape, const std::vector<int64_t>& places) {
  return Tensor::from(DType::I32, std::move(shape),
                      std::vector<int32_t>(places.begin(), places.end()));
}

}  // namespace

Tensor move_dim(const Tensor& x, int64_t from, int64_t to) {
  const int64_t source = checked_dim("move_dim", from, x.rank());
  const int64_t target = checked_dim("move_dim", to, x.rank());
  std::vector<int64_t> order;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != source) order.push_back(d);
  order.insert(order.begin() + target, source);
  return transpose(x, order);
}

std::vector<Tensor> chunk(const Tensor& x, int64_t parts, int64_t dim) {
  if (parts <= 0) throw_user("chunk: {} parts", parts);
  const int64_t total = x.dim(dim), size = (total + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t start = 0; start < total; start += size)
    sizes.push_back(std::min(size, total - start));
  if (sizes.empty()) sizes.push_back(0);
  return split(x, sizes, dim);
}

Tensor rot90(const Tensor& x, int64_t times, std::pair<int64_t, int64_t> dims) {
  const int64_t a = checked_dim("rot90", dims.first, x.rank());
  const int64_t b = checked_dim("rot90", dims.second, x.rank());
  if (a == b) throw_user("rot90: both dimensions are {}", a);
  switch (((times % 4) + 4) % 4) {
    case 1:
      return swap_dims(flip(x, {b}), a, b);
    case 2:
      return flip(x, {a, b});
    case 3:
      return flip(swap_dims(x, a, b), {b});
    default:
      return x;
  }
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
           PadMode mode) {
  if (low.size() != x.shape().size() || high.size() != x.shape().size())
    throw_user("pad: {} sizes before and {} after for tensor<{}> of rank {}", low.size(),
               high.size(), to_string(x.shape()), x.rank());
  Tensor result = x;
  for (size_t d = 0; d < low.size(); ++d) {
    const int64_t size = x.shape()[d], count = low[d] + size + high[d];
    if (low[d] < 0 || high[d] < 0)
      throw_user("pad: {} and {} elements around dimension {}; slice to cut off", low[d], high[d],
                 d);
    if (low[d] == 0 && high[d] == 0) continue;
    if (size == 0)
      throw_user("pad: dimension {} of tensor<{}> has no elements to repeat", d,
                 to_string(x.shape()));
    std::vector<int64_t> places;
    for (int64_t i = 0; i < count; ++i) places.push_back(source_of(i - low[d], size, mode));
    result = take(result, constant_places({count}, places), static_cast<int64_t>(d));
  }
  return result;
}

Tensor unfold(const Tensor& x, int64_t dim, int64_t size, int64_t step) {
  const int64_t d = checked_dim("unfold", dim, x.rank());
  if (size < 0 || size > x.dim(d) || step <= 0)
    throw_user("unfold: windows of {}, {} apart, along dimension {} of tensor<{}>", size, step, d,
               to_string(x.shape()));
  const int64_t windows = (x.dim(d) - size) / step + 1;
  std::vector<int64_t> places;
  for (int64_t w = 0; w < windows; ++w)
    for (int64_t i = 0; i < size; ++i) places.push_back(w * step + i);
  return move_dim(take(x, constant_places({windows, size}, places), d), d + 1, -1);
}

Tensor diff(const Tensor& x, int64_t times, int64_t dim) {
  const int64_t d = checked_dim("diff", dim, x.rank());
  if (times < 0) throw_user("diff: {} times", times);
  Tensor result = x;
  for (int64_t i = 0; i < times && result.dim(d) > 0; ++i)
    result = slice_dim(result, d, 1) - slice_dim(result, d, 0, result.dim(d) - 1);
  return result;
}

}  // namespace cleave
