#include "cleave/kernels/sort.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"

namespace cleave {
namespace {

// Bits of a float such that their order as unsigned numbers is totalOrder.
template <typename Bits>
Bits ordered_bits(Bits bits) {
  constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
  return static_cast<Bits>(bits & sign ? ~bits : bits | sign);
}

template <typename Bits>
void float_keys(const std::byte* data, int64_t n, int64_t stride, const KeyOrder& order,
                Bits infinity, uint64_t* keys) {
  constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
  const auto* bits = reinterpret_cast<const Bits*>(data);
  for (int64_t i = 0; i < n; ++i) {
    Bits value = bits[i * stride];
    const auto magnitude = static_cast<Bits>(value & ~sign);
    if (order.merge_zeros && magnitude == 0) value = 0;
    if (order.merge_nans && magnitude > infinity) value = static_cast<Bits>(~sign);
    keys[i] = ordered_bits(value);
  }
}

template <typename T>
void integer_keys(const std::byte* data, int64_t n, int64_t stride, uint64_t* keys) {
  const T* values = reinterpret_cast<const T*>(data);
  for (int64_t i = 0; i < n; ++i) {
    keys[i] = static_cast<uint64_t>(values[i * stride]);
    if constexpr (std::is_signed_v<T>) keys[i] ^= uint64_t{1} << 63;
  }
}

template <typename Bits>
bool any_nan(const std::byte* data, int64_t n, int64_t stride, Bits infinity) {
  constexpr auto magnitude = static_cast<Bits>(~(Bits{1} << (8 * sizeof(Bits) - 1)));
  const auto* bits = reinterpret_cast<const Bits*>(data);
  bool any = false;
  for (int64_t i = 0; i < n; ++i) any |= (bits[i * stride] & magnitude) > infinity;
  return any;
}

// {.., n at dim, ..} -> {..., n}, packed.
Array rows_of(const Array& array, int64_t dim) {
  Shape order;
  for (int64_t d = 0; d < static_cast<int64_t>(array.rank()); ++d)
    if (d != dim) order.push_back(d);
  order.push_back(dim);
  return array.transpose(order).contiguous();
}

// Writes permuted rows back into the order of dimensions that rows_of changed.
Array unrows(const Array& rows, int64_t dim) {
  const auto rank = static_cast<int64_t>(rows.rank());
  Shape order;
  for (int64_t d = 0; d < rank; ++d) order.push_back(d < dim ? d : d == dim ? rank - 1 : d - 1);
  return rows.transpose(order).contiguous();
}

template <typename T>
void permute(const std::byte* from, std::byte* to, const uint32_t* order, int64_t count) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < count; ++i) target[i] = source[order[i]];
}

