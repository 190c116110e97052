#include "cleave/runtime/ops_factorize.h"

#include <algorithm>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/ops/custom_call/custom_call.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_index.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/stopped.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

// In a type that LAPACK knows.
Tensor as_matrices(std::string_view op, const Tensor& a, bool square) {
  if (a.rank() < 2 || (square && a.dim(-1) != a.dim(-2)))
    throw_user("{}: takes {}matrices [..., {}], got tensor<{}>", op, square ? "square " : "",
               square ? "n, n" : "m, n", to_string(a.shape()));
  const DType dtype = real_type(a.dtype());
  if (!is_complex(dtype) && dtype != DType::F32 && dtype != DType::F64)
    throw_user("{}: matrices of {} have no kernel; cast them to f32", op, name(dtype));
  return cast(a, dtype);
}

Tensor adjoint_of(const Tensor& a) {
  const Tensor swapped = swap_dims(a, -1, -2);
  return is_complex(a.dtype()) ? conj(swapped) : swapped;
}

// A routine of LAPACK as JAX names it for CPUs, with the letters of its configuration. The batch
// may be split.
Values call(GraphBuilder& b, const std::string& target, Values operands, std::vector<Type> types,
            std::initializer_list<std::pair<const char*, char>> letters = {}) {
  AttrDict attrs, config;
  for (const auto& [name, letter] : letters) config.set(name, int_attr(letter, DType::U8));
  attrs.set("call_target_name", string_attr(target));
  attrs.set("mhlo.backend_config", DictAttr{std::move(config)});
  std::vector<Shape> in, out;
  for (ValueId operand : operands) in.push_back(b.shape(operand));
  for (const Type& type : types) out.push_back(type.shape);
  attrs.set("sdy.sharding_rule", ShardingRuleAttr{std::make_shared<const OpShardingRule>(
                                     matrix_call_rule(in, out, in[0].size() - 2))});
  Graph& graph = b.graph();
  const NodeId node =
      graph.add_node("stablehlo.custom_call", std::move(operands), std::move(types), attrs);
  graph.append(b.region(), node);
  return graph.node(node).results;
}

std::string lapack(DType dtype, const char* real, const char* complex) {
  const char letter = dtype == DType::F32   ? 's'
                      : dtype == DType::F64 ? 'd'
                      : dtype == DType::C64 ? 'c'
                                            : 'z';
  return fmt::format("lapack_{}{}_ffi", letter, is_complex(dtype) ? complex : real);
}

// Dimensions before the matrices, then others.
Shape behind_batch(const Shape& matrices, std::initializer_list<int64_t> rest) {
  Shape shape(matrices.begin(), matrices.end() - 2);
  shape.insert(shape.end(), rest);
  return shape;
}

// NaNs in place of results of matrices for which LAPACK failed.
ValueId where_done(GraphBuilder& b, ValueId result, ValueId info) {
  const Shape shape = b.shape(result);
  std::vector<int64_t> dims(b.shape(info).size());
  for (size_t d = 0; d < dims.size(); ++d) dims[d] = static_cast<int64_t>(d);
  const ValueId done = b.compare("EQ", info, b.constant_like(0, info));
  const ValueId nan = b.constant_like(std::numeric_limits<double>::quiet_NaN(), result);
  return b.emit("stablehlo.select", {b.broadcast(done, shape, dims), result, nan});
}

Values lu_form(GraphBuilder& b, Params) {
  const ValueId a = b.arg(0);
  const Shape shape = b.shape(a);
  const int64_t m = shape[shape.size() - 2], n = shape.back();
  const Values parts =
      call(b, "LuDecomposition", {a},
           {b.type(a), Type::tensor(DType::I32, behind_batch(shape, {std::min(m, n)})),
            Type::tensor(DType::I32, behind_batch(shape, {m}))});
  return {parts[0], parts[2], parts[1]};
}

// params: the number of columns of q.
Values qr_form(GraphBuilder& b, Params params) {
  const ValueId a = b.arg(0);
  const DType dtype = b.dtype(a);
  const Shape shape = b.shape(a);
  const int64_t m = shape[shape.size() - 2], n = shape.back(), k = params[0];
  const Type taus = Type::tensor(dtype, behind_batch(shape, {std::min(m, n)}));
  const Values packed = call(b, lapack(dtype, "geqrf", "geqrf"), {a}, {b.type(a), taus});
  // orgqr takes reflectors in as many columns as q has.
  ValueId reflectors = packed[0];
  std::vector<int64_t> none(shape.size(), 0), limit = shape, high = none;
  if (k < n) {
    limit.back() = k;
    reflectors = b.slice(reflectors, none, limit);
  } else if (k > n) {
    high.back() = k - n;
    AttrDict attrs;
    attrs.set("edge_padding_low", ints_attr(none));
    attrs.set("edge_padding_high", ints_attr(high));
    attrs.set("interior_padding", ints_attr(none));
    reflectors = b.emit("stablehlo.pad", {reflectors, b.constant(0, dtype)}, std::move(attrs));
  }
  const Values q = call(b, lapack(dtype, "orgqr", "ungqr"), {reflectors, packed[1]},
                        {Type::tensor(dtype, behind_batch(shape, {m, k}))});
  limit = shape;
  limit[shape.size() - 2] = k;
  return {q[0], b.slice(packed[0], none, limit)};
}

