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

// The same for n elements that lie `stride` elements apart, without an allocation.
void sort_keys(DType dtype, const std::byte* data, int64_t n, int64_t stride, const KeyOrder& order,
               uint64_t* keys);
bool has_nan(DType dtype, const std::byte* data, int64_t n, int64_t stride);

// Which elements of a row of n come first, by their keys as in sort_by_keys: order[i] is the place
// of element i of the sorted row, for i < count. `scratch` has row_scratch_bytes(n).
void order_row(std::span<const uint64_t* const> keys, int64_t n, int64_t count, std::byte* scratch,
               uint32_t* order);
size_t row_scratch_bytes(int64_t n);
void permute_row(int element_size, const std::byte* from, std::byte* to, const uint32_t* order,
                 int64_t count);

// Sorts all operands along `dim`, slice by slice, by their keys: by keys[0] first, if those are
// equal by keys[1], and so on; equal elements keep their order. Keys have the operands' shape.
std::vector<Array> sort_by_keys(std::span<const Array> operands, std::span<const Array> keys,
                                int64_t dim);

// The k first elements along the last dimension in descending order, and their indices as I32.
std::vector<Array> top_k(const Array& array, int64_t k);

}  // namespace cleave
