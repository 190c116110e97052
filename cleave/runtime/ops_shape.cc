#include "cleave/runtime/ops_shape.h"

#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

Values reshape_form(GraphBuilder& b, Params params) {
  Shape shape(params.begin(), params.end());
  int64_t known = 1, unknown = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] >= 0) {
      known *= shape[d];
      continue;
    }
    if (shape[d] != -1 || unknown >= 0)
      throw_user("reshape: one size may be -1, got <{}>", to_string(shape));
    unknown = static_cast<int64_t>(d);
  }
  const int64_t count = num_elements(b.shape(b.arg(0)));
  if (unknown >= 0) {
    if (known == 0 || count % known != 0)
      throw_user("reshape: the {} elements of <{}> cannot be split by {}", count,
                 to_string(b.shape(b.arg(0))), known);
    shape[static_cast<size_t>(unknown)] = count / known;
  }
  return {b.reshape(b.arg(0), std::move(shape))};
}

Values concat_form(GraphBuilder& b, Params params) {
  const size_t count = static_cast<size_t>(params[1]);
  DType dtype = b.dtype(b.arg(0));
  for (size_t i = 1; i < count; ++i) dtype = promote(dtype, b.dtype(b.arg(i)));
  Values operands;
  for (size_t i = 0; i < count; ++i) operands.push_back(cast_to(b, b.arg(i), dtype));
  AttrDict attrs;
  attrs.set("dimension", int_attr(params[0]));
  return {b.emit("stablehlo.concatenate", std::move(operands), std::move(attrs))};
}

// Concatenated lists of one length.
std::vector<int64_t> lists(std::initializer_list<const std::vector<int64_t>*> parts) {
  std::vector<int64_t> params;
  for (const auto* part : parts) params.insert(params.end(), part->begin(), part->end());
  return params;
}
std::vector<int64_t> list_from(Params params, size_t index, size_t rank) {
  const auto begin = params.begin() + static_cast<int64_t>(index * rank);
  return {begin, begin + static_cast<int64_t>(rank)};
}

void check_rank(std::string_view op, const char* what, size_t given, const Tensor& x) {
  if (given != x.shape().size())
    throw_user("{}: {} has {} entries for tensor<{}> of rank {}", op, what, given,
               to_string(x.shape()), x.rank());
}

Values triangle_form(GraphBuilder& b, Params params) {
  const ValueId x = b.arg(0);
  const Shape shape = b.shape(x);
  const auto rank = static_cast<int64_t>(shape.size());
  if (rank < 2) throw_user("triu, tril: tensor<{}> is no matrix", to_string(shape));
  const ValueId row = b.iota(DType::I64, shape, rank - 2),
                column = b.iota(DType::I64, shape, rank - 1);
  const ValueId diagonal =
      b.binary("stablehlo.add", row, b.constant(static_cast<double>(params[1]), DType::I64, shape));
  const ValueId keep = b.compare(params[0] ? "GE" : "LE", column, diagonal);
  return {b.emit("stablehlo.select", {keep, x, b.constant_like(0, x)})};
}

// Diagonals beyond the corners of a matrix are all alike.
int64_t nearest_diagonal(const Tensor& x, int64_t k) {
  if (x.rank() < 2) return 0;
  return std::clamp(k, -x.dim(-2) - 1, x.dim(-1) + 1);
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  return record_one(reshape_form, shape, {&x, 1});
}

Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation) {
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const auto rank = static_cast<int64_t>(b.shape(b.arg(0)).size());
        std::vector<int64_t> order;
        for (int64_t d : params) order.push_back(checked_dim("transpose", d, rank));
        if (order.empty())
          for (int64_t d = rank; d-- > 0;) order.push_back(d);
        return {b.transpose(b.arg(0), std::move(order))};
      },
      permutation, {&x, 1});
}

Tensor swap_dims(const Tensor& x, int64_t a, int64_t b) {
  std::vector<int64_t> order(x.shape().size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(checked_dim("swap_dims", a, x.rank()))],
            order[static_cast<size_t>(checked_dim("swap_dims", b, x.rank()))]);
  return transpose(x, order);
}

Tensor expand_dims(const Tensor& x, int64_t dim) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + checked_dim("expand_dims", dim, x.rank() + 1), 1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, const std::vector<int64_t>& dims) {
  const std::vector<int64_t> given = checked_dims("squeeze", dims, x.rank());
  Shape shape;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool named = std::find(given.begin(), given.end(), d) != given.end();
    if (named && x.dim(d) != 1)
      throw_user("squeeze: dimension {} of tensor<{}> has size {}", d, to_string(x.shape()),
                 x.dim(d));
    if (!(named || (given.empty() && x.dim(d) == 1))) shape.push_back(x.dim(d));
  }
  return reshape(x, shape);
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const Shape shape(params.begin(), params.end());
        if (broadcast_shapes("broadcast_to", b.shape(b.arg(0)), shape) != shape)
          throw_user("broadcast_to: <{}> does not stretch to <{}>", to_string(b.shape(b.arg(0))),
                     to_string(shape));
        return {stretch(b, b.arg(0), shape)};
      },
      shape, {&x, 1});
}

Tensor flatten(const Tensor& x) { return reshape(x, {-1}); }

Tensor concat(std::span<const Tensor> tensors, int64_t dim) {
  if (tensors.empty()) throw_user("concat: no tensors");
  const int64_t params[] = {checked_dim("concat", dim, tensors[0].rank()),
                            static_cast<int64_t>(tensors.size())};
  return record_one(concat_form, params, tensors);
}

