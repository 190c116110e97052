#include <cmath>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/ops/chlo/family.h"
#include "cleave/ops/diff_util.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

constexpr double kTwoOverRootPi = 2 * std::numbers::inv_sqrtpi;
constexpr double kHalfRootPi = 1 / kTwoOverRootPi;

Expr polygamma(Expr n, Expr x) { return binary("chlo.polygamma", n, x); }

// I0e by I1e: (x I1)' = x I0, so I0 = I1' + I1/x; as a series of its own it converges for all x:
// I0(x) is the mean of exp(x cos t). The trapezoid rule over a period is exact up to the terms
// I_2n(x), which vanish below 1e-16 for |x| < 16 and n = 32; beyond, the asymptotic series.
Expr bessel_i0e(Expr x) {
  const Expr size = abs(x);
  constexpr int kPoints = 32;
  Expr small = zeros_like(x);
  for (int k = 0; k < kPoints; ++k) {
    const double cosine = std::cos(2 * std::numbers::pi * (k + 0.5) / (2 * kPoints));
    small = small + exp(size * (cosine - 1));
  }
  small = small / double{kPoints};
  const Expr large_size = select(compare("LT", size, 16.0), number_like(16, size), size);
  Expr term = number_like(1, x), series = term;
  for (int k = 1; k <= 20; ++k) {
    const double odd = 2.0 * k - 1;
    term = term * (odd * odd / (8.0 * k)) / large_size;
    series = series + term;
  }
  const Expr large = series * rsqrt(2 * std::numbers::pi * large_size);
  return select(compare("LT", size, 16.0), small, large);
}
Expr bessel_i1e_derivative(Expr x, Expr y) {
  const Expr at_zero = compare("LT", abs(x), 1e-30);
  const Expr safe = select(at_zero, number_like(1, x), x);
  const Expr slope = bessel_i0e(x) - y * (sign(x) + 1.0 / safe);
  return select(at_zero, number_like(0.5, x), slope);
}

std::vector<ValueId> jvp_polygamma(const DiffContext& c, std::span<const ValueId> t) {
  require(!t[0].valid(), c.node, "has no derivative by its order");
  if (!t[1].valid()) return {ValueId{}};
  return {expr(c.b, t[1]) * polygamma(operand_expr(c, 0) + 1.0, operand_expr(c, 1))};
}
std::vector<ValueId> vjp_polygamma(const DiffContext& c, std::span<const ValueId> ct) {
  require(!c.wants(0), c.node, "has no derivative by its order");
  return {ValueId{}, expr(c.b, ct[0]) * polygamma(operand_expr(c, 0) + 1.0, operand_expr(c, 1))};
}
Expr zeta_slope(const DiffContext& c) {
  const Expr x = operand_expr(c, 0);
  return -(x * binary("chlo.zeta", x + 1.0, operand_expr(c, 1)));
}
std::vector<ValueId> jvp_zeta(const DiffContext& c, std::span<const ValueId> t) {
  require(!t[0].valid(), c.node, "has no derivative by its exponent");
  if (!t[1].valid()) return {ValueId{}};
  return {expr(c.b, t[1]) * zeta_slope(c)};
}
std::vector<ValueId> vjp_zeta(const DiffContext& c, std::span<const ValueId> ct) {
  require(!c.wants(0), c.node, "has no derivative by its exponent");
  return {ValueId{}, expr(c.b, ct[0]) * zeta_slope(c)};
}

std::vector<ValueId> vjp_conj(const DiffContext& c, std::span<const ValueId> ct) {
  return {c.b.emit("chlo.conj", {ct[0]})};
}

// ---- top_k: the elements that its indices name

std::vector<ValueId> jvp_top_k(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid()) return {ValueId{}, ValueId{}};
  const auto dim = static_cast<int64_t>(operand_expr(c).shape().size()) - 1;
  return {take_along(expr(c.b, t[0]), result_expr(c, 1), dim), ValueId{}};
}
std::vector<ValueId> vjp_top_k(const DiffContext& c, std::span<const ValueId> ct) {
  if (!ct[0].valid()) return {ValueId{}};
  const Shape shape = operand_expr(c).shape();
  const auto dim = static_cast<int64_t>(shape.size()) - 1;
  return {put_along(expr(c.b, ct[0]), result_expr(c, 1), dim, shape)};
}

// ---- ragged_dot

std::vector<ValueId> jvp_ragged_dot(const DiffContext& c, std::span<const ValueId> t) {
  ValueId total;
  if (t[0].valid()) total = reemit(c.b, c.node, {t[0], c.operand(1), c.operand(2)})[0];
  if (t[1].valid())
    total = add_tangents(c.b, total, reemit(c.b, c.node, {c.operand(0), t[1], c.operand(2)})[0]);
  return {total};
}
Expr emit_ragged(const DiffContext& c, const RaggedDotDims& numbers, ValueId lhs, ValueId rhs) {
  AttrDict attrs = c.node.attrs;
  attrs.set(kRaggedDotDims, ragged_dot_dims_attr(numbers));
  return {&c.b, c.b.emit("chlo.ragged_dot", {lhs, rhs, c.operand(2)}, std::move(attrs))};
}

