#include "cleave/runtime/ops_indexing.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

void check_indices(std::string_view op, const Tensor& indices) {
  if (!is_integer(indices.dtype()))
    throw_user("{}: indices are integers, got {}; cast them", op, to_string(indices.type()));
}

ValueId from_the_end(GraphBuilder& b, ValueId indices, int64_t size) {
  if (!is_signed_integer(b.dtype(indices))) return indices;
  const ValueId wrapped =
      b.binary("stablehlo.add", indices, b.constant_like(static_cast<double>(size), indices));
  const ValueId negative = b.compare("LT", indices, b.constant_like(0, indices));
  return b.emit("stablehlo.select", {negative, wrapped, indices});
}

// The dimensions of a result that are not those of the indices, which stand at `dim`.
std::vector<int64_t> other_dims(int64_t rank, int64_t dim, int64_t index_rank) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < rank + index_rank - 1; ++d)
    if (d < dim || d >= dim + index_rank) dims.push_back(d);
  return dims;
}

Values take_form(GraphBuilder& b, Params params) {
  const int64_t dim = params[0];
  const ValueId x = b.arg(0);
  const Shape shape = b.shape(x);
  const ValueId indices = from_the_end(b, b.arg(1), shape[static_cast<size_t>(dim)]);
  const auto index_rank = static_cast<int64_t>(b.shape(indices).size());
  Shape sizes = shape;
  sizes[static_cast<size_t>(dim)] = 1;
  AttrDict attrs;
  attrs.set(kGatherDims,
            gather_attr({other_dims(static_cast<int64_t>(shape.size()), dim, index_rank),
                         {dim},
                         {},
                         {},
                         {dim},
                         index_rank}));
  attrs.set("slice_sizes", ints_attr(std::move(sizes)));
  return {b.emit("stablehlo.gather", {x, indices}, std::move(attrs))};
}

Values take_along_form(GraphBuilder& b, Params params) {
  const int64_t dim = params[0];
  const ValueId x = b.arg(0);
  const Shape shape = b.shape(x);
  const auto rank = static_cast<int64_t>(shape.size());
  const ValueId indices = from_the_end(b, b.arg(1), shape[static_cast<size_t>(dim)]);
  if (static_cast<int64_t>(b.shape(indices).size()) != rank)
    throw_user("take_along: <{}> and indices <{}> must have one rank", to_string(shape),
               to_string(b.shape(indices)));
  std::vector<int64_t> batch;
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) batch.push_back(d);
  AttrDict attrs;
  attrs.set(kGatherDims, gather_attr({{}, {dim}, batch, batch, {dim}, rank}));
  attrs.set("slice_sizes", ints_attr(std::vector<int64_t>(shape.size(), 1)));
  return {b.emit("stablehlo.gather", {x, expand(b, indices, rank)}, std::move(attrs))};
}

// params: the dimension; 0 add, 1 max, 2 replace.
Values scatter_form(GraphBuilder& b, Params params) {
  const int64_t dim = params[0];
  const ValueId x = b.arg(0);
  const DType dtype = b.dtype(x);
  const Shape shape = b.shape(x);
  const ValueId indices = from_the_end(b, b.arg(1), shape[static_cast<size_t>(dim)]);
  const auto index_rank = static_cast<int64_t>(b.shape(indices).size());
  Shape expected(shape.begin(), shape.begin() + dim);
  expected.insert(expected.end(), b.shape(indices).begin(), b.shape(indices).end());
  expected.insert(expected.end(), shape.begin() + dim + 1, shape.end());
  const ValueId updates = stretch(b, cast_to(b, b.arg(2), dtype), expected);
  AttrDict attrs;
  attrs.set(kScatterDims,
            scatter_attr({other_dims(static_cast<int64_t>(shape.size()), dim, index_rank),
                          {dim},
                          {},
                          {},
                          {dim},
                          index_rank}));
  return emit_with_body(b, "stablehlo.scatter", {x, indices, updates}, {b.type(x)},
                        std::move(attrs), {dtype, dtype}, [&](GraphBuilder& r) {
                          const ValueId old = r.arg(0), update = r.arg(1);
                          r.finish({params[1] == 0   ? r.binary("stablehlo.add", old, update)
                                    : params[1] == 1 ? r.binary("stablehlo.maximum", old, update)
                                                     : update});
                        });
}

