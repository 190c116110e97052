#pragma once

#include <cstdint>
#include <optional>

#include "cleave/runtime/tensor.h"

// Linear equations and factors of matrices, as numpy.linalg and jax.numpy.linalg have them.
// Matrices are the last two dimensions, dimensions before them are batches, which may be sharded: a
// matrix itself is computed on one device. Elements are f32, f64, complex<f32> or complex<f64>;
// integers are taken as f32. Derivatives are those of JAX. `cholesky` and `triangular_solve` are in
// ops_linalg.h.
namespace cleave {

// x with a x = b. A vector b is one right side; otherwise b is [..., n, k]. Of a singular matrix
// the result has infinities and NaNs.
//   solve([8, 4, 4], [8, 4, 3]) -> [8, 4, 3]     solve([4, 4], [4]) -> [4]
Tensor solve(const Tensor& a, const Tensor& b);
Tensor inv(const Tensor& a);
// Derivatives are the cofactors, of singular matrices too. From 4 x 4 on they are 0, as in JAX, if
// a pivot before the last one is 0.
Tensor det(const Tensor& a);
struct LogDet {
  Tensor sign;    // of complex numbers: sign of absolute value 1
  Tensor logabs;  // of a singular matrix: minus infinity, with sign 0
};
LogDet slogdet(const Tensor& a);  // det = sign exp(logabs)

// P a = L U: L below the diagonal (its ones are not stored), U on and above it, and the row of `a`
// that became each row (i32).
struct Lu {
  Tensor lu, rows;
};
Lu lu_factor(const Tensor& a);

// a = q r, columns of q orthonormal and r upper triangular; k = min(m, n) columns, or m if `full`.
struct Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a, bool full = false);

// a = u diag(s) vh, s descending; k = min(m, n) columns of u and rows of vh, or all if `full`
// (which has no derivative).
struct Svd {
  Tensor u, s, vh;
};
Svd svd(const Tensor& a, bool full = false);
Tensor svdvals(const Tensor& a);

// The eigenvalues, ascending, and the eigenvectors (columns) of (a + a^H) / 2.
struct Eigh {
  Tensor values, vectors;
};
Eigh eigh(const Tensor& a);
Tensor eigvalsh(const Tensor& a);

// x with the least |a x - b|, and the shortest of several, for one matrix a [m, n] and b [m] or
// [m, k]. Singular values up to `rcond` times the largest count as 0 (none given: the precision of
// the dtype times the larger size).
struct LeastSquares {
  Tensor x;
  Tensor residuals;  // |a x - b|^2 by column
  Tensor rank;       // i32
  Tensor s;
};
LeastSquares lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = std::nullopt);
// The pseudo-inverse, with the same bound.
Tensor pinv(const Tensor& a, std::optional<double> rcond = std::nullopt);
Tensor matrix_power(const Tensor& a, int64_t exponent);  // negative: of the inverse

}  // namespace cleave
