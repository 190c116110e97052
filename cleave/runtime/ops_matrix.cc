#include "cleave/runtime/ops_matrix.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_arrange.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_index.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

Tensor matrix_of_diagonal(const Tensor& x, int64_t k) {
  const int64_t size = x.dim(0) + std::abs(k);
  const Tensor columns = pad(x, {std::max<int64_t>(k, 0)}, {std::max<int64_t>(-k, 0)});
  const Shape shape{size, size};
  return where(iota(shape, 1) - iota(shape, 0) == k, broadcast_to(columns, shape), 0);
}

Tensor highest_of(const Tensor& x, bool highest) {
  const int64_t params[] = {static_cast<int64_t>(x.dtype()), highest};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const auto dtype = static_cast<DType>(params[0]);
        const bool wide = dtype == DType::F64;
        double most = wide ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
        if (dtype == DType::F16) most = 65504;
        if (dtype == DType::BF16) most = 0x1.fep127;
        return {b.constant(params[1] ? most : -most, dtype)};
      },
      params, {});
}

}  // namespace

Tensor diag(const Tensor& x, int64_t k) {
  if (x.rank() == 0) throw_user("diag: takes a vector or matrices, got a scalar");
  return x.rank() == 1 ? matrix_of_diagonal(x, k) : diagonal(x, k);
}

Tensor diagonal(const Tensor& x, int64_t k, int64_t row_dim, int64_t column_dim) {
  if (x.rank() < 2) throw_user("diagonal: tensor<{}> is no matrix", to_string(x.shape()));
  const int64_t row = checked_dim("diagonal", row_dim, x.rank());
  const int64_t column = checked_dim("diagonal", column_dim, x.rank());
  if (row == column) throw_user("diagonal: rows and columns are both dimension {}", row);
  std::vector<int64_t> order;
  for (int64_t d = 0; d < x.rank(); ++d)
    if (d != row && d != column) order.push_back(d);
  order.insert(order.end(), {row, column});
  const Tensor m = transpose(x, order);
  const int64_t skipped_rows = std::max<int64_t>(-k, 0), skipped = std::max<int64_t>(k, 0);
  const int64_t count =
      std::max<int64_t>(std::min(m.dim(-2) - skipped_rows, m.dim(-1) - skipped), 0);
  const Tensor i = arange(count);
  return m(ellipsis, i + skipped_rows, i + skipped);
}

Tensor trace_of(const Tensor& x, int64_t k) { return sum(diagonal(x, k), {-1}); }

Tensor vdot(const Tensor& a, const Tensor& b) {
  if (a.size() != b.size())
    throw_user("vdot: <{}> and <{}> have {} and {} elements", to_string(a.shape()),
               to_string(b.shape()), a.size(), b.size());
  return matmul(flatten(is_complex(a.dtype()) ? conj(a) : a), flatten(b));
}

Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) return a * b;
  if (a.dim(-1) != b.dim(-1))
    throw_user("inner: the last dimensions of <{}> and <{}> differ", to_string(a.shape()),
               to_string(b.shape()));
  const Tensor product =
      matmul(reshape(a, {-1, a.dim(-1)}), transpose(reshape(b, {-1, b.dim(-1)})));
  Shape shape(a.shape().begin(), a.shape().end() - 1);
  shape.insert(shape.end(), b.shape().begin(), b.shape().end() - 1);
  return reshape(product, shape);
}

Tensor kron(const Tensor& a, const Tensor& b) {
  if (a.rank() != b.rank())
    throw_user("kron: <{}> and <{}> must have one rank; reshape one", to_string(a.shape()),
               to_string(b.shape()));
  Shape outer_shape, inner_shape, shape;
  for (size_t d = 0; d < a.shape().size(); ++d) {
    outer_shape.insert(outer_shape.end(), {a.shape()[d], 1});
    inner_shape.insert(inner_shape.end(), {1, b.shape()[d]});
    shape.push_back(a.shape()[d] * b.shape()[d]);
  }
  return reshape(reshape(a, outer_shape) * reshape(b, inner_shape), shape);
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t dim) {
  const int64_t i = checked_dim("cross", dim, a.rank()), j = checked_dim("cross", dim, b.rank());
  if (a.dim(i) != 3 || b.dim(j) != 3)
    throw_user("cross: dimension {} of <{}> and <{}> must have size 3", dim, to_string(a.shape()),
               to_string(b.shape()));
  return roll(a, -1, i) * roll(b, 1, j) - roll(a, 1, i) * roll(b, -1, j);
}

std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, bool xy) {
  Shape shape;
  for (const Tensor& vector : vectors) {
    if (vector.rank() != 1)
      throw_user("meshgrid: takes vectors, got tensor<{}>", to_string(vector.shape()));
    shape.push_back(vector.dim(0));
  }
  const bool swapped = xy && shape.size() >= 2;
  std::vector<Tensor> grid;
  for (size_t i = 0; i < vectors.size(); ++i) {
    Shape own(shape.size(), 1);
    own[i] = shape[i];
    const Tensor one = broadcast_to(reshape(vectors[i], own), shape);
    grid.push_back(swapped ? swap_dims(one, 0, 1) : one);
  }
  return grid;
}

Tensor is_close(const Operand& first, const Operand& second, const CloseOptions& options) {
  const OperandPair pair = as_tensors(first, second);
  const DType dtype = real_type(promote(pair.values[0].dtype(), pair.values[1].dtype()));
  const Tensor a = cast(pair.values[0], dtype), b = cast(pair.values[1], dtype);
  const Tensor near = abs(a - b) <= abs(b) * options.relative + options.absolute;
  const Tensor both = is_finite(abs(a)) && is_finite(abs(b));
  const Tensor close = (near && both) || (a == b);
  return options.equal_nan ? close || (a != a && b != b) : close;
}
Tensor allclose(const Operand& a, const Operand& b, const CloseOptions& options) {
  return all(is_close(a, b, options));
}

Tensor exp2(const Tensor& x) { return exp(cast(x, real_type(x.dtype())) * std::numbers::ln2); }
Tensor log10(const Tensor& x) { return log(x) * (1 / std::numbers::ln10); }
Tensor trunc(const Tensor& x) { return where(x < 0, ceil(x), floor(x)); }

Tensor hypot(const Operand& first, const Operand& second) {
  const OperandPair pair = as_tensors(first, second);
  const DType dtype = real_type(promote(pair.values[0].dtype(), pair.values[1].dtype()));
  const Tensor a = abs(cast(pair.values[0], dtype)), b = abs(cast(pair.values[1], dtype));
  const Tensor large = maximum(a, b), small = minimum(a, b);
  const Tensor none = large == 0;
  const Tensor ratio = small / where(none, 1, large);
  return where(is_inf(large), large, large * sqrt(square(ratio) + 1));
}

Tensor lerp(const Tensor& a, const Tensor& b, const Operand& weight) {
  return a + mul(b - a, weight);
}

Tensor nan_to_num(const Tensor& x, double nan) {
  if (!is_float(x.dtype())) return x;
  const Tensor finite =
      where(is_finite(x), x, where(x > 0, highest_of(x, true), highest_of(x, false)));
  return where(is_nan(x), nan, finite);
}

Tensor xlogy(const Tensor& x, const Tensor& y) {
  const Tensor none = x == 0;
  return where(none, 0, x * log(where(none, 1, y)));
}

}  // namespace cleave
