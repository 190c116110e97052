#include "cleave/runtime/ops_reduction.h"

#include <cmath>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

DType sum_type(DType dtype) {
  if (dtype == DType::Bool) return DType::I32;
  if (!is_integer(dtype) || bit_width(dtype) >= 32) return dtype;
  return is_signed_integer(dtype) ? DType::I32 : DType::U32;
}

// x divided by the number of elements along some dimensions of a shape, less a correction.
Tensor by_count(const Tensor& x, const Shape& shape, const Dims& dims, double less = 0) {
  std::vector<int64_t> params{real_param(less)};
  for (int64_t d : dims) params.push_back(shape[static_cast<size_t>(d)]);
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const ValueId sum = b.arg(0);
        const ValueId count = count_constant(b, b.dtype(sum), {params.begin() + 1, params.end()},
                                             real_from(params[0]));
        return {b.emit("stablehlo.divide", {sum, stretch(b, count, b.shape(sum))})};
      },
      params, {&x, 1});
}

// keep, then the dimensions.
struct Over {
  Dims dims;
  std::vector<int64_t> params;

  Over(std::string_view op, const Tensor& x, const Dims& given, bool keep) {
    dims = checked_dims(op, given, x.rank());
    if (given.empty())
      for (int64_t d = 0; d < x.rank(); ++d) dims.push_back(d);
    params = {keep};
    params.insert(params.end(), dims.begin(), dims.end());
  }
};
Dims dims_from(Params params, size_t skip = 1) {
  return Dims(params.begin() + static_cast<int64_t>(skip), params.end());
}

template <OpText op>
Tensor reduce(std::string_view what, const Tensor& x, const Dims& dims, bool keep) {
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {fold(b, b.arg(0), op.text, dims_from(params), params[0])};
      },
      Over(what, x, dims, keep).params, {&x, 1});
}

void check_not_empty(std::string_view op, const Tensor& x, const Dims& dims) {
  for (int64_t d : Over(op, x, dims, false).dims)
    if (x.shape()[static_cast<size_t>(d)] == 0)
      throw_user("{}: dimension {} of tensor<{}> has no elements", op, d, to_string(x.shape()));
}

// Whether (value, index) a goes before b: larger, or equal and earlier; NaN before all.
ValueId goes_first(GraphBuilder& r, const char* direction, bool floats) {
  const ValueId x = r.arg(0), i = r.arg(1), y = r.arg(2), j = r.arg(3);
  ValueId better = r.compare(direction, x, y);
  if (floats) better = r.binary("stablehlo.or", better, r.compare("NE", x, x));
  const ValueId tie = r.binary("stablehlo.and", r.compare("EQ", x, y), r.compare("LT", i, j));
  return r.binary("stablehlo.or", better, tie);
}

Values arg_form(GraphBuilder& b, Params params) {
  const bool largest = params[1];
  const int64_t dim = params[2];
  const ValueId x = b.arg(0);
  const DType dtype = b.dtype(x);
  const ValueId index = b.iota(DType::I32, b.shape(x), dim);
  const ValueId start = largest ? lowest_constant(b, dtype) : highest_constant(b, dtype);
  const ValueId none = b.constant(std::numeric_limits<int32_t>::max(), DType::I32);
  Shape rest = b.shape(x);
  rest.erase(rest.begin() + dim);
  AttrDict attrs;
  attrs.set("dimensions", ints_attr({dim}));
  const ValueId found = emit_with_body(
      b, "stablehlo.reduce", {x, index, start, none},
      {Type::tensor(dtype, rest), Type::tensor(DType::I32, rest)}, std::move(attrs),
      {dtype, DType::I32, dtype, DType::I32}, [&](GraphBuilder& r) {
        const ValueId first = goes_first(r, largest ? "GT" : "LT", is_float(dtype));
        const ValueId value = r.emit("stablehlo.select", {first, r.arg(0), r.arg(2)});
        const ValueId place = r.emit("stablehlo.select", {first, r.arg(1), r.arg(3)});
        r.finish({value, place});
      })[1];
  return {params[0] ? expand(b, found, dim) : found};
}

Tensor arg_of(std::string_view op, const Tensor& x, int64_t dim, bool keep, bool largest) {
  const int64_t params[] = {keep, largest, checked_dim(op, dim, x.rank())};
  if (is_complex(x.dtype())) throw_user("{}: complex numbers have no order; use abs", op);
  check_not_empty(op, x, {dim});
  return record_one(arg_form, params, {&x, 1});
}

