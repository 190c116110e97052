#include "cleave/kernels/linalg.h"

#include <cblas.h>

#include <limits>
#include <numeric>

#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/lapack.h"
#include "cleave/kernels/linalg_batch.h"

namespace cleave {

using namespace linalg_detail;
using lapack::Lapack;

namespace {

bool is_half(DType dtype) { return dtype == DType::F16 || dtype == DType::BF16; }

template <typename T>
void trsm(CBLAS_SIDE side, CBLAS_UPLO uplo, CBLAS_TRANSPOSE form, CBLAS_DIAG diag, int m, int n,
          const T* a, int lda, T* b) {
  const T one{1};
  if constexpr (std::is_same_v<T, float>)
    cblas_strsm(CblasRowMajor, side, uplo, form, diag, m, n, one, a, lda, b, n);
  else if constexpr (std::is_same_v<T, double>)
    cblas_dtrsm(CblasRowMajor, side, uplo, form, diag, m, n, one, a, lda, b, n);
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    cblas_ctrsm(CblasRowMajor, side, uplo, form, diag, m, n, &one, a, lda, b, n);
  else
    cblas_ztrsm(CblasRowMajor, side, uplo, form, diag, m, n, &one, a, lda, b, n);
}

// Substitution with divisions: for small matrices, where it is as fast, and right to the last bits.
template <typename T>
void substitute(const TriangularSolve& how, int64_t size, const T* a, int64_t count, T* b,
                int64_t step, int64_t next) {
  // op(a)[i, j], and element i of right side r is b[i * step + r * next].
  auto at = [&](int64_t i, int64_t j) {
    if (how.form == MatrixForm::Plain) return a[i * size + j];
    const T value = a[j * size + i];
    if constexpr (!std::is_floating_point_v<T>)
      if (how.form == MatrixForm::Adjoint) return std::conj(value);
    return value;
  };
  // x op(a) = b is op(a)^T x^T = b^T.
  auto entry = [&](int64_t i, int64_t j) { return how.left ? at(i, j) : at(j, i); };
  const bool lower = (how.form == MatrixForm::Plain) == how.left ? how.lower : !how.lower;
  for (int64_t r = 0; r < count; ++r)
    for (int64_t k = 0; k < size; ++k) {
      const int64_t i = lower ? k : size - 1 - k;
      T sum = b[i * step + r * next];
      for (int64_t l = 0; l < k; ++l) {
        const int64_t j = lower ? l : size - 1 - l;
        sum -= entry(i, j) * b[j * step + r * next];
      }
      b[i * step + r * next] = how.unit_diagonal ? sum : sum / entry(i, i);
    }
}

}  // namespace

std::vector<Array> lapack_potrf(const Array& a, char uplo) {
  require_square("potrf", a);
  apply_library_threads();
  const Array in = a.contiguous();
  Array out(a.dtype(), a.shape()), info(DType::I32, batch_shape(a));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> m(matrix<T>(in, b), rows(a), cols(a));
      const int lead = m.lead();
      Lapack<T>::potrf(&uplo, &m.n, m.data.data(), &lead, info.data<int>() + b);
      m.store(matrix<T>(out, b));
    }
  });
  return {out, info};
}

void cholesky(DType dtype, int64_t batches, int64_t size, bool lower, const std::byte* a,
              std::byte* out, std::byte* scratch) {
  apply_library_threads();
  visit_lapack(dtype, [&]<typename T>(T) {
    using R = lapack::Real<T>;
    const char uplo = lower ? 'L' : 'U';
    const int n = static_cast<int>(size), lead = std::max(n, 1);
    T* const columns = reinterpret_cast<T*>(scratch);
    for (int64_t b = 0; b < batches; ++b) {
      const T* from = reinterpret_cast<const T*>(a) + b * size * size;
      T* const to = reinterpret_cast<T*>(out) + b * size * size;
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j) columns[j * size + i] = from[i * size + j];
      int info = 0;
      Lapack<T>::potrf(&uplo, &n, columns, &lead, &info);
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < size; ++j)
          to[i * size + j] = (lower ? j > i : j < i) ? T{}
                             : info != 0             ? T(std::numeric_limits<R>::quiet_NaN())
                                                     : columns[j * size + i];
    }
  });
}

