#pragma once

#include <cstdint>

#include "cleave/core/dtype.h"

namespace cleave {

// C = A * B for one pair of matrices. C is row-major and packed (m x n). A and B are row-major with
// a leading dimension, or transposed:
//   trans_a false: A[i, p] = a[i * lda + p]      true: A[i, p] = a[p * lda + i]
//   trans_b false: B[p, j] = b[p * ldb + j]      true: B[p, j] = b[j * ldb + p]
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool trans_a = false, trans_b = false;
  int64_t lda = 0, ldb = 0;
};

// Whether gemm() takes the dtype for operands and result: F32, F64, C64, C128, integers.
bool has_gemm(DType dtype);
// All of one dtype. F32 by oneDNN, F64, C64 and C128 by OpenBLAS, integers wrap around.
void gemm(DType dtype, const Gemm& shape, const void* a, const void* b, void* c);

// BF16 operands, result BF16 or F32, sums in F32, by oneDNN.
bool has_bf16_gemm();  // whether this processor computes it without emulation
void gemm_bf16(const Gemm& shape, const void* a, const void* b, void* c, DType result);

}  // namespace cleave