// params: full.
Values svd_form(GraphBuilder& b, Params params) {
  const ValueId a = b.arg(0);
  const DType dtype = b.dtype(a);
  const Shape shape = b.shape(a);
  const int64_t m = shape[shape.size() - 2], n = shape.back(), k = std::min(m, n);
  const bool full = params[0];
  const Values parts =
      call(b, lapack(dtype, "gesdd", "gesdd"), {a},
           {b.type(a), Type::tensor(real_part_type(dtype), behind_batch(shape, {k})),
            Type::tensor(dtype, behind_batch(shape, {m, full ? m : k})),
            Type::tensor(dtype, behind_batch(shape, {full ? n : k, n})),
            Type::tensor(DType::I32, behind_batch(shape, {}))},
           {{"mode", full ? 'A' : 'S'}});
  return {where_done(b, parts[2], parts[4]), where_done(b, parts[1], parts[4]),
          where_done(b, parts[3], parts[4])};
}

Values eigh_form(GraphBuilder& b, Params) {
  const ValueId a = b.arg(0);
  const DType dtype = b.dtype(a);
  const Shape shape = b.shape(a);
  const Values parts =
      call(b, lapack(dtype, "syevd", "heevd"), {a},
           {b.type(a), Type::tensor(real_part_type(dtype), behind_batch(shape, {shape.back()})),
            Type::tensor(DType::I32, behind_batch(shape, {}))},
           {{"mode", 'V'}, {"uplo", 'L'}});
  return {where_done(b, parts[1], parts[2]), where_done(b, parts[0], parts[2])};
}

Tensor diagonal_entries(const Tensor& a) {
  return sum(where(cast(eye(a.dim(-2), a.dim(-1)), DType::Bool), a, 0), {-1});
}

// The sign of the permutation that the swaps of rows make: -1 for an odd number of them.
Tensor parity(const Tensor& swaps, DType dtype) {
  const Tensor moved = sum(swaps != iota(swaps.shape(), swaps.rank() - 1), {-1});
  return cast(1 - 2 * (moved % 2), dtype);
}

std::vector<Tensor> lu_parts(const Tensor& a) { return record(lu_form, {}, {&a, 1}); }

// The value of `exact`, with the derivatives of `smooth`, which differs from it by rounding alone
// (or is not finite, of a singular matrix).
Tensor with_derivatives(const Tensor& exact, const Tensor& smooth) {
  const Tensor none = smooth - stopped(smooth);
  return exact + where(is_finite(abs(none)), none, 0);
}

Tensor lu_det(const std::vector<Tensor>& parts) {
  return prod(diagonal_entries(parts[0]), {-1}) * parity(parts[2], parts[0].dtype());
}

// The determinant as a function that has derivatives at singular matrices too. With l and the order
// of rows held still, l^-1 P a is u = [[u1, c], [0, s]], and its determinant is that of u1 times
// (s - row u1^-1 c), which divides by no s. A matrix with a 0 among the other pivots gets no
// derivative: adj(a) is 0 if its rank is below n - 1.
Tensor smooth_det(const Tensor& a, const std::vector<Tensor>& parts) {
  const int64_t last = a.dim(-1) - 1;
  const Tensor factors = stopped(parts[0]);
  const Tensor rows = broadcast_to(expand_dims(parts[1], parts[1].rank()), a.shape());
  const Tensor permuted = take_along(a, rows, -2);
  const Tensor u = triangular_solve(factors, permuted, {.unit_diagonal = true});
  const Tensor pivots = slice_dim(diagonal_entries(factors), -1, 0, last);
  const Tensor row = all(pivots != 0, {-1}, true);  // [..., 1]
  const Tensor good = expand_dims(row, row.rank());
  auto block = [&](int64_t i, int64_t j) {
    const Tensor from = i == 0 ? slice_dim(u, -2, 0, last) : slice_dim(u, -2, last);
    return j == 0 ? slice_dim(from, -1, 0, last) : slice_dim(from, -1, last);
  };
  const Tensor u1 = where(good, block(0, 0), eye(last, {}, a.dtype()));
  const Tensor rest = block(1, 1) - matmul(block(1, 0), solve(u1, block(0, 1)));
  const Tensor whole = lu_det(lu_parts(u1)) * rest(ellipsis, 0, 0);
  return where(row(ellipsis, 0), whole, 0) * parity(parts[2], a.dtype());
}

