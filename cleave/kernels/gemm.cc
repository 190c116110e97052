#include "cleave/kernels/gemm.h"

#include <cblas.h>
#include <dnnl.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/kernels/blocked_sum.h"
#include "cleave/kernels/library_threads.h"

namespace cleave {
namespace {

// Below this much work the call into a library costs more than the multiplication.
constexpr int64_t kTinyWork = 2048;
// The first call of oneDNN's sgemm in a process generates code for all its variants, which takes 70
// to 150 ms with AVX-512; OpenBLAS's first call takes 15 us, and its later ones are as fast or
// faster up to here. So a program of small products never waits for the generator.
constexpr int64_t kSmallWork = 256 * 256 * 256;
// A few rows times a matrix that fills more than the second-level cache: OpenBLAS packs the matrix,
// which takes longer than the product.
constexpr int64_t kLargeMatrix = 512 * 512;

// Rows of B are combined into rows of C, in blocks that stay in the cache; B is packed once per
// block where it is transposed. T is unsigned, so that overflow wraps.
template <typename T>
void blocked_gemm(const Gemm& g, const T* a, const T* b, T* c) {
  using Wide = std::conditional_t<(sizeof(T) < 4), uint32_t, T>;
  constexpr int64_t kBlockK = 128, kBlockN = 512;
  std::fill_n(c, g.m * g.n, T{});
  static thread_local std::unique_ptr<T[]> packed;
  if (g.trans_b && !packed) packed = std::make_unique<T[]>(kBlockK * kBlockN);
  for (int64_t p0 = 0; p0 < g.k; p0 += kBlockK) {
    const int64_t p_end = std::min(g.k, p0 + kBlockK);
    for (int64_t j0 = 0; j0 < g.n; j0 += kBlockN) {
      const int64_t width = std::min(g.n - j0, kBlockN);
      const T* block = b + p0 * g.ldb + j0;
      int64_t block_stride = g.ldb;
      if (g.trans_b) {
        for (int64_t j = 0; j < width; ++j)
          for (int64_t p = p0; p < p_end; ++p)
            packed[(p - p0) * kBlockN + j] = b[(j0 + j) * g.ldb + p];
        block = packed.get();
        block_stride = kBlockN;
      }
      for (int64_t i = 0; i < g.m; ++i) {
        T* __restrict row = c + i * g.n + j0;
        for (int64_t p = p0; p < p_end; ++p) {
          const Wide factor = g.trans_a ? a[p * g.lda + i] : a[i * g.lda + p];
          const T* __restrict source = block + (p - p0) * block_stride;
          for (int64_t j = 0; j < width; ++j) row[j] = static_cast<T>(row[j] + factor * source[j]);
        }
      }
    }
  }
}

template <typename T>
T product(T a, T b) {
  return a * b;
}
// Without the care that std::complex takes of infinities.
template <typename T>
std::complex<T> product(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <typename T>
void tiny_gemm(const Gemm& g, const T* a, const T* b, T* c) {
  const int64_t a_row = g.trans_a ? 1 : g.lda, a_col = g.trans_a ? g.lda : 1;
  const int64_t b_row = g.trans_b ? 1 : g.ldb, b_col = g.trans_b ? g.ldb : 1;
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      T sum{};
      for (int64_t p = 0; p < g.k; ++p)
        sum += product(a[i * a_row + p * a_col], b[p * b_row + j * b_col]);
      c[i * g.n + j] = sum;
    }
}

bool is_tiny(const Gemm& g) { return g.m * g.n * g.k <= kTinyWork; }

CBLAS_TRANSPOSE blas_trans(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

blasint blas_size(int64_t size) {
  if (size > INT32_MAX) throw_user("matrix multiplication: a dimension of {} is too large", size);
  return static_cast<blasint>(size);
}

// A vector times a matrix, either way round: y = matrix * x by a function such as cblas_sgemv.
template <typename T, typename Function>
bool vector_product(const Gemm& g, const T* a, const T* b, T* c, Function gemv) {
  if (g.m != 1 && g.n != 1) return false;
  const bool row = g.m == 1;
  const T *matrix = row ? b : a, *x = row ? a : b;
  const int64_t leading = row ? g.ldb : g.lda;
  const int64_t step = row ? (g.trans_a ? g.lda : 1) : (g.trans_b ? 1 : g.ldb);
  // As it is stored, rows by columns; the sum goes along columns where it is not transposed.
  const bool sums_rows = row ? !g.trans_b : g.trans_a;
  const int64_t outer = row ? g.n : g.m;
  std::fill_n(c, outer, T{0});
  gemv(CblasRowMajor, blas_trans(sums_rows), blas_size(sums_rows ? g.k : outer),
       blas_size(sums_rows ? outer : g.k), T{1}, matrix, blas_size(leading), x, blas_size(step),
       T{1}, c, 1);
  return true;
}

bool is_small(const Gemm& g) {
  const bool is_skinny = std::max(g.m * g.k, g.k * g.n) > kLargeMatrix;
  return g.m * g.n * g.k < kSmallWork && !is_skinny;
}

// The libraries add up the products of vectors and of small matrices one after the other, and
// those of large ones in blocks of some hundred.
int64_t longest_sum(const Gemm& g) {
  constexpr int64_t kOneByOne = 1024, kInBlocks = 16384;
  Gemm slice = g;
  slice.k = std::min(g.k, kInBlocks);
  return g.m == 1 || g.n == 1 || is_small(slice) ? kOneByOne : kInBlocks;
}

// Larger results are left to the libraries: the sums of a product in slices need memory.
constexpr int64_t kMostSums = 1 << 16;

void one_gemm_f32(const Gemm& g, const float* a, const float* b, float* c) {
  if (g.m == 1 && g.n == 1 && g.k >= 64) {
    *c = cblas_sdot(blas_size(g.k), a, blas_size(g.trans_a ? g.lda : 1), b,
                    blas_size(g.trans_b ? 1 : g.ldb));
    return;
  }
  if (is_tiny(g)) return tiny_gemm(g, a, b, c);
  if (vector_product(g, a, b, c, cblas_sgemv)) return;
  if (is_small(g))
    return cblas_sgemm(CblasRowMajor, blas_trans(g.trans_a), blas_trans(g.trans_b), blas_size(g.m),
                       blas_size(g.n), blas_size(g.k), 1.0f, a, blas_size(g.lda), b,
                       blas_size(g.ldb), 0.0f, c, blas_size(g.n));
  const dnnl_status_t status = dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', g.m, g.n,
                                          g.k, 1.0f, a, g.lda, b, g.ldb, 0.0f, c, g.n);
  internal_check(status == dnnl_success, "dnnl_sgemm failed");
}

// Long sums in slices, so that their error does not grow with their length.
void gemm_f32(const Gemm& g, const float* a, const float* b, float* c) {
  if (!is_tiny(g)) apply_library_threads();
  const int64_t step = longest_sum(g), count = g.m * g.n;
  if (g.k <= step || count > kMostSums) return one_gemm_f32(g, a, b, c);
  using Total = reduce_detail::Total<float>;
  static thread_local std::vector<Total> totals;
  totals.assign(static_cast<size_t>(count), Total::of(0));
  for (int64_t p = 0; p < g.k; p += step) {
    Gemm slice = g;
    slice.k = std::min(step, g.k - p);
    one_gemm_f32(slice, a + (g.trans_a ? p * g.lda : p), b + (g.trans_b ? p : p * g.ldb), c);
    for (int64_t i = 0; i < count; ++i) totals[static_cast<size_t>(i)].add(c[i]);
  }
  for (int64_t i = 0; i < count; ++i) c[i] = totals[static_cast<size_t>(i)].value();
}

void gemm_f64(const Gemm& g, const double* a, const double* b, double* c) {
  if (is_tiny(g)) return tiny_gemm(g, a, b, c);
  apply_library_threads();
  if (vector_product(g, a, b, c, cblas_dgemv)) return;
  cblas_dgemm(CblasRowMajor, blas_trans(g.trans_a), blas_trans(g.trans_b), blas_size(g.m),
              blas_size(g.n), blas_size(g.k), 1.0, a, blas_size(g.lda), b, blas_size(g.ldb), 0.0, c,
              blas_size(g.n));
}

template <typename Complex, typename Function>
void gemm_complex(const Gemm& g, const void* a, const void* b, void* c, Function function) {
  if (is_tiny(g))
    return tiny_gemm(g, static_cast<const Complex*>(a), static_cast<const Complex*>(b),
                     static_cast<Complex*>(c));
  apply_library_threads();
  const Complex one{1}, zero{0};
  function(CblasRowMajor, blas_trans(g.trans_a), blas_trans(g.trans_b), blas_size(g.m),
           blas_size(g.n), blas_size(g.k), &one, a, blas_size(g.lda), b, blas_size(g.ldb), &zero, c,
           blas_size(g.n));
}

}  // namespace

bool has_gemm(DType dtype) {
  return is_integer(dtype) || dtype == DType::F32 || dtype == DType::F64 || is_complex(dtype);
}

void gemm(DType dtype, const Gemm& g, const void* a, const void* b, void* c) {
  if (g.m == 0 || g.n == 0) return;
  if (g.k == 0) {
    std::memset(c, 0, static_cast<size_t>(g.m * g.n) * byte_size(dtype));
    return;
  }
  auto integer = [&]<typename T>(T) {
    blocked_gemm(g, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<T*>(c));
  };
  switch (dtype) {
    case DType::F32:
      return gemm_f32(g, static_cast<const float*>(a), static_cast<const float*>(b),
                      static_cast<float*>(c));
    case DType::F64:
      return gemm_f64(g, static_cast<const double*>(a), static_cast<const double*>(b),
                      static_cast<double*>(c));
    case DType::C64:
      return gemm_complex<std::complex<float>>(g, a, b, c, cblas_cgemm);
    case DType::C128:
      return gemm_complex<std::complex<double>>(g, a, b, c, cblas_zgemm);
    case DType::I8:
    case DType::U8:
      return integer(uint8_t{});
    case DType::I16:
    case DType::U16:
      return integer(uint16_t{});
    case DType::I32:
    case DType::U32:
      return integer(uint32_t{});
    case DType::I64:
    case DType::U64:
      return integer(uint64_t{});
    default:
      throw_internal("no matrix multiplication for {}", name(dtype));
  }
}

}  // namespace cleave
