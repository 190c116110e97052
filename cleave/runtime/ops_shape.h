#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

// Ops that move elements. Dimensions may be negative: they count from the end.
namespace cleave {

// One size may be -1: what is left.
Tensor reshape(const Tensor& x, const Shape& shape);
Tensor transpose(const Tensor& x, const std::vector<int64_t>& permutation = {});  // {}: reversed
Tensor swap_dims(const Tensor& x, int64_t a, int64_t b);
Tensor expand_dims(const Tensor& x, int64_t dim);  // a dimension of size 1 before `dim`
Tensor squeeze(const Tensor& x, const std::vector<int64_t>& dims = {});  // {}: all of size 1
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor flatten(const Tensor& x);

Tensor concat(std::span<const Tensor> tensors, int64_t dim);
inline Tensor concat(std::initializer_list<Tensor> tensors, int64_t dim) {
  return concat(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}
Tensor stack(std::span<const Tensor> tensors, int64_t dim = 0);  // along a new dimension
inline Tensor stack(std::initializer_list<Tensor> tensors, int64_t dim = 0) {
  return stack(std::span<const Tensor>(tensors.begin(), tensors.size()), dim);
}
std::vector<Tensor> split(const Tensor& x, int64_t parts, int64_t dim = 0);  // equal parts
std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim);

// Elements start, start + stride, ... before limit, for every dimension.
Tensor slice(const Tensor& x, const std::vector<int64_t>& start, const std::vector<int64_t>& limit,
             const std::vector<int64_t>& strides = {});
// The same along one dimension; a negative bound counts from the end.
Tensor slice_dim(const Tensor& x, int64_t dim, int64_t start, std::optional<int64_t> limit = {},
                 int64_t stride = 1);
// `low` and `high` elements put before and after (negative: cut off), `interior` between two.
Tensor pad(const Tensor& x, const std::vector<int64_t>& low, const std::vector<int64_t>& high,
           const Scalar& value = 0, const std::vector<int64_t>& interior = {});
Tensor flip(const Tensor& x, const std::vector<int64_t>& dims = {});  // {}: all
Tensor roll(const Tensor& x, int64_t shift, int64_t dim);
Tensor repeat(const Tensor& x, int64_t times, int64_t dim);       // each element: a a b b
Tensor tile(const Tensor& x, const std::vector<int64_t>& times);  // the whole: a b a b
// Zeros below (above) the k-th diagonal of the last two dimensions.
Tensor triu(const Tensor& x, int64_t k = 0);
Tensor tril(const Tensor& x, int64_t k = 0);

}  // namespace cleave
