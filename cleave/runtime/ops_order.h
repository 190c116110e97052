#pragma once

#include <cstdint>
#include <optional>

#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/tensor.h"

// Order statistics, counts, and reductions by group.
namespace cleave {

// The value below which a part q of the elements lies, between two of them if need be; along a
// dimension, or of all elements. A NaN makes it NaN.
Tensor quantile(const Tensor& x, double q, std::optional<int64_t> dim = std::nullopt,
                bool keep = false);
Tensor median(const Tensor& x, std::optional<int64_t> dim = std::nullopt, bool keep = false);

// log(sum of exp) of all elements up to each.
Tensor logcumsumexp(const Tensor& x, int64_t dim, bool reverse = false);
// Without the NaNs.
Tensor nansum(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor nanmean(const Tensor& x, const Dims& dims = {}, bool keep = false);
Tensor count_nonzero(const Tensor& x, const Dims& dims = {}, bool keep = false);  // i32

// For each value, how many elements of the ascending vector `sorted` are less (right: less or
// equal): the place at which it would be put in (i32). Every value is compared with every element.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

// How often 0, 1, ..., length - 1 occur in a vector of integers, or the sums of their weights;
// other numbers are left out.
Tensor bincount(const Tensor& x, int64_t length, const Tensor& weights = {});
// Rows of `data` with one id, combined: row i of the result is of the rows with id i. A group
// without rows is 0 (max: minus infinity; min: infinity). Ids outside of [0, segments) are left
// out.
//   segment_sum([10, 4], ids [10], 3) -> [3, 4]
Tensor segment_sum(const Tensor& data, const Tensor& ids, int64_t segments);
Tensor segment_mean(const Tensor& data, const Tensor& ids, int64_t segments);
Tensor segment_max(const Tensor& data, const Tensor& ids, int64_t segments);
Tensor segment_min(const Tensor& data, const Tensor& ids, int64_t segments);

}  // namespace cleave
