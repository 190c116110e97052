#include "cleave/ops/diff_util.h"
#include "cleave/ops/elementwise/elementwise_util.h"
#include "cleave/ops/elementwise/family.h"

namespace cleave {
namespace {

// ---- functions of one variable

void add_functions(OpRegistry& r) {
  set_unary<[](Expr x, Expr y) { return y / (3.0 * x); }>(r, "stablehlo.cbrt");
  set_unary<[](Expr x, Expr) { return -sin(x); }>(r, "stablehlo.cosine");
  set_unary<[](Expr, Expr y) { return y; }>(r, "stablehlo.exponential");
  set_unary<[](Expr, Expr y) { return y + 1.0; }>(r, "stablehlo.exponential_minus_one");
  set_unary<[](Expr x, Expr) { return 1.0 / x; }>(r, "stablehlo.log");
  set_unary<[](Expr x, Expr) { return 1.0 / (1.0 + x); }>(r, "stablehlo.log_plus_one");
  set_unary<[](Expr, Expr y) { return y * (1.0 - y); }>(r, "stablehlo.logistic");
  set_unary<[](Expr x, Expr y) { return -0.5 * (y / x); }>(r, "stablehlo.rsqrt");
  set_unary<[](Expr x, Expr) { return cos(x); }>(r, "stablehlo.sine");
  set_unary<[](Expr, Expr y) { return 0.5 / y; }>(r, "stablehlo.sqrt");
  set_unary<[](Expr, Expr y) { return 1.0 + y * y; }>(r, "stablehlo.tan");
  set_unary<[](Expr, Expr y) { return 1.0 - y * y; }>(r, "stablehlo.tanh");
  for (const char* name :
       {"stablehlo.sign", "stablehlo.ceil", "stablehlo.floor", "stablehlo.round_nearest_afz",
        "stablehlo.round_nearest_even", "stablehlo.is_finite", "stablehlo.bitcast_convert"})
    set_zero(r, name);
}

std::vector<ValueId> vjp_negate(const DiffContext& c, std::span<const ValueId> ct) {
  return {-expr(c.b, ct[0])};
}

// |x| rises where x >= 0. Of a complex number, |z|' = Re(conj(z) z') / |z|.
Expr unit_conjugate(Expr z, Expr modulus) {
  const Expr safe = select(compare("EQ", modulus, 0.0), number_like(1, modulus), modulus);
  return conj(z) / complex(safe, zeros_like(safe));
}
std::vector<ValueId> jvp_abs(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid()) return {ValueId{}};
  const Expr x = operand_expr(c), g = expr(c.b, t[0]);
  if (is_complex(x.dtype())) return {real(g * unit_conjugate(x, result_expr(c)))};
  return {select(compare("GE", x, 0.0), g, -g)};
}
std::vector<ValueId> vjp_abs(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr x = operand_expr(c), g = expr(c.b, ct[0]);
  if (is_complex(x.dtype())) return {complex(g, zeros_like(g)) * unit_conjugate(x, result_expr(c))};
  return {select(compare("GE", x, 0.0), g, -g)};
}

// ---- complex and real

std::vector<ValueId> vjp_real(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr g = expr(c.b, ct[0]);
  return {is_complex(operand_expr(c).dtype()) ? complex(g, zeros_like(g)) : g};
}
std::vector<ValueId> vjp_imag(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr g = expr(c.b, ct[0]);
  if (!is_complex(operand_expr(c).dtype())) return {ValueId{}};
  return {complex(zeros_like(g), -g)};
}
std::vector<ValueId> vjp_complex(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr g = expr(c.b, ct[0]);
  return {real(g), -imag(g)};
}

// ---- types

std::vector<ValueId> jvp_convert(const DiffContext& c, std::span<const ValueId> t) {
  const DType to = c.b.dtype(c.result());
  if (!t[0].valid() || !(is_float(to) || is_complex(to))) return {ValueId{}};
  return {convert(expr(c.b, t[0]), to)};
}
std::vector<ValueId> vjp_convert(const DiffContext& c, std::span<const ValueId> ct) {
  Expr g = expr(c.b, ct[0]);
  const DType from = c.b.dtype(c.operand());
  if (!is_float(from) && !is_complex(from)) return {ValueId{}};
  if (is_complex(g.dtype()) && !is_complex(from)) g = real(g);
  return {convert(g, from)};
}
std::vector<ValueId> vjp_reduce_precision(const DiffContext& c, std::span<const ValueId> ct) {
  return reemit(c.b, c.node, {ct[0]});
}

// ---- functions of two variables: what comes in, times the derivative

Expr both_equal_halves(Expr g, Expr x, Expr y, const char* direction) {
  const Expr half = select(compare("EQ", x, y), number_like(0.5, x), 0.0);
  return g * select(compare(direction, x, y), number_like(1, x), half);
}
Expr ratio_rounded_to_zero(Expr x, Expr y) {
  const Expr ratio = x / y;
  return sign(ratio) * floor(abs(ratio));
}
// Powers of zero: no infinities where the derivative is wanted only along the other variable.
Expr power_by_base(Expr g, Expr x, Expr y, Expr) {
  const Expr no_power = compare("EQ", y, 0.0);
  const Expr less = select(no_power, number_like(1, y), y - 1.0);
  return g * select(no_power, zeros_like(y), y * power(x, less));
}
Expr power_by_exponent(Expr g, Expr x, Expr, Expr result) {
  const Expr safe = select(compare("EQ", x, 0.0), number_like(1, x), x);
  return g * (log(safe) * result);
}

void add_arithmetic(OpRegistry& r) {
  constexpr auto same = [](Expr g, Expr, Expr, Expr) { return g; };
  set_binary<same, same>(r, "stablehlo.add");
  set_binary<same, [](Expr g, Expr, Expr, Expr) { return -g; }>(r, "stablehlo.subtract");
  set_binary<[](Expr g, Expr, Expr y, Expr) { return g * y; },
             [](Expr g, Expr x, Expr, Expr) { return x * g; }>(r, "stablehlo.multiply");
  set_binary<[](Expr g, Expr, Expr y, Expr) { return g / y; },
             [](Expr g, Expr, Expr y, Expr q) { return -(g * (q / y)); }>(r, "stablehlo.divide");
  set_binary<same, [](Expr g, Expr x, Expr y, Expr) { return -(g * ratio_rounded_to_zero(x, y)); }>(
      r, "stablehlo.remainder");
  set_binary<[](Expr g, Expr x, Expr y, Expr) { return both_equal_halves(g, x, y, "GT"); },
             [](Expr g, Expr x, Expr y, Expr) { return both_equal_halves(g, y, x, "GT"); }>(
      r, "stablehlo.maximum");
  set_binary<[](Expr g, Expr x, Expr y, Expr) { return both_equal_halves(g, x, y, "LT"); },
             [](Expr g, Expr x, Expr y, Expr) { return both_equal_halves(g, y, x, "LT"); }>(
      r, "stablehlo.minimum");
  set_binary<[](Expr g, Expr y, Expr x, Expr) { return g * (x / (x * x + y * y)); },
             [](Expr g, Expr y, Expr x, Expr) { return -(g * (y / (x * x + y * y))); }>(
      r, "stablehlo.atan2");
  set_binary<power_by_base, power_by_exponent>(r, "stablehlo.power");
}

// ---- select, clamp

std::vector<ValueId> jvp_select(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[1].valid() && !t[2].valid()) return {ValueId{}};
  const Expr yes = materialize(c, t[1], c.operand(1)), no = materialize(c, t[2], c.operand(2));
  return {select(operand_expr(c, 0), yes, no)};
}
std::vector<ValueId> vjp_select(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr g = expr(c.b, ct[0]), condition = operand_expr(c, 0), zero = zeros_like(g);
  return {ValueId{}, c.wants(1) ? select(condition, g, zero).id : ValueId{},
          c.wants(2) ? select(condition, zero, g).id : ValueId{}};
}

