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
  std::vector<int64_t> params{checked_dim("iota", dim, static_cast<int64_t>(shape.size())),
                              static_cast<int64_t>(dtype)};
  params.insert(params.end(), shape.begin(), shape.end());
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {b.iota(static_cast<DType>(params[1]), Shape(params.begin() + 2, params.end()),
                       params[0])};
      },
      params, {});
}

Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step,
              std::optional<DType> dtype) {
  bool floats = false;
  for (const Scalar& value : {start, stop, step}) floats |= value.kind == Scalar::Kind::Float;
  const DType type = dtype.value_or(floats ? DType::F32 : DType::I32);
  const double from = start.number.real(), to = stop.number.real(), by = step.number.real();
  if (by == 0) throw_user("arange: the step is 0");
  const double steps = std::max(0.0, std::ceil((to - from) / by));
  if (!(steps < 0x1p59))
    throw_user("arange: from {} to {} by {} are {} numbers, more than any memory holds", from, to,
               by, steps);
  const auto count = static_cast<int64_t>(steps);
  if (!is_float(type)) {
    Tensor index = iota({count}, 0, type);
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