Tensor stack(std::span<const Tensor> tensors, int64_t dim) {
  std::vector<Tensor> expanded;
  for (const Tensor& tensor : tensors) expanded.push_back(expand_dims(tensor, dim));
  if (expanded.empty()) throw_user("stack: no tensors");
  return concat(expanded, dim);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim) {
  const int64_t d = checked_dim("split", dim, x.rank());
  if (std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != x.dim(d))
    throw_user("split: the sizes do not add up to {}, dimension {} of tensor<{}>", x.dim(d), d,
               to_string(x.shape()));
  std::vector<Tensor> parts;
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(slice_dim(x, d, start, start + size));
    start += size;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, int64_t parts, int64_t dim) {
  const int64_t size = x.dim(dim);
  if (parts <= 0 || size % parts != 0)
    throw_user("split: dimension {} of tensor<{}> into {} equal parts; give sizes instead", dim,
               to_string(x.shape()), parts);
  return split(x, std::vector<int64_t>(static_cast<size_t>(parts), size / parts), dim);
}

Tensor slice(const Tensor& x, const std::vector<int64_t>& start, const std::vector<int64_t>& limit,
             const std::vector<int64_t>& strides) {
  check_rank("slice", "start", start.size(), x);
  check_rank("slice", "limit", limit.size(), x);
  const std::vector<int64_t> steps =
      strides.empty() ? std::vector<int64_t>(start.size(), 1) : strides;
  check_rank("slice", "strides", steps.size(), x);
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const size_t rank = params.size() / 3;
        AttrDict attrs;
        attrs.set("start_indices", ints_attr(list_from(params, 0, rank)));
        attrs.set("limit_indices", ints_attr(list_from(params, 1, rank)));
        attrs.set("strides", ints_attr(list_from(params, 2, rank)));
        return {b.emit("stablehlo.slice", {b.arg(0)}, std::move(attrs))};
      },
      lists({&start, &limit, &steps}), {&x, 1});
}

Tensor slice_dim(const Tensor& x, int64_t dim, int64_t start, std::optional<int64_t> limit,
                 int64_t stride) {
  const auto d = static_cast<size_t>(checked_dim("slice_dim", dim, x.rank()));
  const int64_t size = x.shape()[d];
  auto bound = [&](int64_t index) {
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  std::vector<int64_t> from(x.shape().size(), 0), to = x.shape(), by(x.shape().size(), 1);
  from[d] = bound(start);
  to[d] = std::max(from[d], bound(limit.value_or(size)));
  by[d] = stride;
  return slice(x, from, to, by);
}

Tensor pad(const Tensor& x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
           const Scalar& value, const std::vector<int64_t>& interior) {
  check_rank("pad", "low", low.size(), x);
  check_rank("pad", "high", high.size(), x);
  const std::vector<int64_t> between =
      interior.empty() ? std::vector<int64_t>(low.size(), 0) : interior;
  check_rank("pad", "interior", between.size(), x);
  const Tensor operands[] = {x, scalar(value, x.dtype())};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const size_t rank = params.size() / 3;
        AttrDict attrs;
        attrs.set("edge_padding_low", ints_attr(list_from(params, 0, rank)));
        attrs.set("edge_padding_high", ints_attr(list_from(params, 1, rank)));
        attrs.set("interior_padding", ints_attr(list_from(params, 2, rank)));
        return {b.emit("stablehlo.pad", {b.arg(0), b.arg(1)}, std::move(attrs))};
      },
      lists({&low, &high, &between}), operands);
}

Tensor flip(const Tensor& x, const std::vector<int64_t>& dims) {
  std::vector<int64_t> params = checked_dims("flip", dims, x.rank());
  if (dims.empty())
    for (int64_t d = 0; d < x.rank(); ++d) params.push_back(d);
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        AttrDict attrs;
        attrs.set("dimensions", ints_attr({params.begin(), params.end()}));
        return {b.emit("stablehlo.reverse", {b.arg(0)}, std::move(attrs))};
      },
      params, {&x, 1});
}

Tensor roll(const Tensor& x, int64_t shift, int64_t dim) {
  const int64_t size = x.dim(dim);
  if (size == 0) return x;
  const int64_t by = ((shift % size) + size) % size;
  if (by == 0) return x;
  return concat({slice_dim(x, dim, size - by), slice_dim(x, dim, 0, size - by)}, dim);
}

Tensor repeat(const Tensor& x, int64_t times, int64_t dim) {
  const int64_t d = checked_dim("repeat", dim, x.rank());
  if (times < 0) throw_user("repeat: {} times", times);
  Shape wide = x.shape(), shape = x.shape();
  wide.insert(wide.begin() + d + 1, times);
  shape[static_cast<size_t>(d)] *= times;
  return reshape(broadcast_to(expand_dims(x, d + 1), wide), shape);
}

Tensor tile(const Tensor& x, const std::vector<int64_t>& times) {
  check_rank("tile", "times", times.size(), x);
  Shape narrow, wide, shape;
  for (size_t d = 0; d < times.size(); ++d) {
    if (times[d] < 0) throw_user("tile: dimension {} {} times", d, times[d]);
    narrow.insert(narrow.end(), {1, x.shape()[d]});
    wide.insert(wide.end(), {times[d], x.shape()[d]});
    shape.push_back(times[d] * x.shape()[d]);
  }
  return reshape(broadcast_to(reshape(x, narrow), wide), shape);
}

Tensor triu(const Tensor& x, int64_t k) {
  const int64_t params[] = {true, nearest_diagonal(x, k)};
  return record_one(triangle_form, params, {&x, 1});
}
Tensor tril(const Tensor& x, int64_t k) {
  const int64_t params[] = {false, nearest_diagonal(x, k)};
  return record_one(triangle_form, params, {&x, 1});
}

}  // namespace cleave