struct ClampParts {
  Expr low, x, high;
  explicit ClampParts(const DiffContext& c) : x(operand_expr(c, 1)) {
    auto full = [&](size_t i) {
      const Expr bound = operand_expr(c, i);
      return bound.shape() == x.shape() ? bound : broadcast(bound, x.shape(), {});
    };
    low = full(0);
    high = full(2);
  }
  Expr inside(Expr g) const {
    const Expr above = compare("GT", x, low), below = compare("LT", x, high);
    return select(binary("stablehlo.and", above, below), g, 0.0);
  }
  Expr at_low(Expr g) const { return select(compare("GT", low, x), g, 0.0); }
  Expr at_high(Expr g) const { return select(compare("LT", high, x), g, 0.0); }
};
std::vector<ValueId> jvp_clamp(const DiffContext& c, std::span<const ValueId> t) {
  const ClampParts parts(c);
  auto full = [&](size_t i) {
    const Expr g = expr(c.b, t[i]);
    return g.shape() == parts.x.shape() ? g : broadcast(g, parts.x.shape(), {});
  };
  ValueId total;
  if (t[1].valid()) total = parts.inside(full(1));
  if (t[0].valid()) total = add_tangents(c.b, total, parts.at_low(full(0)));
  if (t[2].valid()) total = add_tangents(c.b, total, parts.at_high(full(2)));
  return {total};
}
std::vector<ValueId> vjp_clamp(const DiffContext& c, std::span<const ValueId> ct) {
  const ClampParts parts(c);
  const Expr g = expr(c.b, ct[0]);
  auto reduced = [&](size_t i, Expr part) {
    return operand_expr(c, i).shape() == part.shape() ? part : sum_all(part);
  };
  return {c.wants(0) ? reduced(0, parts.at_low(g)).id : ValueId{},
          c.wants(1) ? parts.inside(g).id : ValueId{},
          c.wants(2) ? reduced(2, parts.at_high(g)).id : ValueId{}};
}

}  // namespace

void add_elementwise_derivatives(OpRegistry& r) {
  add_functions(r);
  add_arithmetic(r);
  set_linear(r, "stablehlo.negate", vjp_negate);
  set_linear(r, "stablehlo.real", vjp_real);
  set_linear(r, "stablehlo.imag", vjp_imag);
  set_linear(r, "stablehlo.complex", vjp_complex);
  set_linear(r, "stablehlo.reduce_precision", vjp_reduce_precision);
  auto set = [&](const char* name, JvpFn jvp, VjpFn vjp) {
    r.extend(name, [&](OpDef& def) {
      def.jvp = jvp;
      def.vjp = vjp;
    });
  };
  set("stablehlo.abs", jvp_abs, vjp_abs);
  set("stablehlo.convert", jvp_convert, vjp_convert);
  set("stablehlo.select", jvp_select, vjp_select);
  set("stablehlo.clamp", jvp_clamp, vjp_clamp);
}

}  // namespace cleave