// One product per group, [m, k], [m, n] -> [g, k, n], rows of a group with each other. Rows of an
// operand get those of the other one times the cotangent of their group.
std::vector<ValueId> vjp_ragged_products(const DiffContext& c, const RaggedDotDims& n, ValueId ct) {
  auto back = [&](size_t mine) {
    const int64_t my_rows = mine == 0 ? n.dot.lhs_contract[0] : n.dot.rhs_contract[0];
    const int64_t other_rows = mine == 0 ? n.dot.rhs_contract[0] : n.dot.lhs_contract[0];
    RaggedDotDims to = n;
    to.ragged = {other_rows};
    to.dot.lhs_contract = {1 - other_rows};
    to.dot.rhs_contract = {mine == 0 ? 2 : 1};
    to.group = {0};
    const Expr rows = emit_ragged(c, to, c.operand(1 - mine), ct);
    return my_rows == 0 ? rows : transpose(rows, {1, 0});
  };
  return {c.wants(0) ? back(0).id : ValueId{}, c.wants(1) ? back(1).id : ValueId{}, ValueId{}};
}

// Rows that meet the matrix of their group: [m, k], [g, k, n] -> [m, n], any order of dimensions,
// without batch.
std::vector<ValueId> vjp_ragged_dot(const DiffContext& c, std::span<const ValueId> ct) {
  const RaggedDotDims n = ragged_dot_dims(c.node);
  if (n.dot.lhs_batch.empty() && n.group.empty() && n.dot.lhs_contract == n.ragged &&
      operand_expr(c, 0).shape().size() == 2 && operand_expr(c, 1).shape().size() == 2)
    return vjp_ragged_products(c, n, ct[0]);
  require(
      n.dot.lhs_batch.empty() && n.group.size() == 1 && n.dot.lhs_contract.size() == 1 &&
          operand_expr(c, 0).shape().size() == 2 && operand_expr(c, 1).shape().size() == 3,
      c.node,
      "has a reverse derivative for [m, k], [g, k, n] -> [m, n] and [m, k], [m, n] -> [g, k, n] "
      "alone");
  const Expr g = expr(c.b, ct[0]);
  const int64_t ragged = n.ragged[0], group = n.group[0];
  const int64_t rhs_k = n.dot.rhs_contract[0], rhs_n = 3 - group - rhs_k;
  ValueId lhs, rhs;
  if (c.wants(0)) {
    RaggedDotDims to_lhs = n;
    to_lhs.dot.lhs_contract = {1};
    to_lhs.dot.rhs_contract = {rhs_n};
    to_lhs.ragged = {0};
    const Expr rows = emit_ragged(c, to_lhs, g, c.operand(1));  // [m, k]
    lhs = ragged == 0 ? rows : transpose(rows, {1, 0});
  }
  if (c.wants(1)) {
    RaggedDotDims to_rhs = n;
    to_rhs.dot.lhs_contract = {ragged};
    to_rhs.dot.rhs_contract = {0};
    to_rhs.ragged = {ragged};
    to_rhs.group = {};
    const Expr products = emit_ragged(c, to_rhs, c.operand(0), g);  // [g, k, n]
    std::vector<int64_t> order(3);
    order[group] = 0;
    order[rhs_k] = 1;
    order[rhs_n] = 2;
    rhs = transpose(products, order);
  }
  return {lhs, rhs, ValueId{}};
}

}  // namespace

void add_chlo_derivatives(OpRegistry& r) {
  set_unary<[](Expr x, Expr) { return -1.0 / sqrt(1.0 - x * x); }>(r, "chlo.acos");
  set_unary<[](Expr x, Expr) { return 1.0 / (sqrt(x - 1.0) * sqrt(x + 1.0)); }>(r, "chlo.acosh");
  set_unary<[](Expr x, Expr) { return 1.0 / sqrt(1.0 - x * x); }>(r, "chlo.asin");
  set_unary<[](Expr x, Expr) { return 1.0 / sqrt(1.0 + x * x); }>(r, "chlo.asinh");
  set_unary<[](Expr x, Expr) { return 1.0 / (1.0 + x * x); }>(r, "chlo.atan");
  set_unary<[](Expr x, Expr) { return 1.0 / (1.0 - x * x); }>(r, "chlo.atanh");
  set_unary<[](Expr x, Expr) { return unary("chlo.sinh", x); }>(r, "chlo.cosh");
  set_unary<[](Expr x, Expr) { return unary("chlo.cosh", x); }>(r, "chlo.sinh");
  set_unary<[](Expr, Expr y) { return 1.0 + y * y; }>(r, "chlo.tan");
  set_unary<bessel_i1e_derivative>(r, "chlo.bessel_i1e");
  set_unary<[](Expr x, Expr) { return polygamma(number_like(1, x), x); }>(r, "chlo.digamma");
  set_unary<[](Expr x, Expr) { return kTwoOverRootPi * exp(-(x * x)); }>(r, "chlo.erf");
  set_unary<[](Expr x, Expr) { return -kTwoOverRootPi * exp(-(x * x)); }>(r, "chlo.erfc");
  set_unary<[](Expr, Expr y) { return kHalfRootPi * exp(y * y); }>(r, "chlo.erf_inv");
  set_unary<[](Expr x, Expr) { return unary("chlo.digamma", x); }>(r, "chlo.lgamma");
  set_unary<[](Expr x, Expr) { return 2.0 * x; }>(r, "chlo.square");
  for (const char* name :
       {"chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf", "chlo.constant_like"})
    set_zero(r, name);
  set_linear(r, "chlo.conj", vjp_conj);
  auto set = [&](const char* name, JvpFn jvp, VjpFn vjp) {
    r.extend(name, [&](OpDef& def) {
      def.jvp = jvp;
      def.vjp = vjp;
    });
  };
  set("chlo.polygamma", jvp_polygamma, vjp_polygamma);
  set("chlo.zeta", jvp_zeta, vjp_zeta);
  set("chlo.top_k", jvp_top_k, vjp_top_k);
  set("chlo.ragged_dot", jvp_ragged_dot, vjp_ragged_dot);
}

}  // namespace cleave
