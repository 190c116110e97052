#pragma once

#include <span>

#include "cleave/kernels/array.h"

// Kernels that move elements. If a view of the operand will do, it is returned.
namespace cleave {

// 0, 1, 2, ... along `dim`, the same along the others: a view of one row.
Array iota(DType dtype, const Shape& shape, size_t dim);
Array reverse(const Array& x, std::span<const int64_t> dims);  // a view
// Edges may be negative (elements are cut off) and `interior` elements stand between two
// neighbours.
//   pad [1 2 3] with 0: low 1, high -1, interior 1 -> [0 1 0 2 0]
Array pad(const Array& x, const Array& value, const Shape& low, const Shape& high,
          const Shape& interior);
Shape padded_shape(const Shape& shape, const Shape& low, const Shape& high, const Shape& interior);
Array concatenate(std::span<const Array> arrays, size_t dim);
// A view. Starts are moved so that the slice lies inside.
Array dynamic_slice(const Array& x, Shape start, const Shape& size);
// `x` with `update` at `start`; written into x itself if `in_place`, which needs x to be
// contiguous.
Array dynamic_update_slice(const Array& x, const Array& update, Shape start, bool in_place = false);

// Integer arrays as sizes or positions: dense<[2, 3]> -> {2, 3}.
Shape integers_of(const Array& x);
Array array_of_integers(DType dtype, const Shape& values);  // of rank 1
void fill(const Array& target, const Array& scalar);

}  // namespace cleave
