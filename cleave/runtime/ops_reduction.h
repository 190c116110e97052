#pragma once

#include <vector>

#include "cleave/runtime/tensor.h"

// Reductions over dimensions (none given: all), which go, or stay with size 1 (`keep`). Over a
// sharded dimension the result is pending: a sum of sums, a maximum of maxima.
namespace cleave {

using Dims = std::vector<int64_t>;

// Small integers and bools are summed as i32 (unsigned: u32).
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor max(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor min(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor any(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor all(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keep = false);
// The mean of squared differences from the mean, times n / (n - correction).
Tensor var(const Tensor& x, const Dims& dims = {}, bool keep = false, double correction = 0);
Tensor stddev(const Tensor& x, const Dims& dims = {}, bool keep = false, double correction = 0);
// (sum |x|^order)^(1/order); infinity: the largest.
Tensor norm(const Tensor& x, double order = 2, const Dims& dims = {}, bool keep = false);
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keep = false);

// The place of the first largest (smallest) element along a dimension, i32; a NaN is the largest
// (smallest).
Tensor argmax(const Tensor& x, int64_t dim, bool keep = false);
Tensor argmin(const Tensor& x, int64_t dim, bool keep = false);

// Running reductions along a dimension.
Tensor cumsum(const Tensor& x, int64_t dim, bool reverse = false);
Tensor cumprod(const Tensor& x, int64_t dim, bool reverse = false);
Tensor cummax(const Tensor& x, int64_t dim, bool reverse = false);
Tensor cummin(const Tensor& x, int64_t dim, bool reverse = false);

// Sorted along a dimension, ascending unless said otherwise; stable. NaNs come last.
Tensor sort(const Tensor& x, int64_t dim = -1, bool descending = false);
Tensor argsort(const Tensor& x, int64_t dim = -1, bool descending = false);  // i32
struct TopK {
  Tensor values, indices;
};
// The k largest along the last dimension, largest first, and where they are (i32).
TopK top_k(const Tensor& x, int64_t k);

}  // namespace cleave
