#include "cleave/ops/linalg/linalg_diff.h"
#include "cleave/ops/linalg/family.h"

namespace cleave {

Expr lower_mask(Expr a, int64_t offset) {
  const Shape shape = a.shape();
  const auto rank = static_cast<int64_t>(shape.size());
  const Expr row = iota(*a.b, DType::I32, shape, rank - 2);
  const Expr column = iota(*a.b, DType::I32, shape, rank - 1);
  return compare("GE", row, column + static_cast<double>(offset));
}
Expr tril(Expr a, int64_t offset) { return select(lower_mask(a, offset), a, 0.0); }
Expr triu(Expr a) { return select(lower_mask(a, 1), zeros_like(a), a); }
Expr identity_like(Expr a) {
  const Expr ones = number_like(1, a);
  return tril(ones) - tril(ones, 1);
}
Expr diagonal_of(Expr a) {
  const auto rank = static_cast<int64_t>(a.shape().size());
  return sum(a * identity_like(a), {rank - 1});
}
Expr adjoint(Expr a) { return maybe_conj(swap_last_two(a)); }
Expr half_lower(Expr a) { return (tril(a) + tril(a, 1)) * 0.5; }

Expr solve(Expr a, Expr b, bool left, bool lower, bool unit, char form) {
  AttrDict attrs;
  attrs.set("left_side", left);
  attrs.set("lower", lower);
  attrs.set("unit_diagonal", unit);
  attrs.set("transpose_a", EnumAttr{"stablehlo.transpose", form == 'N'   ? "NO_TRANSPOSE"
                                                           : form == 'T' ? "TRANSPOSE"
                                                                         : "ADJOINT"});
  return {a.b, a.b->emit("stablehlo.triangular_solve", {a.id, b.id}, std::move(attrs))};
}

Expr cholesky_tangent(Expr l, Expr t) {
  const Expr left = solve(l, t, true, true, false, 'N');
  return matmul(l, half_lower(solve(l, left, false, true, false, 'H')));
}
Expr cholesky_cotangent(Expr l, Expr g) {
  const Expr inner = half_lower(matmul(swap_last_two(l), tril(g)));
  const Expr left = solve(l, inner, true, true, false, 'T');
  return solve(maybe_conj(l), left, false, true, false, 'N');
}
namespace {

// ---- cholesky

std::vector<ValueId> jvp_cholesky(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid()) return {ValueId{}};
  const Expr g = expr(c.b, t[0]), y = result_expr(c);
  if (c.node.attrs.get_bool("lower", false)) return {cholesky_tangent(tril(y), g)};
  // U = L^H
  const Expr l = maybe_conj(swap_last_two(triu(y)));
  return {maybe_conj(swap_last_two(cholesky_tangent(l, g)))};
}
std::vector<ValueId> vjp_cholesky(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr g = expr(c.b, ct[0]), y = result_expr(c);
  if (c.node.attrs.get_bool("lower", false)) return {cholesky_cotangent(tril(y), g)};
  const Expr l = maybe_conj(swap_last_two(triu(y)));
  return {cholesky_cotangent(l, maybe_conj(swap_last_two(g)))};
}

// ---- triangular_solve: op(a) x = b, or x op(a) = b

struct Triangular {
  bool left, lower, unit;
  char form = 'N';
  explicit Triangular(const Node& node)
      : left(node.attrs.get_bool("left_side", true)),
        lower(node.attrs.get_bool("lower", true)),
        unit(node.attrs.get_bool("unit_diagonal", false)) {
    if (!node.attrs.has("transpose_a")) return;
    const std::string_view text = node.attrs.get_string("transpose_a");
    form = text == "TRANSPOSE" ? 'T' : text == "ADJOINT" ? 'H' : 'N';
  }
  Expr triangle(Expr a) const {
    const int64_t offset = unit ? 1 : 0;
    return lower ? tril(a, offset) : swap_last_two(tril(swap_last_two(a), offset));
  }
  Expr apply_form(Expr a) const {
    if (form == 'N') return a;
    const Expr turned = swap_last_two(a);
    return form == 'H' ? maybe_conj(turned) : turned;
  }
};
std::vector<ValueId> jvp_triangular_solve(const DiffContext& c, std::span<const ValueId> t) {
  const Triangular s(c.node);
  const Expr a = operand_expr(c, 0), x = result_expr(c);
  Expr right;
  if (t[1].valid()) right = expr(c.b, t[1]);
  if (t[0].valid()) {
    const Expr da = s.apply_form(s.triangle(expr(c.b, t[0])));
    const Expr moved = s.left ? matmul(da, x) : matmul(x, da);
    right = right.valid() ? right - moved : -moved;
  }
  if (!right.valid()) return {ValueId{}};
  return {solve(a, right, s.left, s.lower, s.unit, s.form)};
}
std::vector<ValueId> vjp_triangular_solve(const DiffContext& c, std::span<const ValueId> ct) {
  const Triangular s(c.node);
  const Expr a = operand_expr(c, 0), x = result_expr(c), g = expr(c.b, ct[0]);
  const Expr b = s.form == 'H' ? solve(maybe_conj(a), g, s.left, s.lower, s.unit, 'N')
                               : solve(a, g, s.left, s.lower, s.unit, s.form == 'N' ? 'T' : 'N');
  ValueId to_a;
  if (c.wants(0)) {
    const Expr outer = s.left ? matmul(b, swap_last_two(x)) : matmul(swap_last_two(x), b);
    to_a = -s.triangle(s.apply_form(outer));
  }
  return {to_a, b};
}

// ---- fft: symmetric, but for the halves that real transforms leave out

Expr emit_fft(Expr x, const char* kind, const std::vector<int64_t>& lengths) {
  AttrDict attrs;
  attrs.set("fft_type", EnumAttr{"stablehlo.fft_type", kind});
  attrs.set("fft_length", ints_attr(lengths));
  return {x.b, x.b->emit("stablehlo.fft", {x.id}, std::move(attrs))};
}
std::vector<ValueId> vjp_fft(const DiffContext& c, std::span<const ValueId> ct) {
  const std::string kind(c.node.attrs.get_string("fft_type"));
  const std::vector<int64_t> lengths = c.node.attrs.get_ints("fft_length");
  const Expr g = expr(c.b, ct[0]);
  if (kind == "FFT" || kind == "IFFT") return {emit_fft(g, kind.c_str(), lengths)};
  const size_t rank = g.shape().size();
  if (kind == "RFFT") {
    std::vector<int64_t> low(rank, 0), high(rank, 0);
    high[rank - 1] = lengths.back() - g.shape()[rank - 1];
    return {real(emit_fft(pad(g, 0, low, high), "FFT", lengths))};
  }
  const Expr x = emit_fft(g, "RFFT", lengths);
  const int64_t n = x.shape()[rank - 1];
  const bool odd = lengths.back() % 2 != 0;
  double scale = 1;
  for (int64_t length : lengths) scale /= static_cast<double>(length);
  // Inner elements stand for two, of which only one is there.
  const Expr place = iota(c.b, DType::I32, x.shape(), static_cast<int64_t>(rank) - 1);
  Expr once = compare("EQ", place, 0.0);
  if (!odd) once = binary("stablehlo.or", once, compare("EQ", place, static_cast<double>(n - 1)));
  const Expr factor = select(once, number_like(scale, x), number_like(2 * scale, x));
  return {conj(factor * x)};
}

}  // namespace

void add_linalg_derivatives(OpRegistry& r) {
  auto set = [&](const char* name, JvpFn jvp, VjpFn vjp) {
    r.extend(name, [&](OpDef& def) {
      def.jvp = jvp;
      def.vjp = vjp;
    });
  };
  set("stablehlo.cholesky", jvp_cholesky, vjp_cholesky);
  set("stablehlo.triangular_solve", jvp_triangular_solve, vjp_triangular_solve);
  set_linear(r, "stablehlo.fft", vjp_fft);
}

}  // namespace cleave