template <OpText op>
Values running_form(GraphBuilder& b, Params params) {
  const ValueId x = b.arg(0);
  const DType dtype = b.dtype(x);
  const auto dim = static_cast<size_t>(params[0]);
  const Shape shape = b.shape(x);
  const int64_t n = shape[dim];
  if (n == 0) return {x};
  std::vector<int64_t> window(shape.size(), 1), padding(2 * shape.size(), 0);
  window[dim] = n;
  padding[2 * dim + (params[1] ? 1 : 0)] = n - 1;
  const std::string_view name = op.text;
  // A running sum begins with 0.0, and not with -0.0 as a reduction does.
  const bool adds = reduce_op_of(name) == ReduceOp::Sum;
  const ValueId start = adds ? b.constant(0, dtype) : identity_constant(b, name, dtype);
  AttrDict attrs;
  attrs.set("window_dimensions", ints_attr(std::move(window)));
  attrs.set("padding", pairs_attr(padding));
  return emit_with_body(b, "stablehlo.reduce_window", {x, start}, {b.type(x)}, std::move(attrs),
                        {dtype, dtype}, [&](GraphBuilder& r) {
                          r.finish({r.emit(name, {r.arg(0), r.arg(1)})});
                        });
}
template <OpText op>
Tensor running(std::string_view what, const Tensor& x, int64_t dim, bool reverse) {
  const int64_t params[] = {checked_dim(what, dim, x.rank()), reverse};
  return record_one(running_form<op>, params, {&x, 1});
}

// Keys alone, or keys with their places.
Values sort_form(GraphBuilder& b, Params params) {
  const bool descending = params[1], places = params[2];
  const ValueId x = b.arg(0);
  const DType dtype = b.dtype(x);
  AttrDict attrs;
  attrs.set("dimension", int_attr(params[0]));
  attrs.set("is_stable", true);
  Values operands{x};
  std::vector<Type> types{b.type(x)};
  std::vector<DType> args{dtype, dtype};
  if (places) {
    operands.push_back(b.iota(DType::I32, b.shape(x), params[0]));
    types.push_back(b.type(operands[1]));
    args.insert(args.end(), {DType::I32, DType::I32});
  }
  auto compare = [&](GraphBuilder& r) {
    AttrDict order;
    order.set("comparison_direction",
              EnumAttr{"stablehlo.comparison_direction", descending ? "GT" : "LT"});
    if (is_float(dtype))
      order.set("compare_type", EnumAttr{"stablehlo.comparison_type", "TOTALORDER"});
    r.finish({r.emit("stablehlo.compare", {r.arg(0), r.arg(1)}, std::move(order))});
  };
  const Values sorted = emit_with_body(b, "stablehlo.sort", std::move(operands), std::move(types),
                                       std::move(attrs), args, compare);
  return {sorted.back()};
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keep) {
  return reduce<"stablehlo.add">("sum", cast(x, sum_type(x.dtype())), dims, keep);
}
Tensor prod(const Tensor& x, const Dims& dims, bool keep) {
  return reduce<"stablehlo.multiply">("prod", cast(x, sum_type(x.dtype())), dims, keep);
}
Tensor max(const Tensor& x, const Dims& dims, bool keep) {
  check_not_empty("max", x, dims);
  return reduce<"stablehlo.maximum">("max", x, dims, keep);
}
Tensor min(const Tensor& x, const Dims& dims, bool keep) {
  check_not_empty("min", x, dims);
  return reduce<"stablehlo.minimum">("min", x, dims, keep);
}
Tensor any(const Tensor& x, const Dims& dims, bool keep) {
  return reduce<"stablehlo.or">("any", cast(x, DType::Bool), dims, keep);
}
Tensor all(const Tensor& x, const Dims& dims, bool keep) {
  return reduce<"stablehlo.and">("all", cast(x, DType::Bool), dims, keep);
}

Tensor mean(const Tensor& x, const Dims& dims, bool keep) {
  const Over over("mean", x, dims, keep);
  return by_count(sum(cast(x, real_type(x.dtype())), dims, keep), x.shape(), over.dims);
}

Tensor var(const Tensor& x, const Dims& dims, bool keep, double correction) {
  const Over over("var", x, dims, keep);
  double count = 1;
  for (int64_t d : over.dims) count *= static_cast<double>(x.dim(d));
  if (!(correction <= count || count == 0) || std::isinf(correction))
    throw_user("var: a correction of {} for {} elements; it must be less than their number",
               correction, count);
  const Tensor real = cast(x, real_type(x.dtype()));
  const Tensor centered = sub(real, mean(real, dims, true));
  const Tensor squares = is_complex(x.dtype()) ? square(abs(centered)) : mul(centered, centered);
  return by_count(sum(squares, dims, keep), x.shape(), over.dims, correction);
}

