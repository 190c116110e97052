#pragma once

#include <vector>

#include "cleave/graph/op_def.h"
#include "cleave/ops/expr.h"

// What derivative rules share. Complex numbers follow JAX: a cotangent is that of the linear map's
// transpose, without conjugation, so that grad of |z|^2 is 2 conj(z).
namespace cleave {

inline Expr operand_expr(const DiffContext& c, size_t i = 0) { return {&c.b, c.operand(i)}; }
inline Expr result_expr(const DiffContext& c, size_t i = 0) { return {&c.b, c.result(i)}; }

// The tangent, or a zero of the value's type if nothing computed one.
inline Expr materialize(const DiffContext& c, ValueId tangent, ValueId like) {
  return {&c.b, tangent.valid() ? tangent : c.b.constant_like(0, like)};
}
// The sum of two tangents, either of which may be zero.
inline ValueId add_tangents(GraphBuilder& b, ValueId x, ValueId y) {
  if (!x.valid()) return y;
  if (!y.valid()) return x;
  return b.emit("stablehlo.add", {x, y});
}

// ---- elementwise functions by their derivative: f(x, y) gives dy/dx

template <auto derivative>
std::vector<ValueId> jvp_unary(const DiffContext& c, std::span<const ValueId> tangents) {
  if (!tangents[0].valid()) return {ValueId{}};
  return {expr(c.b, tangents[0]) * derivative(operand_expr(c), result_expr(c))};
}
template <auto derivative>
std::vector<ValueId> vjp_unary(const DiffContext& c, std::span<const ValueId> cotangents) {
  return jvp_unary<derivative>(c, cotangents);
}
template <auto derivative>
void set_unary(OpRegistry& registry, const char* name) {
  registry.extend(name, [](OpDef& def) {
    def.jvp = jvp_unary<derivative>;
    def.vjp = vjp_unary<derivative>;
  });
}

// For functions of two arguments, each derivative is a function of (x, y, result).
template <auto dx, auto dy>
std::vector<ValueId> jvp_binary(const DiffContext& c, std::span<const ValueId> t) {
  const Expr x = operand_expr(c, 0), y = operand_expr(c, 1), r = result_expr(c);
  ValueId total;
  if (t[0].valid()) total = dx(expr(c.b, t[0]), x, y, r);
  if (t[1].valid()) total = add_tangents(c.b, total, dy(expr(c.b, t[1]), x, y, r));
  return {total};
}
template <auto dx, auto dy>
std::vector<ValueId> vjp_binary(const DiffContext& c, std::span<const ValueId> ct) {
  if (!ct[0].valid()) return {ValueId{}, ValueId{}};
  const Expr x = operand_expr(c, 0), y = operand_expr(c, 1), r = result_expr(c);
  const Expr g = expr(c.b, ct[0]);
  return {c.wants(0) ? dx(g, x, y, r).id : ValueId{}, c.wants(1) ? dy(g, x, y, r).id : ValueId{}};
}
// dx and dy take what comes in (a tangent or a cotangent) and x, y, result, and give it multiplied.
template <auto dx, auto dy>
void set_binary(OpRegistry& registry, const char* name) {
  registry.extend(name, [](OpDef& def) {
    def.jvp = jvp_binary<dx, dy>;
    def.vjp = vjp_binary<dx, dy>;
  });
}

// ---- ops that are linear in all of their float operands together

// The op itself, on tangents; integer operands stay.
std::vector<ValueId> jvp_linear(const DiffContext& c, std::span<const ValueId> tangents);
// Linear in each of two operands, as products and convolutions are: the op on one tangent at a
// time, added up.
std::vector<ValueId> jvp_bilinear(const DiffContext& c, std::span<const ValueId> tangents);
// The op is flat wherever it has a derivative: sign, floor.
std::vector<ValueId> jvp_zero(const DiffContext& c, std::span<const ValueId> tangents);
std::vector<ValueId> vjp_zero(const DiffContext& c, std::span<const ValueId> cotangents);
// Result i is operand i.
std::vector<ValueId> diff_identity(const DiffContext& c, std::span<const ValueId> tangents);

void set_linear(OpRegistry& registry, const char* name, VjpFn vjp);
void set_zero(OpRegistry& registry, const char* name);
// Ops that need no derivative, and why: a word that transforms/derivative_support.h explains.
void set_no_derivative(OpRegistry& registry, const char* why,
                       std::initializer_list<std::string_view> ops);

}  // namespace cleave
