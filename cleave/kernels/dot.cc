#include "cleave/kernels/dot.h"

#include <algorithm>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/gemm.h"
#include "cleave/kernels/workspace.h"

namespace cleave {
namespace {

// The stride of dimensions [begin, end) seen as one dimension, or nothing where they are not one.
std::optional<int64_t> merged_stride(const Array& array, size_t begin, size_t end) {
  std::optional<int64_t> stride, expected;
  for (size_t d = end; d-- > begin;) {
    if (array.shape()[d] == 1) continue;
    if (expected && array.strides()[d] != *expected) return std::nullopt;
    if (!stride) stride = array.strides()[d];
    expected = array.strides()[d] * array.shape()[d];
  }
  return stride.value_or(1);
}

// An operand as batches of matrices: dimensions are batch..., rows..., columns...
struct Matrices {
  Array array;
  size_t num_batch = 0;
  int64_t rows = 1, cols = 1;
  bool transposed = false;  // columns are the slow dimension
  int64_t leading = 1;
};

std::optional<Matrices> as_matrices(const Array& array, size_t num_batch, size_t num_rows) {
  Matrices m{array, num_batch};
  for (size_t d = num_batch; d < array.rank(); ++d)
    (d < num_batch + num_rows ? m.rows : m.cols) *= array.shape()[d];
  auto row_stride = merged_stride(array, num_batch, num_batch + num_rows);
  auto col_stride = merged_stride(array, num_batch + num_rows, array.rank());
  if (!row_stride || !col_stride) return std::nullopt;
  // A dimension of one element has any stride that suits.
  if (m.cols == 1) col_stride = m.rows == 1 || *row_stride != 1 ? 1 : std::max<int64_t>(m.rows, 1);
  if (m.rows == 1) row_stride = *col_stride == 1 ? std::max<int64_t>(m.cols, 1) : 1;
  if (*col_stride == 1 && *row_stride >= std::max<int64_t>(m.cols, 1)) {
    m.leading = *row_stride;
  } else if (*row_stride == 1 && *col_stride >= std::max<int64_t>(m.rows, 1)) {
    m.transposed = true;
    m.leading = *col_stride;
  } else {
    return std::nullopt;
  }
  return m;
}

Matrices to_matrices(const Array& array, size_t num_batch, size_t num_rows) {
  if (auto m = as_matrices(array, num_batch, num_rows)) return *m;
  auto m = as_matrices(array.copy(), num_batch, num_rows);
  internal_check(m.has_value(), "a packed array is a batch of matrices");
  return *m;
}

std::vector<int64_t> free_dims(size_t rank, const std::vector<int64_t>& a,
                               const std::vector<int64_t>& b) {
  std::vector<int64_t> result;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (std::ranges::find(a, d) == a.end() && std::ranges::find(b, d) == b.end())
      result.push_back(d);
  return result;
}

Array permuted(const Array& array, const std::vector<int64_t>& a, const std::vector<int64_t>& b,
               const std::vector<int64_t>& c) {
  Shape order = a;
  order.insert(order.end(), b.begin(), b.end());
  order.insert(order.end(), c.begin(), c.end());
  return array.transpose(order);
}

// A product of two packed matrices, which needs none of the rearrangement below.
std::optional<Array> plain_product(const Array& lhs, const Array& rhs, const DotDims& dims,
                                   DType result) {
  if (lhs.rank() != 2 || rhs.rank() != 2 || !dims.lhs_batch.empty() ||
      dims.lhs_contract.size() != 1 || lhs.dtype() != result || rhs.dtype() != result ||
      !has_gemm(result) || !lhs.is_contiguous() || !rhs.is_contiguous())
    return std::nullopt;
  const int64_t a = dims.lhs_contract[0], b = dims.rhs_contract[0];
  const Gemm shape{lhs.shape()[1 - a],
                   rhs.shape()[1 - b],
                   lhs.shape()[a],
                   a == 0,
                   b == 1,
                   std::max<int64_t>(lhs.shape()[1], 1),
                   std::max<int64_t>(rhs.shape()[1], 1)};
  Array product(result, {shape.m, shape.n});
  gemm(result, shape, lhs.raw(), rhs.raw(), product.raw());
  return product;
}

}  // namespace

DType dot_compute_type(DType lhs, DType rhs, DType result) {
  if (result == DType::Bool) return DType::I32;
  if (is_integer(result)) return result;
  const bool is_double = lhs == DType::F64 || rhs == DType::F64 || result == DType::F64 ||
                         lhs == DType::C128 || rhs == DType::C128 || result == DType::C128;
  if (is_complex(lhs) || is_complex(rhs) || is_complex(result))
    return is_double ? DType::C128 : DType::C64;
  return is_double ? DType::F64 : DType::F32;
}

int64_t dot_workspace(const Array& lhs, const Array& rhs, const DotDims& dims, DType result_type) {
  const bool bf16 = lhs.dtype() == DType::BF16 && rhs.dtype() == DType::BF16 &&
                    (result_type == DType::BF16 || result_type == DType::F32) && has_bf16_gemm();
  const DType type = bf16 ? DType::BF16 : dot_compute_type(lhs.dtype(), rhs.dtype(), result_type);
  const auto lhs_free = free_dims(lhs.rank(), dims.lhs_batch, dims.lhs_contract);
  const auto rhs_free = free_dims(rhs.rank(), dims.rhs_batch, dims.rhs_contract);
  int64_t bytes = 0;
  auto prepare = [&](const Array& array, const std::vector<int64_t>& batch,
                     const std::vector<int64_t>& rows, const std::vector<int64_t>& cols) {
    const int64_t packed = array.num_elements() * byte_size(type);
    Array view = array;
    if (array.dtype() != type) {
      bytes += packed;
      view = Array(type, array.shape(), row_major_strides(array.shape()), 0, array.buffer());
    }
    if (!as_matrices(permuted(view, batch, rows, cols), batch.size(), rows.size())) bytes += packed;
  };
  prepare(lhs, dims.lhs_batch, lhs_free, dims.lhs_contract);
  prepare(rhs, dims.rhs_batch, dims.rhs_contract, rhs_free);
  if (!bf16 && type != result_type) {
    int64_t elements = 1;
    for (int64_t d : dims.lhs_batch) elements *= lhs.shape()[d];
    for (int64_t d : lhs_free) elements *= lhs.shape()[d];
    for (int64_t d : rhs_free) elements *= rhs.shape()[d];
    bytes += elements * byte_size(type);
  }
  return bytes;
}

Array dot_general(const Array& lhs, const Array& rhs, const DotDims& dims, DType result_type) {
  if (auto product = plain_product(lhs, rhs, dims, result_type)) return *product;
  const bool bf16 = lhs.dtype() == DType::BF16 && rhs.dtype() == DType::BF16 &&
                    (result_type == DType::BF16 || result_type == DType::F32) && has_bf16_gemm();
  const DType type = bf16 ? DType::BF16 : dot_compute_type(lhs.dtype(), rhs.dtype(), result_type);
  const auto lhs_free = free_dims(lhs.rank(), dims.lhs_batch, dims.lhs_contract);
  const auto rhs_free = free_dims(rhs.rank(), dims.rhs_batch, dims.rhs_contract);

  Shape shape;
  for (int64_t d : dims.lhs_batch) shape.push_back(lhs.shape()[d]);
  const Shape batch_shape = shape;
  for (int64_t d : lhs_free) shape.push_back(lhs.shape()[d]);
  for (int64_t d : rhs_free) shape.push_back(rhs.shape()[d]);
  Array result(bf16 ? result_type : type, shape);
  int64_t contracted = 1;
  for (int64_t d : dims.lhs_contract) contracted *= lhs.shape()[d];
  if (contracted == 0) return Array::zeros(result_type, shape);
  if (result.num_elements() == 0) return Array(result_type, shape);

  const Matrices a =
      to_matrices(permuted(convert(lhs, type), dims.lhs_batch, lhs_free, dims.lhs_contract),
                  dims.lhs_batch.size(), lhs_free.size());
  const Matrices b =
      to_matrices(permuted(convert(rhs, type), dims.rhs_batch, dims.rhs_contract, rhs_free),
                  dims.rhs_batch.size(), dims.rhs_contract.size());
  const Gemm shape_of_one{a.rows, b.cols, a.cols, a.transposed, b.transposed, a.leading, b.leading};

  const size_t item = byte_size(type);
  const size_t result_step = static_cast<size_t>(a.rows * b.cols) * byte_size(result.dtype());
  std::byte* out = result.raw();
  Shape index(batch_shape.size());
  int64_t a_offset = 0, b_offset = 0;
  while (true) {
    const std::byte* a_data = a.array.raw() + a_offset * static_cast<int64_t>(item);
    const std::byte* b_data = b.array.raw() + b_offset * static_cast<int64_t>(item);
    if (bf16)
      gemm_bf16(shape_of_one, a_data, b_data, out, result_type);
    else
      gemm(type, shape_of_one, a_data, b_data, out);
    out += result_step;
    size_t d = batch_shape.size();
    while (d-- > 0) {
      a_offset += a.array.strides()[d];
      b_offset += b.array.strides()[d];
      if (++index[d] < batch_shape[d]) break;
      a_offset -= a.array.strides()[d] * batch_shape[d];
      b_offset -= b.array.strides()[d] * batch_shape[d];
      index[d] = 0;
    }
    if (d == SIZE_MAX) break;
  }
  return convert(result, result_type);
}

}  // namespace cleave
