#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

// Diagonals, products of vectors and matrices, and numbers that are close, as in NumPy.
namespace cleave {

// Of a vector: the matrix with it on the k-th diagonal (above the main one if k is positive). Of
// matrices [..., m, n]: their k-th diagonals.
//   diag([3], 1) -> [4, 4]     diag([3, 4]) -> [3]
Tensor diag(const Tensor& x, int64_t k = 0);
// The k-th diagonal of two dimensions, which becomes the last one.
Tensor diagonal(const Tensor& x, int64_t k = 0, int64_t row_dim = -2, int64_t column_dim = -1);
Tensor trace_of(const Tensor& x, int64_t k = 0);  // the sum of a diagonal of [..., m, n]

Tensor vdot(const Tensor& a, const Tensor& b);   // of all elements, those of a conjugated
Tensor inner(const Tensor& a, const Tensor& b);  // over the last dimensions
Tensor kron(const Tensor& a, const Tensor& b);   // every element of a times b; one rank
Tensor cross(const Tensor& a, const Tensor& b, int64_t dim = -1);  // of vectors of three

// Vectors as coordinates of a grid: result i varies along dimension i. `xy` swaps the first two
// dimensions, as images have them.
std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, bool xy = false);
inline std::vector<Tensor> meshgrid(std::initializer_list<Tensor> vectors, bool xy = false) {
  return meshgrid(std::span<const Tensor>(vectors.begin(), vectors.size()), xy);
}

struct CloseOptions {
  double relative = 1e-5, absolute = 1e-8;
  bool equal_nan = false;
};
// |a - b| <= absolute + relative |b|, by element, and of all elements (one bool). Infinities are
// close to themselves.
Tensor is_close(const Operand& a, const Operand& b, const CloseOptions& options = {});
Tensor allclose(const Operand& a, const Operand& b, const CloseOptions& options = {});

Tensor exp2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor trunc(const Tensor& x);                     // towards zero
Tensor hypot(const Operand& a, const Operand& b);  // sqrt(a^2 + b^2), without overflow
Tensor lerp(const Tensor& a, const Tensor& b, const Operand& weight);  // a + weight (b - a)
Tensor nan_to_num(const Tensor& x, double nan = 0);  // infinities become the largest numbers
Tensor xlogy(const Tensor& x, const Tensor& y);      // x log(y), and 0 where x is 0

}  // namespace cleave
