#pragma once

#include <span>
#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

// An order of the elements of a dtype other than complex. Floats are in totalOrder (-NaN < -inf <
// -0 < +0 < inf < NaN) unless told to take zeros or NaNs as one.
struct KeyOrder {
  bool descending = false;
  bool merge_zeros = false;  // -0 as +0
  bool merge_nans = false;   // every NaN as the greatest value
};

// U64 numbers that compare as the elements do in the order.
Array sort_keys(const Array& array, const KeyOrder& order);
bool has_nan(const Array& array);  // of a float dtype

// Sorts all operands along `dim`, slice by slice, by their keys: those of keys[0], where equal
// those of keys[1], and so on; equal elements keep their order. Keys have the operands' shape.
std::vector<Array> sort_by_keys(std::span<const Array> operands, std::span<const Array> keys,
                                int64_t dim);

// The k first elements along the last dimension in descending order, and their indices as I32.
std::vector<Array> top_k(const Array& array, int64_t k);

}  // namespace cleave
