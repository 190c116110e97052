#include "cleave/ops/custom_call.h"
#include "cleave/ops/diff_util.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

// ---- triangles of the last two dimensions

// Elements with row - column >= offset; offset 0 is the lower triangle with its diagonal.
Expr lower_mask(Expr a, int64_t offset) {
  const Shape shape = a.shape();
  const auto rank = static_cast<int64_t>(shape.size());
  const Expr row = iota(*a.b, DType::I32, shape, rank - 2);
  const Expr column = iota(*a.b, DType::I32, shape, rank - 1);
  return compare("GE", row, column + static_cast<double>(offset));
}
Expr tril(Expr a, int64_t offset = 0) { return select(lower_mask(a, offset), a, 0.0); }
Expr triu(Expr a) { return select(lower_mask(a, 1), zeros_like(a), a); }
Expr identity_like(Expr a) {
  const Expr ones = number_like(1, a);
  return tril(ones) - tril(ones, 1);
}
// The lower triangle with half of the diagonal.
Expr half_lower(Expr a) { return (tril(a) + tril(a, 1)) * 0.5; }

// form: 'N', 'T' or 'H' (the adjoint)
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

// ---- cholesky: L' = L half_lower(L^-1 A' L^-H)

Expr cholesky_tangent(Expr l, Expr t) {
  const Expr left = solve(l, t, true, true, false, 'N');
  return matmul(l, half_lower(solve(l, left, false, true, false, 'H')));
}
Expr cholesky_cotangent(Expr l, Expr g) {
  const Expr inner = half_lower(matmul(swap_last_two(l), tril(g)));
  const Expr left = solve(l, inner, true, true, false, 'T');
  return solve(maybe_conj(l), left, false, true, false, 'N');
}
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

// ---- custom calls with a known meaning

std::string routine_of(const Node& node) {
  std::string name(node.attrs.get_string("call_target_name"));
  if (name.starts_with("lapack_") && name.ends_with("_ffi") && name.size() > 12)
    return name.substr(8, name.size() - 12);
  return name;
}

// The permutation that LAPACK's row swaps make, as a matrix: P A = L U.
Expr permutation_matrix(Expr pivots, Expr like) {
  GraphBuilder& b = *pivots.b;
  const Shape shape = like.shape();
  const auto rank = static_cast<int64_t>(shape.size());
  Expr rows = identity_like(like);
  const Expr row = iota(b, DType::I32, shape, rank - 2);
  std::vector<int64_t> batch = all_dims(rank - 2);
  for (int64_t i = 0; i < pivots.shape().back(); ++i) {
    std::vector<int64_t> start(rank - 1, 0), limit = pivots.shape();
    start.back() = i;
    limit.back() = i + 1;
    Shape flat(shape.begin(), shape.end() - 2);
    const Expr other = broadcast(reshape(slice(pivots, start, limit), flat), shape, batch) - 1.0;
    const Expr here = compare("EQ", row, static_cast<double>(i));
    const Expr there = compare("EQ", row, other);
    auto row_of = [&](Expr mask) {
      const Expr one = sum(select(mask, rows, 0.0), {rank - 2});
      std::vector<int64_t> dims = batch;
      dims.push_back(rank - 1);
      return broadcast(one, shape, dims);
    };
    const Expr first = row_of(here), second = row_of(there);
    rows = select(here, second, select(there, first, rows));
  }
  return rows;
}

struct Lu {
  Expr l, u, p;
  explicit Lu(const DiffContext& c) {
    const Expr lu = result_expr(c, 0);
    const size_t rank = lu.shape().size();
    require(lu.shape()[rank - 1] == lu.shape()[rank - 2], c.node,
            "of matrices that are not square has no derivative");
    l = tril(lu, 1) + identity_like(lu);
    u = lu - tril(lu, 1);
    p = permutation_matrix(result_expr(c, 1), lu);
  }
};
Expr lu_tangent(const Lu& f, Expr t) {
  const Expr left = solve(f.l, matmul(f.p, t), true, true, true, 'N');
  const Expr inner = solve(f.u, left, false, false, false, 'N');
  const Expr below = tril(inner, 1);
  return matmul(f.l, below) + matmul(inner - below, f.u);
}
Expr lu_cotangent(const Lu& f, Expr g) {
  const Expr below = tril(g, 1);
  const Expr from_l = tril(matmul(swap_last_two(f.l), below), 1);
  const Expr product = matmul(g - below, swap_last_two(f.u));
  const Expr inner = from_l + (product - tril(product, 1));
  const Expr left = solve(f.l, inner, true, true, true, 'T');
  return matmul(swap_last_two(f.p), solve(f.u, left, false, false, false, 'T'));
}

