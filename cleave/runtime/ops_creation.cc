#include "cleave/runtime/ops_creation.h"

#include <cmath>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

void check_shape(std::string_view op, const Shape& shape) {
  for (int64_t size : shape)
    if (size < 0) throw_user("{}: the shape <{}> has a negative size", op, to_string(shape));
}

// All numbers from first to last are integers of the dtype.
void check_counts(std::string_view op, __int128 first, __int128 last, DType dtype) {
  if (integer_fits(first, dtype) && integer_fits(last, dtype)) return;
  const double end = static_cast<double>(integer_fits(last, dtype) ? first : last);
  throw_user("{}: it counts to {:.0f}, and {} holds {}; give a wider dtype", op, end, name(dtype),
             integer_range(dtype));
}

// Integers that are too large for the dtype are wrapped.
Tensor counted(const Shape& shape, int64_t dim, DType dtype) {
  std::vector<int64_t> params{dim, static_cast<int64_t>(dtype)};
  params.insert(params.end(), shape.begin(), shape.end());
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {b.iota(static_cast<DType>(params[1]), Shape(params.begin() + 2, params.end()),
                       params[0])};
      },
      params, {});
}

}  // namespace

Tensor full(const Shape& shape, const Scalar& value, DType dtype) {
  check_shape("full", shape);
  const Tensor element = scalar(value, dtype);
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {stretch(b, b.arg(0), Shape(params.begin(), params.end()))};
      },
      shape, {&element, 1});
}

Tensor zeros(const Shape& shape, DType dtype) { return full(shape, 0, dtype); }
Tensor ones(const Shape& shape, DType dtype) { return full(shape, 1, dtype); }

Tensor full_like(const Tensor& x, const Scalar& value) {
  const Tensor result = full(x.shape(), value, x.dtype());
  if (!x.mesh()) return result;
  ShardingSpec spec = x.sharding();
  spec.partial.clear();
  return result.with_sharding(spec);
}
Tensor zeros_like(const Tensor& x) { return full_like(x, 0); }
Tensor ones_like(const Tensor& x) { return full_like(x, 1); }

Tensor iota(const Shape& shape, int64_t dim, DType dtype) {
  check_shape("iota", shape);
  num_elements(shape);  // a shape beyond memory is refused as such
  const int64_t along = checked_dim("iota", dim, static_cast<int64_t>(shape.size()));
  check_counts("iota", 0, shape[static_cast<size_t>(along)] - 1, dtype);
  return counted(shape, along, dtype);
}

Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step,
              std::optional<DType> dtype) {
  bool floats = false;
  for (const Scalar& value : {start, stop, step}) floats |= value.kind == Scalar::Kind::Float;
  const DType type = dtype.value_or(floats ? DType::F32 : DType::I32);
  const double from = start.number.real(), to = stop.number.real(), by = step.number.real();
  if (by == 0) throw_user("arange: the step is 0");
  if (std::isnan(from) || std::isnan(to) || std::isnan(by))
    throw_user("arange: from {} to {} by {}; give numbers", from, to, by);
  const double steps = std::max(0.0, std::ceil((to - from) / by));
  if (!(steps < 0x1p59))
    throw_user("arange: from {} to {} by {} are {} numbers, more than any memory holds", from, to,
               by, steps);
  const auto count = static_cast<int64_t>(steps);
  if (!is_float(type) && !floats) {
    if (count > 0)
      check_counts("arange", start.exact(), start.exact() + (count - 1) * step.exact(), type);
    Tensor index = counted({count}, 0, type);
    if (step.integer != 1) index = mul(index, scalar(step, type));
    return start.integer == 0 ? index : add(index, scalar(start, type));
  }
  const Tensor index = iota({count}, 0, DType::F64);
  return cast(add(mul(index, by), from), type);
}
Tensor arange(const Scalar& stop) { return arange(0, stop); }

Tensor linspace(double start, double stop, int64_t count, DType dtype) {
  if (count < 0) throw_user("linspace: {} numbers", count);
  const Tensor index = iota({count}, 0, DType::F64);
  const double steps = count > 1 ? static_cast<double>(count - 1) : 1;
  const Tensor part = div(index, steps);
  return cast(add(mul(sub(1, part), start), mul(part, stop)), dtype);
}

Tensor eye(int64_t rows, std::optional<int64_t> columns, DType dtype) {
  const Shape shape{rows, columns.value_or(rows)};
  check_shape("eye", shape);
  return cast(equal(iota(shape, 0), iota(shape, 1)), dtype);
}

}  // namespace cleave