double precision_of(DType dtype) {
  const bool wide = real_part_type(dtype) == DType::F64;
  return wide ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

// 1 / s, and 0 for singular values that count as 0.
Tensor inverse_values(const Tensor& s, const Tensor& counts, DType dtype) {
  return cast(where(counts, 1 / where(counts, s, 1), 0), dtype);
}

Tensor large_values(const Tensor& s, const Tensor& a, std::optional<double> rcond, double factor) {
  const double most =
      rcond && *rcond >= 0
          ? *rcond
          : factor * precision_of(a.dtype()) * static_cast<double>(std::max(a.dim(-1), a.dim(-2)));
  return s > 0 && s >= max(s, {-1}, true) * most;
}

}  // namespace

Lu lu_factor(const Tensor& a) {
  const std::vector<Tensor> parts = lu_parts(as_matrices("lu_factor", a, false));
  return {parts[0], parts[1]};
}

Tensor solve(const Tensor& a, const Tensor& b) {
  const DType dtype = promote(real_type(a.dtype()), real_type(b.dtype()));
  const Tensor matrix = as_matrices("solve", cast(a, dtype), true);
  const bool is_vector = b.rank() == 1;
  if (b.rank() == 0 || b.dim(is_vector ? 0 : -2) != a.dim(-1))
    throw_user("solve: <{}> x = <{}>: right sides are [{}] or [..., {}, k]", to_string(a.shape()),
               to_string(b.shape()), a.dim(-1), a.dim(-1));
  const Tensor columns = cast(is_vector ? expand_dims(b, 1) : b, dtype);
  const Shape batch = broadcast_shapes("solve", Shape(a.shape().begin(), a.shape().end() - 2),
                                       Shape(columns.shape().begin(), columns.shape().end() - 2));
  auto with_batch = [&](const Tensor& x, int64_t rows, int64_t size) {
    Shape shape = batch;
    shape.insert(shape.end(), {rows, size});
    return x.shape() == shape ? x : broadcast_to(x, shape);
  };
  const int64_t n = a.dim(-1), k = columns.dim(-1);
  const std::vector<Tensor> parts = lu_parts(matrix);
  const Tensor factors = with_batch(parts[0], n, n);
  const Tensor rows = with_batch(expand_dims(parts[1], parts[1].rank()), n, k);
  const Tensor permuted = take_along(with_batch(columns, n, k), rows, -2);
  const Tensor lower = triangular_solve(factors, permuted, {.unit_diagonal = true});
  const Tensor x = triangular_solve(factors, lower, {.lower = false});
  return is_vector ? squeeze(x, {-1}) : x;
}

Tensor inv(const Tensor& a) {
  const Tensor matrix = as_matrices("inv", a, true);
  return solve(matrix, broadcast_to(eye(a.dim(-1), {}, matrix.dtype()), a.shape()));
}

Tensor det(const Tensor& a) {
  const Tensor x = as_matrices("det", a, true);
  const int64_t n = a.dim(-1);
  auto at = [&](int64_t i, int64_t j) { return x(ellipsis, i, j); };
  if (n == 1) return at(0, 0);
  if (n == 2) return at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0);
  if (n == 3)
    return at(0, 0) * (at(1, 1) * at(2, 2) - at(1, 2) * at(2, 1)) -
           at(0, 1) * (at(1, 0) * at(2, 2) - at(1, 2) * at(2, 0)) +
           at(0, 2) * (at(1, 0) * at(2, 1) - at(1, 1) * at(2, 0));
  const bool is_traced = a.size() > 0 && (x.is_traced() || trace_level() != 0);
  const std::vector<Tensor> parts = lu_parts(is_traced ? stopped(x) : x);
  return is_traced ? with_derivatives(lu_det(parts), smooth_det(x, parts)) : lu_det(parts);
}

LogDet slogdet(const Tensor& a) {
  const Tensor x = as_matrices("slogdet", a, true);
  const std::vector<Tensor> parts = lu_parts(x);
  const Tensor entries = diagonal_entries(parts[0]);
  return {prod(sign(entries), {-1}) * parity(parts[2], x.dtype()), sum(log(abs(entries)), {-1})};
}

