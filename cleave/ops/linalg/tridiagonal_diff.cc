#include "cleave/ops/linalg/linalg_diff.h"

// Row i of A x = b:  l_i x_(i-1) + d_i x_i + u_i x_(i+1) = b_i, where l_0 and the last u do not
// count. Operands of gtsv: l, d, u [..., n], b [..., n, k]; result 3 is x.
namespace cleave {
namespace {

// Element i is that of i - by, zero from outside.
Expr shifted(Expr x, int64_t dim, int64_t by) {
  std::vector<int64_t> low(x.shape().size(), 0), high(x.shape().size(), 0);
  low[dim] = by;
  high[dim] = -by;
  return pad(x, 0, low, high);
}
Expr solve_again(const DiffContext& c, Expr lower, Expr diagonal, Expr upper, Expr b) {
  return expr(c.b, reemit(c.b, c.node, {lower, diagonal, upper, b})[3]);
}

struct Tridiagonal {
  Expr x;
  int64_t rows;
  explicit Tridiagonal(const DiffContext& c)
      : x(result_expr(c, 3)), rows(static_cast<int64_t>(x.shape().size()) - 2) {}
  Expr spread(Expr diagonal) const {
    return broadcast(diagonal, x.shape(), all_dims(diagonal.shape().size()));
  }
  // What stands beside diagonal i of the matrix in the rows: x of the row before, itself, after.
  Expr neighbour(size_t i) const { return i == 1 ? x : shifted(x, rows, i == 0 ? 1 : -1); }
};

}  // namespace

std::vector<ValueId> jvp_tridiagonal(const DiffContext& c, std::span<const ValueId> t) {
  const Tridiagonal s(c);
  Expr right;
  if (t[3].valid()) right = expr(c.b, t[3]);
  for (size_t i = 0; i < 3; ++i) {
    if (!t[i].valid()) continue;
    const Expr moved = s.spread(expr(c.b, t[i])) * s.neighbour(i);
    right = right.valid() ? right - moved : -moved;
  }
  std::vector<ValueId> results(c.results.size());
  if (right.valid())
    results[3] = solve_again(c, operand_expr(c, 0), operand_expr(c, 1), operand_expr(c, 2), right);
  return results;
}

std::vector<ValueId> vjp_tridiagonal(const DiffContext& c, std::span<const ValueId> ct) {
  std::vector<ValueId> results(c.operands.size());
  if (!ct[3].valid()) return results;
  const Tridiagonal s(c);
  const int64_t last = s.rows;  // of the diagonals
  const Expr y = solve_again(c, shifted(operand_expr(c, 2), last, 1), operand_expr(c, 1),
                             shifted(operand_expr(c, 0), last, -1), expr(c.b, ct[3]));
  results[3] = y;
  for (size_t i = 0; i < 3; ++i)
    if (c.wants(i)) results[i] = -sum(y * s.neighbour(i), {s.rows + 1});
  return results;
}

}  // namespace cleave
