#include "cleave/runtime/ops_linalg.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

}  // namespace

ValueId emit_dot(GraphBuilder& b, ValueId x, ValueId y, const DotDims& dims) {
  Shape shape;
  const Shape &p = b.shape(x), &q = b.shape(y);
  auto is_in = [](int64_t d, const std::vector<int64_t>& list) {
    return std::find(list.begin(), list.end(), d) != list.end();
  };
  for (int64_t d : dims.lhs_batch) shape.push_back(p[d]);
  for (int64_t d = 0; d < static_cast<int64_t>(p.size()); ++d)
    if (!is_in(d, dims.lhs_batch) && !is_in(d, dims.lhs_contract)) shape.push_back(p[d]);
  for (int64_t d = 0; d < static_cast<int64_t>(q.size()); ++d)
    if (!is_in(d, dims.rhs_batch) && !is_in(d, dims.rhs_contract)) shape.push_back(q[d]);
  return b.emit_as(Type::tensor(b.dtype(x), std::move(shape)), "stablehlo.dot_general", {x, y},
                   dot_attrs(dims));
}

namespace {

Values matmul_form(GraphBuilder& b, Params) {
  const DType dtype = promote(b.dtype(b.arg(0)), b.dtype(b.arg(1)));
  ValueId x = cast_to(b, b.arg(0), dtype), y = cast_to(b, b.arg(1), dtype);
  const auto rank_x = static_cast<int64_t>(b.shape(x).size());
  const auto rank_y = static_cast<int64_t>(b.shape(y).size());
  if (rank_x == 0 || rank_y == 0)
    throw_user("matmul: <{}> x <{}>: a scalar has no dimension to contract; use mul",
               to_string(b.shape(x)), to_string(b.shape(y)));
  const int64_t k_x = rank_x - 1, k_y = rank_y == 1 ? 0 : rank_y - 2;
  if (b.shape(x)[k_x] != b.shape(y)[k_y])
    throw_user("matmul: <{}> x <{}>: the contracted dimensions are {} and {}; transpose one?",
               to_string(b.shape(x)), to_string(b.shape(y)), b.shape(x)[k_x], b.shape(y)[k_y]);
  // Batch dimensions that only one side has stay with that side where the other has none.
  const Shape batch_x(b.shape(x).begin(), b.shape(x).end() - std::min<int64_t>(rank_x, 2));
  const Shape batch_y(b.shape(y).begin(), b.shape(y).end() - std::min<int64_t>(rank_y, 2));
  if (batch_y.empty()) return {emit_dot(b, x, y, {{}, {}, {k_x}, {k_y}})};
  const Shape batch = broadcast_shapes("matmul", batch_x, batch_y);
  auto with_batch = [&](ValueId value, int64_t rank) {
    Shape shape = batch;
    const Shape& own = b.shape(value);
    shape.insert(shape.end(), own.end() - std::min<int64_t>(rank, 2), own.end());
    return stretch(b, value, shape);
  };
  x = with_batch(x, rank_x);
  y = with_batch(y, rank_y);
  std::vector<int64_t> dims(batch.size());
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i);
  const auto n = static_cast<int64_t>(batch.size());
  return {emit_dot(b, x, y, {dims, dims, {rank_x == 1 ? n : n + 1}, {n}})};
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) {
  const Tensor operands[] = {a, b};
  return record_one(matmul_form, {}, operands);
}

Tensor outer(const Tensor& a, const Tensor& b) {
  if (a.rank() != 1 || b.rank() != 1)
    throw_user("outer: <{}> and <{}> must be vectors", to_string(a.shape()), to_string(b.shape()));
  return einsum("i,j->ij", {a, b});
}

Tensor cholesky(const Tensor& a, bool lower) {
  const int64_t params[] = {lower};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        AttrDict attrs;
        attrs.set("lower", params[0] != 0);
        const ValueId factor = b.emit("stablehlo.cholesky", {b.arg(0)}, std::move(attrs));
        return {factor};
      },
      params, {&a, 1});
}

Tensor triangular_solve(const Tensor& a, const Tensor& b, const SolveOptions& options) {
  const int64_t params[] = {options.left, options.lower, options.unit_diagonal, options.transpose};
  const Tensor operands[] = {a, b};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        AttrDict attrs;
        attrs.set("left_side", params[0] != 0);
        attrs.set("lower", params[1] != 0);
        attrs.set("unit_diagonal", params[2] != 0);
        attrs.set("transpose_a",
                  EnumAttr{"stablehlo.transpose", params[3] ? "TRANSPOSE" : "NO_TRANSPOSE"});
        return {b.emit("stablehlo.triangular_solve", {b.arg(0), b.arg(1)}, std::move(attrs))};
      },
      params, operands);
}

namespace {

Tensor transform(const char* name, int64_t kind, const Tensor& x, DType input, int64_t length) {
  if (x.rank() == 0) throw_user("{}: a scalar has no last dimension", name);
  const int64_t params[] = {kind, length, static_cast<int64_t>(input)};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        static constexpr const char* kKinds[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
        AttrDict attrs;
        attrs.set("fft_type", EnumAttr{"stablehlo.fft_type", kKinds[params[0]]});
        attrs.set("fft_length", ints_attr({params[1]}));
        return {b.emit("stablehlo.fft", {cast_to(b, b.arg(0), static_cast<DType>(params[2]))},
                       std::move(attrs))};
      },
      params, {&x, 1});
}

DType complex_type(DType dtype) {
  return dtype == DType::F64 || dtype == DType::C128 ? DType::C128 : DType::C64;
}

}  // namespace

Tensor fft(const Tensor& x) {
  return transform("fft", 0, x, complex_type(x.dtype()), x.rank() ? x.dim(-1) : 0);
}
Tensor ifft(const Tensor& x) {
  return transform("ifft", 1, x, complex_type(x.dtype()), x.rank() ? x.dim(-1) : 0);
}
Tensor rfft(const Tensor& x) {
  if (is_complex(x.dtype()))
    throw_user("rfft: takes real numbers, got {}; use fft, or take the real part",
               to_string(x.type()));
  return transform("rfft", 2, x, x.dtype() == DType::F64 ? DType::F64 : DType::F32,
                   x.rank() ? x.dim(-1) : 0);
}
Tensor irfft(const Tensor& x, int64_t length) {
  if (length < 1) throw_user("irfft: a length of {}; it must be at least 1", length);
  return transform("irfft", 3, x, complex_type(x.dtype()), length);
}

}  // namespace cleave