namespace {

// LAPACK's factors, differentiated in few ops. With r held still, a r^-1 has columns that are
// orthonormal but for rounding, so Cholesky's factor l of their products is the identity, and
// q = a r^-1 l^-H, r = l^H r are the factors of `a` as functions of `a`, to every order.
Qr smooth_qr(const Tensor& a, const Tensor& q, const Tensor& r) {
  const int64_t k = q.dim(-1);
  const Tensor left = slice_dim(a, -1, 0, k), still = stopped(slice_dim(r, -1, 0, k));
  const Tensor near = triangular_solve(still, left, {.left = false, .lower = false});
  const Tensor products = matmul(adjoint_of(near), near);
  const Tensor l = tril(cholesky((products + adjoint_of(products)) / 2));
  const Tensor upper = adjoint_of(l);
  const Tensor columns = triangular_solve(upper, near, {.left = false, .lower = false});
  Tensor rows = matmul(upper, still);
  if (a.dim(-1) > k) rows = concat({rows, matmul(adjoint_of(columns), slice_dim(a, -1, k))}, -1);
  return {with_derivatives(q, columns), with_derivatives(r, rows)};
}

}  // namespace

Qr qr(const Tensor& a, bool full) {
  const Tensor x = as_matrices("qr", a, false);
  const int64_t params[] = {full ? a.dim(-2) : std::min(a.dim(-2), a.dim(-1))};
  const bool is_smooth = params[0] <= a.dim(-1) && a.size() > 0;
  const bool is_traced = is_smooth && (x.is_traced() || trace_level() != 0);
  const Tensor factored = is_traced ? stopped(x) : x;
  const std::vector<Tensor> parts = record(qr_form, params, {&factored, 1});
  const Tensor r = triu(parts[1]);
  return is_traced ? smooth_qr(x, parts[0], r) : Qr{parts[0], r};
}

Svd svd(const Tensor& a, bool full) {
  const Tensor x = as_matrices("svd", a, false);
  const int64_t params[] = {full};
  const std::vector<Tensor> parts = record(svd_form, params, {&x, 1});
  return {parts[0], parts[1], parts[2]};
}
Tensor svdvals(const Tensor& a) { return svd(a).s; }

Eigh eigh(const Tensor& a) {
  const Tensor x = as_matrices("eigh", a, true);
  const Tensor even = (x + adjoint_of(x)) / 2;
  const std::vector<Tensor> parts = record(eigh_form, {}, {&even, 1});
  return {parts[0], parts[1]};
}
Tensor eigvalsh(const Tensor& a) { return eigh(a).values; }

LeastSquares lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond) {
  const DType dtype = promote(real_type(a.dtype()), real_type(b.dtype()));
  const bool is_vector = b.rank() == 1;
  if (a.rank() != 2 || b.rank() == 0 || b.rank() > 2 || a.dim(0) != b.dim(0) || a.size() == 0)
    throw_user("lstsq: <{}> x = <{}>: takes a matrix [m, n] and right sides [m] or [m, k]",
               to_string(a.shape()), to_string(b.shape()));
  const Tensor matrix = as_matrices("lstsq", cast(a, dtype), false);
  const Tensor columns = cast(is_vector ? expand_dims(b, 1) : b, dtype);
  const Svd parts = svd(matrix);
  const Tensor counts = large_values(parts.s, matrix, rcond, 1);
  const Tensor scale = expand_dims(inverse_values(parts.s, counts, dtype), 1);
  const Tensor x = matmul(adjoint_of(parts.vh), scale * matmul(adjoint_of(parts.u), columns));
  const Tensor residuals = sum(square(abs(columns - matmul(matrix, x))), {0});
  return {is_vector ? squeeze(x, {1}) : x, residuals, sum(counts), parts.s};
}

Tensor pinv(const Tensor& a, std::optional<double> rcond) {
  const Tensor x = as_matrices("pinv", a, false);
  if (x.size() == 0) return zeros_like(swap_dims(x, -1, -2));
  const Svd parts = svd(x);
  const Tensor counts = large_values(parts.s, x, rcond, 10);
  const Tensor scale = expand_dims(inverse_values(parts.s, counts, x.dtype()), parts.s.rank());
  return matmul(adjoint_of(parts.vh), scale * adjoint_of(parts.u));
}

Tensor matrix_power(const Tensor& a, int64_t exponent) {
  const Tensor x = as_matrices("matrix_power", a, true);
  if (exponent == 0) return broadcast_to(eye(x.dim(-1), {}, x.dtype()), x.shape());
  Tensor square = exponent < 0 ? inv(x) : x, result;
  for (uint64_t rest = exponent < 0 ? -static_cast<uint64_t>(exponent)
                                    : static_cast<uint64_t>(exponent);
       ;) {
    if (rest & 1) result = result.valid() ? matmul(result, square) : square;
    rest >>= 1;
    if (rest == 0) return result;
    square = matmul(square, square);
  }
}

}  // namespace cleave