// A V = V diag(w):  w' = diag(V^H A' V),  V' = V (F * (V^H A' V)),  F = 1 / (w_j - w_i)
struct Eigh {
  Expr v, f;
  explicit Eigh(const DiffContext& c) : v(result_expr(c, 0)) {
    const Expr w = result_expr(c, 1);
    const Shape shape = v.shape();
    const auto rank = static_cast<int64_t>(shape.size());
    std::vector<int64_t> columns = all_dims(rank - 2), rows = columns;
    columns.push_back(rank - 1);
    rows.push_back(rank - 2);
    const Expr eye = identity_like(broadcast(w, shape, columns));
    const Expr gaps = broadcast(w, shape, columns) - broadcast(w, shape, rows) + eye;
    f = convert(1.0 / gaps - eye, v.dtype());
  }
};
Expr diagonal_of(Expr a) {
  const auto rank = static_cast<int64_t>(a.shape().size());
  return sum(a * identity_like(a), {rank - 1});
}
std::vector<ValueId> jvp_eigh(const DiffContext& c, ValueId tangent) {
  const Eigh e(c);
  const Expr inner = matmul(matmul(maybe_conj(swap_last_two(e.v)), expr(c.b, tangent)), e.v);
  const Expr values = diagonal_of(inner);
  std::vector<ValueId> results(c.results.size());
  results[0] = matmul(e.v, e.f * inner);
  results[1] = is_complex(values.dtype()) ? real(values) : values;
  return results;
}
std::vector<ValueId> vjp_eigh(const DiffContext& c, std::span<const ValueId> ct) {
  const Eigh e(c);
  Expr inner;
  if (ct[0].valid()) inner = e.f * matmul(swap_last_two(e.v), expr(c.b, ct[0]));
  if (ct[1].valid()) {
    const Shape shape = e.v.shape();
    std::vector<int64_t> dims = all_dims(shape.size() - 1);
    const Expr g = convert(expr(c.b, ct[1]), e.v.dtype());
    const Expr diagonal = identity_like(e.v) * broadcast(g, shape, dims);
    inner = inner.valid() ? inner + diagonal : diagonal;
  }
  return {matmul(matmul(maybe_conj(e.v), inner), swap_last_two(e.v))};
}

bool is_mark(const Node& node) {
  const std::string target = routine_of(node);
  for (const char* name :
       {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement",
        "LayoutConstraint", "MoveToDevice", "MoveToHost", "InspectSharding"})
    if (target == name) return true;
  return false;
}
[[noreturn]] void no_rule(const DiffContext& c) {
  fail(c.node,
       "@{} has no derivative; stop it there (stop_gradient), or give the function around it one "
       "(custom_vjp)",
       c.node.attrs.get_string("call_target_name"));
}

std::vector<ValueId> jvp_custom_call(const DiffContext& c, std::span<const ValueId> t) {
  const std::string routine = routine_of(c.node);
  if (is_mark(c.node)) return jvp_linear(c, t);
  std::vector<ValueId> results(c.results.size());
  if (t.empty() || !t[0].valid()) return results;
  const Expr g = expr(c.b, t[0]);
  if (routine == "potrf" || routine == "Cholesky") {
    results[0] = cholesky_tangent(tril(result_expr(c)), g);
  } else if (routine == "getrf") {
    results[0] = lu_tangent(Lu(c), g);
  } else if (routine == "syevd" || routine == "heevd" || routine == "Eigh") {
    return jvp_eigh(c, g);
  } else if (routine == "mhlo.erf") {
    const Expr x = operand_expr(c);
    results[0] = g * (1.1283791670955126 * exp(-(x * x)));
  } else if (routine == "mhlo.topk") {
    const auto dim = static_cast<int64_t>(operand_expr(c).shape().size()) - 1;
    results[0] = take_along(g, result_expr(c, 1), dim);
  } else {
    no_rule(c);
  }
  return results;
}
std::vector<ValueId> vjp_custom_call(const DiffContext& c, std::span<const ValueId> ct) {
  const std::string routine = routine_of(c.node);
  std::vector<ValueId> results(c.operands.size());
  if (is_mark(c.node)) return reemit(c.b, c.node, {ct[0]});
  if (routine == "syevd" || routine == "heevd" || routine == "Eigh") return vjp_eigh(c, ct);
  if (!ct[0].valid()) return results;
  const Expr g = expr(c.b, ct[0]);
  if (routine == "potrf" || routine == "Cholesky") {
    results[0] = cholesky_cotangent(tril(result_expr(c)), g);
  } else if (routine == "getrf") {
    results[0] = lu_cotangent(Lu(c), g);
  } else if (routine == "mhlo.erf") {
    return {jvp_custom_call(c, ct)[0]};
  } else if (routine == "mhlo.topk") {
    const Shape shape = operand_expr(c).shape();
    results[0] = put_along(g, result_expr(c, 1), static_cast<int64_t>(shape.size()) - 1, shape);
  } else {
    no_rule(c);
  }
  return results;
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
  set("stablehlo.custom_call", jvp_custom_call, vjp_custom_call);
  set_linear(r, "stablehlo.fft", vjp_fft);
}

}  // namespace cleave
