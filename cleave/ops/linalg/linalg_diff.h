#pragma once

#include "cleave/ops/diff_util.h"
#include "cleave/ops/infer_util.h"

// Matrices are the last two dimensions; dimensions before them are batches.
namespace cleave {

// Elements with row - column >= offset; offset 0 is the lower triangle with its diagonal.
Expr lower_mask(Expr a, int64_t offset);
Expr tril(Expr a, int64_t offset = 0);  // zeros elsewhere
Expr triu(Expr a);
Expr identity_like(Expr a);
Expr diagonal_of(Expr a);
Expr adjoint(Expr a);     // transposed, and conjugated if numbers are complex
Expr half_lower(Expr a);  // the lower triangle with half of the diagonal
// op(a) x = b, or x op(a) = b; form is 'N', 'T' or 'H' (the adjoint).
Expr solve(Expr a, Expr b, bool left, bool lower, bool unit, char form);

// A = L L^H:  L' = L half_lower(L^-1 A' L^-H), and its transpose.
Expr cholesky_tangent(Expr l, Expr t);
Expr cholesky_cotangent(Expr l, Expr g);

// The rules of LAPACK's gesdd (cleave/ops/linalg/svd_diff.cc).
std::vector<ValueId> jvp_svd(const DiffContext& c, Expr tangent);
std::vector<ValueId> vjp_svd(const DiffContext& c, std::span<const ValueId> cotangents);
// geev: eigenvalues (cleave/ops/linalg/eig_diff.cc).
std::vector<ValueId> jvp_eig(const DiffContext& c, Expr tangent);
std::vector<ValueId> vjp_eig(const DiffContext& c, std::span<const ValueId> cotangents);
// gtsv (cleave/ops/linalg/tridiagonal_diff.cc).
std::vector<ValueId> jvp_tridiagonal(const DiffContext& c, std::span<const ValueId> tangents);
std::vector<ValueId> vjp_tridiagonal(const DiffContext& c, std::span<const ValueId> cotangents);

}  // namespace cleave
