#include "cleave/ops/custom_call/custom_call.h"

#include <algorithm>

#include "cleave/ops/custom_call/family.h"
#include "cleave/ops/linalg/linalg_diff.h"

namespace cleave {
namespace {

// ---- custom calls with a known meaning

std::string routine_of(const Node& node) {
  const std::string routine(linalg_routine(node.attrs.get_string("call_target_name")));
  return routine == "complex_geev" ? "geev" : routine;
}

// The permutation that LAPACK's row swaps make, as a matrix: P A = L U.
Expr permutation_matrix(Expr pivots, Expr like, double first) {
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
    const Expr other = broadcast(reshape(slice(pivots, start, limit), flat), shape, batch) - first;
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

// The matrix that puts row rows[i] at i.
Expr row_matrix(Expr rows, Expr like) {
  const Shape shape = like.shape();
  const Expr column = iota(*rows.b, DType::I32, shape, static_cast<int64_t>(shape.size()) - 1);
  const Expr wanted = broadcast(rows, shape, all_dims(shape.size() - 1));
  return convert(compare("EQ", column, wanted), like.dtype());
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
    // LuDecomposition gives the permutation too; getrf only swaps of rows, counted from 1.
    p = routine_of(c.node) == "getrf" ? permutation_matrix(result_expr(c, 1), lu, 1)
                                      : row_matrix(result_expr(c, 2), lu);
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
  if (routine == "gtsv") return jvp_tridiagonal(c, t);
  std::vector<ValueId> results(c.results.size());
  if (t.empty() || !t[0].valid()) return results;
  const Expr g = expr(c.b, t[0]);
  if (routine == "potrf" || routine == "Cholesky") {
    results[0] = cholesky_tangent(tril(result_expr(c)), g);
  } else if (routine == "getrf" || routine == "LuDecomposition") {
    results[0] = lu_tangent(Lu(c), g);
  } else if (routine == "syevd" || routine == "heevd" || routine == "Eigh") {
    return jvp_eigh(c, g);
  } else if (routine == "gesdd") {
    return jvp_svd(c, g);
  } else if (routine == "geev") {
    return jvp_eig(c, g);
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
  if (routine == "gesdd") return vjp_svd(c, ct);
  if (routine == "geev") return vjp_eig(c, ct);
  if (routine == "gtsv") return vjp_tridiagonal(c, ct);
  if (!ct[0].valid()) return results;
  const Expr g = expr(c.b, ct[0]);
  if (routine == "potrf" || routine == "Cholesky") {
    results[0] = cholesky_cotangent(tril(result_expr(c)), g);
  } else if (routine == "getrf" || routine == "LuDecomposition") {
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

void add_custom_call_derivatives(OpRegistry& r) {
  r.extend("stablehlo.custom_call", [](OpDef& def) {
    def.jvp = jvp_custom_call;
    def.vjp = vjp_custom_call;
  });
}

}  // namespace cleave