Tensor scatter(const char* op, const Tensor& x, const Tensor& indices, const Tensor& updates,
               int64_t dim, int64_t kind) {
  check_indices(op, indices);
  const int64_t params[] = {checked_dim(op, dim, x.rank()), kind};
  Shape shape = x.shape();
  shape.erase(shape.begin() + params[0]);
  shape.insert(shape.begin() + params[0], indices.shape().begin(), indices.shape().end());
  if (updates.shape() != shape)
    throw_user("{}: indices <{}> along dimension {} of tensor<{}> take updates of <{}>, got <{}>",
               op, to_string(indices.shape()), params[0], to_string(x.shape()), to_string(shape),
               to_string(updates.shape()));
  if (promote(x.dtype(), updates.dtype()) != x.dtype())
    throw_user("{}: updates of {} do not fit into {}; cast one of them", op,
               to_string(updates.type()), to_string(x.type()));
  const Tensor operands[] = {x, indices, updates};
  return record_one(scatter_form, params, operands);
}

std::vector<Tensor> with_starts(std::string_view op, std::vector<Tensor> operands,
                                std::span<const Tensor> starts, const Tensor& x) {
  if (static_cast<int64_t>(starts.size()) != x.rank())
    throw_user("{}: {} start indices for tensor<{}>", op, starts.size(), to_string(x.shape()));
  for (const Tensor& start : starts) {
    check_indices(op, start);
    operands.push_back(start);
  }
  return operands;
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, int64_t dim) {
  check_indices("take", indices);
  const int64_t params[] = {checked_dim("take", dim, x.rank())};
  const Tensor operands[] = {x, indices};
  return record_one(take_form, params, operands);
}

Tensor take_along(const Tensor& x, const Tensor& indices, int64_t dim) {
  check_indices("take_along", indices);
  const int64_t params[] = {checked_dim("take_along", dim, x.rank())};
  const Tensor operands[] = {x, indices};
  return record_one(take_along_form, params, operands);
}

Tensor embedding(const Tensor& table, const Tensor& ids) {
  if (table.rank() != 2)
    throw_user("embedding: a table has rows and columns, got tensor<{}>", to_string(table.shape()));
  return take(table, ids, 0);
}

Tensor one_hot(const Tensor& indices, int64_t classes, DType dtype) {
  check_indices("one_hot", indices);
  if (classes < 0) throw_user("one_hot: {} classes", classes);
  const int64_t params[] = {classes, static_cast<int64_t>(dtype)};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const ValueId indices = b.arg(0);
        Shape shape = b.shape(indices);
        const auto rank = static_cast<int64_t>(shape.size());
        shape.push_back(params[0]);
        const ValueId wide = stretch(b, expand(b, indices, rank), shape);
        const ValueId hit = b.compare("EQ", wide, b.iota(b.dtype(indices), shape, rank));
        return {cast_to(b, hit, static_cast<DType>(params[1]))};
      },
      params, {&indices, 1});
}

Tensor scatter_add(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim) {
  return scatter("scatter_add", x, indices, updates, dim, 0);
}
Tensor scatter_max(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim) {
  return scatter("scatter_max", x, indices, updates, dim, 1);
}
Tensor scatter_set(const Tensor& x, const Tensor& indices, const Tensor& updates, int64_t dim) {
  return scatter("scatter_set", x, indices, updates, dim, 2);
}

Tensor dynamic_slice(const Tensor& x, std::span<const Tensor> starts,
                     const std::vector<int64_t>& sizes) {
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        AttrDict attrs;
        attrs.set("slice_sizes", ints_attr({params.begin(), params.end()}));
        Values operands;
        for (size_t i = 0; i <= params.size(); ++i) operands.push_back(b.arg(i));
        return {b.emit("stablehlo.dynamic_slice", std::move(operands), std::move(attrs))};
      },
      sizes, with_starts("dynamic_slice", {x}, starts, x));
}

Tensor dynamic_update_slice(const Tensor& x, const Tensor& update, std::span<const Tensor> starts) {
  const int64_t params[] = {x.rank()};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        Values operands;
        for (int64_t i = 0; i < params[0] + 2; ++i)
          operands.push_back(b.arg(static_cast<size_t>(i)));
        return {b.emit("stablehlo.dynamic_update_slice", std::move(operands))};
      },
      params, with_starts("dynamic_update_slice", {x, update}, starts, x));
}

}  // namespace cleave