struct Keyed {
  uint64_t key;
  uint32_t index;
  bool operator<(const Keyed& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

}  // namespace

void permute_row(int size, const std::byte* from, std::byte* to, const uint32_t* order,
                 int64_t count) {
  struct Bytes16 {
    uint64_t parts[2];
  };
  switch (size) {
    case 1:
      return permute<uint8_t>(from, to, order, count);
    case 2:
      return permute<uint16_t>(from, to, order, count);
    case 4:
      return permute<uint32_t>(from, to, order, count);
    case 8:
      return permute<uint64_t>(from, to, order, count);
    default:
      return permute<Bytes16>(from, to, order, count);
  }
}

size_t row_scratch_bytes(int64_t n) { return static_cast<size_t>(n) * sizeof(Keyed); }

void order_row(std::span<const uint64_t* const> keys, int64_t n, int64_t count, std::byte* scratch,
               uint32_t* order) {
  auto* keyed = reinterpret_cast<Keyed*>(scratch);
  for (int64_t i = 0; i < n; ++i) keyed[i] = {keys[0][i], static_cast<uint32_t>(i)};
  const auto compare = [&](const Keyed& a, const Keyed& b) {
    if (a.key != b.key) return a.key < b.key;
    for (size_t k = 1; k < keys.size(); ++k)
      if (keys[k][a.index] != keys[k][b.index]) return keys[k][a.index] < keys[k][b.index];
    return a.index < b.index;
  };
  if (count < n)
    keys.size() == 1 ? std::partial_sort(keyed, keyed + count, keyed + n)
                     : std::partial_sort(keyed, keyed + count, keyed + n, compare);
  else
    keys.size() == 1 ? std::sort(keyed, keyed + n) : std::sort(keyed, keyed + n, compare);
  for (int64_t i = 0; i < count; ++i) order[i] = keyed[i].index;
}

void sort_keys(DType dtype, const std::byte* data, int64_t n, int64_t stride, const KeyOrder& order,
               uint64_t* keys) {
  switch (dtype) {
    case DType::F16:
      float_keys<uint16_t>(data, n, stride, order, 0x7c00, keys);
      break;
    case DType::BF16:
      float_keys<uint16_t>(data, n, stride, order, 0x7f80, keys);
      break;
    case DType::F32:
      float_keys<uint32_t>(data, n, stride, order, 0x7f800000, keys);
      break;
    case DType::F64:
      float_keys<uint64_t>(data, n, stride, order, 0x7ff0000000000000, keys);
      break;
    case DType::Bool:
    case DType::U8:
      integer_keys<uint8_t>(data, n, stride, keys);
      break;
    case DType::U16:
      integer_keys<uint16_t>(data, n, stride, keys);
      break;
    case DType::U32:
      integer_keys<uint32_t>(data, n, stride, keys);
      break;
    case DType::U64:
      integer_keys<uint64_t>(data, n, stride, keys);
      break;
    case DType::I8:
      integer_keys<int8_t>(data, n, stride, keys);
      break;
    case DType::I16:
      integer_keys<int16_t>(data, n, stride, keys);
      break;
    case DType::I32:
      integer_keys<int32_t>(data, n, stride, keys);
      break;
    case DType::I64:
      integer_keys<int64_t>(data, n, stride, keys);
      break;
    default:
      throw_user("sort: {} has no order", name(dtype));
  }
  if (order.descending)
    for (int64_t i = 0; i < n; ++i) keys[i] = ~keys[i];
}

bool has_nan(DType dtype, const std::byte* data, int64_t n, int64_t stride) {
  switch (dtype) {
    case DType::F16:
      return any_nan<uint16_t>(data, n, stride, 0x7c00);
    case DType::BF16:
      return any_nan<uint16_t>(data, n, stride, 0x7f80);
    case DType::F32:
      return any_nan<uint32_t>(data, n, stride, 0x7f800000);
    case DType::F64:
      return any_nan<uint64_t>(data, n, stride, 0x7ff0000000000000);
    default:
      return false;
  }
}

Array sort_keys(const Array& array, const KeyOrder& order) {
  const Array packed = array.contiguous();
  Array result(DType::U64, array.shape());
  sort_keys(array.dtype(), packed.raw(), packed.num_elements(), 1, order, result.data<uint64_t>());
  return result;
}

bool has_nan(const Array& array) {
  const Array packed = array.contiguous();
  return has_nan(packed.dtype(), packed.raw(), packed.num_elements(), 1);
}

std::vector<Array> sort_by_keys(std::span<const Array> operands, std::span<const Array> keys,
                                int64_t dim) {
  const int64_t n = operands[0].shape()[dim];
  const int64_t rows = n == 0 ? 0 : operands[0].num_elements() / n;
  std::vector<Array> key_rows, operand_rows, results;
  for (const Array& key : keys) key_rows.push_back(rows_of(key, dim));
  for (const Array& operand : operands) {
    operand_rows.push_back(rows_of(operand, dim));
    results.emplace_back(operand.dtype(), operand_rows.back().shape());
  }
  std::vector<std::byte> scratch(row_scratch_bytes(n));
  std::vector<uint32_t> order(static_cast<size_t>(n));
  std::vector<const uint64_t*> row_keys(keys.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (size_t k = 0; k < keys.size(); ++k) row_keys[k] = key_rows[k].data<uint64_t>() + row * n;
    order_row(row_keys, n, n, scratch.data(), order.data());
    for (size_t k = 0; k < results.size(); ++k) {
      const int size = byte_size(results[k].dtype());
      permute_row(size, operand_rows[k].raw() + row * n * size, results[k].raw() + row * n * size,
                  order.data(), n);
    }
  }
  for (Array& result : results) result = unrows(result, dim);
  return results;
}

std::vector<Array> top_k(const Array& array, int64_t k) {
  const Array packed = array.contiguous();
  const Array keys = sort_keys(packed, {.descending = true});
  const int64_t n = array.shape().back();
  Shape shape = array.shape();
  shape.back() = k;
  Array values(array.dtype(), shape), indices(DType::I32, shape);
  const int64_t rows = k == 0 ? 0 : num_elements(shape) / k;
  const int size = byte_size(array.dtype());
  std::vector<std::byte> scratch(row_scratch_bytes(n));
  std::vector<uint32_t> order(static_cast<size_t>(k));
  for (int64_t row = 0; row < rows; ++row) {
    const uint64_t* const row_keys = keys.data<uint64_t>() + row * n;
    order_row({&row_keys, 1}, n, k, scratch.data(), order.data());
    for (int64_t i = 0; i < k; ++i)
      indices.data<int32_t>()[row * k + i] = static_cast<int32_t>(order[i]);
    permute_row(size, packed.raw() + row * n * size, values.raw() + row * k * size, order.data(),
                k);
  }
  return {values, indices};
}

}  // namespace cleave
