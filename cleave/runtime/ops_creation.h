#pragma once

#include <optional>

#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

// New tensors. They are on one device until they meet others or `shard` places them.
namespace cleave {

Tensor full(const Shape& shape, const Scalar& value, DType dtype);
Tensor zeros(const Shape& shape, DType dtype = DType::F32);
Tensor ones(const Shape& shape, DType dtype = DType::F32);
// With the dtype, shape and layout of another.
Tensor full_like(const Tensor& x, const Scalar& value);
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);

// 0, 1, 2, ... along a dimension.
Tensor iota(const Shape& shape, int64_t dim, DType dtype = DType::I32);
// start, start + step, ... before stop. Without a dtype: i32, or f32 if one of them is a float.
Tensor arange(const Scalar& start, const Scalar& stop, const Scalar& step = 1,
              std::optional<DType> dtype = std::nullopt);
Tensor arange(const Scalar& stop);
// `count` numbers from start to stop, both included.
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::F32);
Tensor eye(int64_t rows, std::optional<int64_t> columns = std::nullopt, DType dtype = DType::F32);

}  // namespace cleave
