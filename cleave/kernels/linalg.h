#pragma once

#include <vector>

#include "cleave/kernels/array.h"

// Matrix decompositions on batches {..., m, n} of F32, F64, C64 and C128 by LAPACK. Results come in
// the order of JAX's custom calls on CPU; `info` is an I32 for each matrix, 0 if LAPACK succeeded.
namespace cleave {

// The factor of a Hermitian positive definite matrix, of which one triangle is read; the other
// triangle of the result is 0. A matrix that is not positive definite gives NaNs.
Array cholesky(const Array& a, bool lower);

enum class MatrixForm : uint8_t { Plain, Transposed, Adjoint };
struct TriangularSolve {
  bool left = true;  // op(a) x = b, otherwise x op(a) = b
  bool lower = true;
  bool unit_diagonal = false;
  MatrixForm form = MatrixForm::Plain;
};
Array triangular_solve(const Array& a, const Array& b, const TriangularSolve& how);

// The same on packed matrices, of F32, F64, C64 or C128, without an allocation. cholesky takes
// scratch memory of one matrix; `x` holds the right sides before and the solutions after.
void cholesky(DType dtype, int64_t batches, int64_t size, bool lower, const std::byte* a,
              std::byte* out, std::byte* scratch);
void triangular_solve(DType dtype, int64_t batches, int64_t rows, int64_t cols,
                      const TriangularSolve& how, const std::byte* a, std::byte* x);

std::vector<Array> lapack_potrf(const Array& a, char uplo);            // factor, info
std::vector<Array> lapack_getrf(const Array& a);                       // lu, pivots from 1, info
std::vector<Array> lapack_geqrf(const Array& a);                       // r and reflectors, tau
std::vector<Array> lapack_geqp3(const Array& a, const Array& pivots);  // a, pivots, tau
std::vector<Array> lapack_orgqr(const Array& a, const Array& tau);     // q
std::vector<Array> lapack_ormqr(const Array& a, const Array& tau, const Array& c, bool left,
                                bool transpose);  // c
// a, s, u, vt, info. Mode 'A': u and vt are square; 'S': as narrow as s; 'N': not computed, and of
// either shape.
std::vector<Array> lapack_gesdd(const Array& a, char mode, bool square = false);
std::vector<Array> lapack_syevd(const Array& a, char mode, char uplo);  // v, w, info
// Real: real and imaginary parts of eigenvalues; complex: eigenvalues. Then left and right vectors,
// info.
std::vector<Array> lapack_geev(const Array& a, char left, char right);
// Schur: the triangular form, its vectors (zeros unless mode is 'V'), the eigenvalues as geev gives
// them, how many were selected (none), info.
std::vector<Array> lapack_gees(const Array& a, char mode);
std::vector<Array> lapack_gehrd(const Array& a, int low, int high);  // a, tau, info
std::vector<Array> lapack_sytrd(const Array& a, char uplo);          // a, d, e, tau, info
std::vector<Array> lapack_gtsv(const Array& lower, const Array& diagonal, const Array& upper,
                               const Array& b);  // all four, info

// Row i of the permutation that pivots (from 1) stand for, as I32 of `size` rows.
Array pivots_to_permutation(const Array& pivots, int64_t size);

}  // namespace cleave