Tensor stddev(const Tensor& x, const Dims& dims, bool keep, double correction) {
  return sqrt(var(x, dims, keep, correction));
}

Tensor norm(const Tensor& x, double order, const Dims& dims, bool keep) {
  if (std::isnan(order) || order == 0)
    throw_user(
        "norm: the order is {}; give any other number, or infinity (to count elements: sum "
        "of x != 0)",
        order);
  const Tensor real = cast(x, real_type(x.dtype()));
  if (std::isinf(order)) return order > 0 ? max(abs(real), dims, keep) : min(abs(real), dims, keep);
  if (order == 1) return sum(abs(real), dims, keep);
  if (order == 2)
    return sqrt(sum(is_complex(x.dtype()) ? square(abs(real)) : mul(real, real), dims, keep));
  return pow(sum(pow(abs(real), order), dims, keep), 1 / order);
}

Tensor logsumexp(const Tensor& x, const Dims& dims, bool keep) {
  const Tensor real = cast(x, real_type(x.dtype()));
  check_not_empty("logsumexp", x, dims);
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const Dims dims = dims_from(params);
        const ValueId x = b.arg(0);
        ValueId top = fold(b, x, "stablehlo.maximum", dims, true);
        top = b.emit("stablehlo.select",
                     {b.emit("stablehlo.is_finite", {top}), top, b.constant_like(0, top)});
        const ValueId parts =
            b.emit("stablehlo.exponential",
                   {b.binary("stablehlo.subtract", x, stretch(b, top, b.shape(x)))});
        const ValueId total =
            b.emit("stablehlo.log", {fold(b, parts, "stablehlo.add", dims, true)});
        const ValueId result = b.binary("stablehlo.add", total, top);
        if (params[0]) return {result};
        Shape rest;
        for (size_t d = 0; d < b.shape(x).size(); ++d)
          if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
            rest.push_back(b.shape(x)[d]);
        return {b.reshape(result, std::move(rest))};
      },
      Over("logsumexp", x, dims, keep).params, {&real, 1});
}

Tensor argmax(const Tensor& x, int64_t dim, bool keep) {
  return arg_of("argmax", x, dim, keep, true);
}
Tensor argmin(const Tensor& x, int64_t dim, bool keep) {
  return arg_of("argmin", x, dim, keep, false);
}

Tensor cumsum(const Tensor& x, int64_t dim, bool reverse) {
  return running<"stablehlo.add">("cumsum", cast(x, sum_type(x.dtype())), dim, reverse);
}
Tensor cumprod(const Tensor& x, int64_t dim, bool reverse) {
  return running<"stablehlo.multiply">("cumprod", cast(x, sum_type(x.dtype())), dim, reverse);
}
Tensor cummax(const Tensor& x, int64_t dim, bool reverse) {
  return running<"stablehlo.maximum">("cummax", x, dim, reverse);
}
Tensor cummin(const Tensor& x, int64_t dim, bool reverse) {
  return running<"stablehlo.minimum">("cummin", x, dim, reverse);
}

Tensor sort(const Tensor& x, int64_t dim, bool descending) {
  const int64_t params[] = {checked_dim("sort", dim, x.rank()), descending, false};
  return record_one(sort_form, params, {&x, 1});
}
Tensor argsort(const Tensor& x, int64_t dim, bool descending) {
  const int64_t params[] = {checked_dim("argsort", dim, x.rank()), descending, true};
  return record_one(sort_form, params, {&x, 1});
}

TopK top_k(const Tensor& x, int64_t k) {
  if (x.rank() == 0 || k < 0 || k > x.dim(-1))
    throw_user("top_k: the {} largest along the last dimension of tensor<{}>, which has {}", k,
               to_string(x.shape()), x.rank() == 0 ? 0 : x.dim(-1));
  const int64_t params[] = {k};
  const std::vector<Tensor> results = record(
      [](GraphBuilder& b, Params params) -> Values {
        AttrDict attrs;
        attrs.set("k", int_attr(params[0]));
        return b.emit_all("chlo.top_k", {b.arg(0)}, std::move(attrs));
      },
      params, {&x, 1});
  return {results[0], results[1]};
}

}  // namespace cleave
