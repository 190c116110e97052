#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/runtime/tensor.h"

namespace cleave {

// The product over the last dimension of a and the second to last of b; dimensions before them are
// batches and broadcast. A vector is a row on the left and a column on the right.
//   [8, 4] x [4, 3] -> [8, 3]     [2, 1, 8, 4] x [5, 4, 3] -> [2, 5, 8, 3]     [4] x [4] -> []
// Over a contracting dimension that is sharded, the result is a pending sum.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);  // of vectors
// Einstein's notation, contracted from left to right. An ellipsis stands for the dimensions that no
// letter names; those of several operands broadcast.
//   einsum("bqd,bkd->bqk", {q, k})     einsum("ij->ji", {x})     einsum("...i,ij->...j", {x, w})
Tensor einsum(std::string_view equation, std::span<const Tensor> operands);
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands) {
  return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()));
}

// The triangle L with L L^T = a (upper: L^T L) of symmetric matrices in the last two dimensions.
Tensor cholesky(const Tensor& a, bool lower = true);
struct SolveOptions {
  bool left = true, lower = true, unit_diagonal = false, transpose = false;
};
// x with a x = b (left: false, x a = b), a triangular.
Tensor triangular_solve(const Tensor& a, const Tensor& b, const SolveOptions& options = {});
// Fourier transforms of the last dimension; `irfft` gives `length` real numbers.
Tensor fft(const Tensor& x);
Tensor ifft(const Tensor& x);
Tensor rfft(const Tensor& x);
Tensor irfft(const Tensor& x, int64_t length);

}  // namespace cleave