Array cholesky(const Array& a, bool lower) {
  if (is_half(a.dtype())) return convert(cholesky(convert(a, DType::F32), lower), a.dtype());
  require_square("cholesky", a);
  const Array in = a.contiguous();
  Array out(a.dtype(), a.shape()), scratch(a.dtype(), {rows(a), rows(a)});
  cholesky(a.dtype(), num_elements(batch_shape(a)), rows(a), lower, in.raw(), out.raw(),
           scratch.raw());
  return out;
}

void triangular_solve(DType dtype, int64_t batches, int64_t rows, int64_t cols,
                      const TriangularSolve& how, const std::byte* a, std::byte* x) {
  apply_library_threads();
  const auto side = how.left ? CblasLeft : CblasRight;
  const auto uplo = how.lower ? CblasLower : CblasUpper;
  const auto diag = how.unit_diagonal ? CblasUnit : CblasNonUnit;
  const auto form = how.form == MatrixForm::Plain        ? CblasNoTrans
                    : how.form == MatrixForm::Transposed ? CblasTrans
                                                         : CblasConjTrans;
  constexpr int64_t kSmall = 16;
  const int m = static_cast<int>(rows), n = static_cast<int>(cols);
  const int64_t size = how.left ? rows : cols;
  visit_lapack(dtype, [&]<typename T>(T) {
    for (int64_t i = 0; i < batches; ++i) {
      const T* matrix = reinterpret_cast<const T*>(a) + i * size * size;
      T* const right = reinterpret_cast<T*>(x) + i * rows * cols;
      if (size <= kSmall)
        substitute<T>(how, size, matrix, how.left ? n : m, right, how.left ? n : 1,
                      how.left ? 1 : n);
      else
        trsm<T>(side, uplo, form, diag, m, n, matrix, static_cast<int>(size), right);
    }
  });
}

Array triangular_solve(const Array& a, const Array& b, const TriangularSolve& how) {
  require_square("triangular_solve", a);
  if (is_half(a.dtype()))
    return convert(triangular_solve(convert(a, DType::F32), convert(b, DType::F32), how),
                   a.dtype());
  const Array matrices = a.contiguous();
  Array x = b.copy();
  if (x.num_elements() > 0)
    triangular_solve(a.dtype(), num_elements(batch_shape(b)), rows(b), cols(b), how, matrices.raw(),
                     x.raw());
  return x;
}

std::vector<Array> lapack_getrf(const Array& a) {
  apply_library_threads();
  const Array in = a.contiguous();
  const Shape batch = batch_shape(a);
  Array out(a.dtype(), a.shape()), info(DType::I32, batch);
  Array pivots(DType::I32, with(batch, {std::min(rows(a), cols(a))}));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < info.num_elements(); ++b) {
      Columns<T> m(matrix<T>(in, b), rows(a), cols(a));
      const int lead = m.lead();
      Lapack<T>::getrf(&m.m, &m.n, m.data.data(), &lead, vector<int>(pivots, b),
                       info.data<int>() + b);
      m.store(matrix<T>(out, b));
    }
  });
  return {out, pivots, info};
}

Array pivots_to_permutation(const Array& pivots, int64_t size) {
  const Array in = pivots.contiguous();
  Array out(DType::I32, with(batch_shape(pivots, 1), {size}));
  for (int64_t b = 0; b < num_elements(batch_shape(pivots, 1)); ++b) {
    int* order = vector<int>(out, b);
    std::iota(order, order + size, 0);
    for (int64_t i = 0; i < pivots.shape().back(); ++i)
      std::swap(order[i], order[vector<int>(in, b)[i] - 1]);
  }
  return out;
}

