#pragma once

#include <algorithm>
#include <complex>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/kernels/array.h"
#include "cleave/kernels/library_threads.h"

// What the wrappers of LAPACK share: batches, and matrices in column-major order.
namespace cleave::linalg_detail {

template <typename Visit>
auto visit_lapack(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::F32:
      return visit(float{});
    case DType::F64:
      return visit(double{});
    case DType::C64:
      return visit(std::complex<float>{});
    case DType::C128:
      return visit(std::complex<double>{});
    default:
      throw_user("linear algebra takes f32, f64 and complex matrices, got {}", name(dtype));
  }
}

inline Shape batch_shape(const Array& a, size_t matrix_rank = 2) {
  return Shape(a.shape().begin(), a.shape().end() - static_cast<int64_t>(matrix_rank));
}
inline Shape with(Shape batch, std::initializer_list<int64_t> dims) {
  batch.insert(batch.end(), dims);
  return batch;
}
inline int64_t rows(const Array& a) { return a.shape()[a.rank() - 2]; }
inline int64_t cols(const Array& a) { return a.shape()[a.rank() - 1]; }

// Matrix b of a packed batch, row-major in memory.
template <typename T>
T* matrix(const Array& packed, int64_t b) {
  return reinterpret_cast<T*>(packed.raw()) + b * rows(packed) * cols(packed);
}
template <typename T>
T* vector(const Array& packed, int64_t b) {
  return reinterpret_cast<T*>(packed.raw()) + b * packed.shape().back();
}

// A column-major working copy of an m x n matrix.
template <typename T>
struct Columns {
  int m, n;
  std::vector<T> data;

  Columns(int64_t rows, int64_t cols)
      : m(static_cast<int>(rows)),
        n(static_cast<int>(cols)),
        data(static_cast<size_t>(rows * cols)) {}
  Columns(const T* row_major, int64_t rows, int64_t cols) : Columns(rows, cols) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) data[static_cast<size_t>(j * m + i)] = row_major[i * n + j];
  }
  int lead() const { return std::max(m, 1); }
  void store(T* row_major) const {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) row_major[i * n + j] = data[static_cast<size_t>(j * m + i)];
  }
};

inline int work_size(double wanted) { return std::max(1, static_cast<int>(wanted)); }
template <typename T>
int work_size(std::complex<T> wanted) {
  return work_size(static_cast<double>(wanted.real()));
}

// Calls `routine(work, lwork)` twice: to ask how much memory it wants, and to run.
template <typename T, typename Routine>
void with_work(Routine routine) {
  T wanted{};
  routine(&wanted, -1);
  std::vector<T> work(static_cast<size_t>(work_size(wanted)));
  routine(work.data(), static_cast<int>(work.size()));
}

inline void require_square(const char* what, const Array& a) {
  if (rows(a) != cols(a))
    throw_user("{}: matrices must be square, got {}", what, to_string(a.shape()));
}

}  // namespace cleave::linalg_detail