std::vector<Array> lapack_geqrf(const Array& a) {
  apply_library_threads();
  const Array in = a.contiguous();
  Array out(a.dtype(), a.shape());
  Array tau(a.dtype(), with(batch_shape(a), {std::min(rows(a), cols(a))}));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < num_elements(batch_shape(a)); ++b) {
      Columns<T> m(matrix<T>(in, b), rows(a), cols(a));
      const int lead = m.lead();
      int info = 0;
      with_work<T>([&](T* work, int size) {
        Lapack<T>::geqrf(&m.m, &m.n, m.data.data(), &lead, vector<T>(tau, b), work, &size, &info);
      });
      m.store(matrix<T>(out, b));
    }
  });
  return {out, tau};
}

std::vector<Array> lapack_geqp3(const Array& a, const Array& pivots) {
  apply_library_threads();
  const Array in = a.contiguous();
  Array out(a.dtype(), a.shape()), order = pivots.copy();
  Array tau(a.dtype(), with(batch_shape(a), {std::min(rows(a), cols(a))}));
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < num_elements(batch_shape(a)); ++b) {
      Columns<T> m(matrix<T>(in, b), rows(a), cols(a));
      const int lead = m.lead();
      int info = 0;
      with_work<T>([&](T* work, int size) {
        if constexpr (std::is_floating_point_v<T>) {
          Lapack<T>::geqp3(&m.m, &m.n, m.data.data(), &lead, vector<int>(order, b),
                           vector<T>(tau, b), work, &size, &info);
        } else {
          std::vector<lapack::Real<T>> real_work(static_cast<size_t>(2 * m.n + 1));
          Lapack<T>::geqp3(&m.m, &m.n, m.data.data(), &lead, vector<int>(order, b),
                           vector<T>(tau, b), work, &size, real_work.data(), &info);
        }
      });
      m.store(matrix<T>(out, b));
    }
  });
  return {out, order, tau};
}

std::vector<Array> lapack_orgqr(const Array& a, const Array& tau) {
  apply_library_threads();
  const Array in = a.contiguous(), factors = tau.contiguous();
  Array out(a.dtype(), a.shape());
  const int k = static_cast<int>(tau.shape().back());
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < num_elements(batch_shape(a)); ++b) {
      Columns<T> m(matrix<T>(in, b), rows(a), cols(a));
      const int lead = m.lead();
      int info = 0;
      with_work<T>([&](T* work, int size) {
        Lapack<T>::orgqr(&m.m, &m.n, &k, m.data.data(), &lead, vector<T>(factors, b), work, &size,
                         &info);
      });
      m.store(matrix<T>(out, b));
    }
  });
  return {out};
}

std::vector<Array> lapack_ormqr(const Array& a, const Array& tau, const Array& c, bool left,
                                bool transpose) {
  apply_library_threads();
  const Array in = a.contiguous(), factors = tau.contiguous(), target = c.contiguous();
  Array out(c.dtype(), c.shape());
  const int k = static_cast<int>(tau.shape().back());
  const char side = left ? 'L' : 'R';
  const char form = !transpose ? 'N' : is_complex(a.dtype()) ? 'C' : 'T';
  visit_lapack(a.dtype(), [&]<typename T>(T) {
    for (int64_t b = 0; b < num_elements(batch_shape(a)); ++b) {
      Columns<T> m(matrix<T>(in, b), rows(a), cols(a));
      Columns<T> r(matrix<T>(target, b), rows(c), cols(c));
      const int lead = m.lead(), target_lead = r.lead();
      int info = 0;
      with_work<T>([&](T* work, int size) {
        Lapack<T>::ormqr(&side, &form, &r.m, &r.n, &k, m.data.data(), &lead, vector<T>(factors, b),
                         r.data.data(), &target_lead, work, &size, &info);
      });
      r.store(matrix<T>(out, b));
    }
  });
  return {out};
}

}  // namespace cleave
