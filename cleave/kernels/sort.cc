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
void float_keys(const Array& array, const KeyOrder& order, Bits infinity, uint64_t* keys) {
  constexpr Bits sign = Bits{1} << (8 * sizeof(Bits) - 1);
  const auto* bits = reinterpret_cast<const Bits*>(array.raw());
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    Bits value = bits[i];
    const auto magnitude = static_cast<Bits>(value & ~sign);
    if (order.merge_zeros && magnitude == 0) value = 0;
    if (order.merge_nans && magnitude > infinity) value = static_cast<Bits>(~sign);
    keys[i] = ordered_bits(value);
  }
}

template <typename T>
void integer_keys(const Array& array, uint64_t* keys) {
  const T* values = array.data<T>();
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    keys[i] = static_cast<uint64_t>(values[i]);
    if constexpr (std::is_signed_v<T>) keys[i] ^= uint64_t{1} << 63;
  }
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
void permute(const std::byte* from, std::byte* to, const std::vector<uint32_t>& order) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < order.size(); ++i) target[i] = source[order[i]];
}

void permute_row(int size, const std::byte* from, std::byte* to,
                 const std::vector<uint32_t>& order) {
  struct Bytes16 {
    uint64_t parts[2];
  };
  switch (size) {
    case 1:
      return permute<uint8_t>(from, to, order);
    case 2:
      return permute<uint16_t>(from, to, order);
    case 4:
      return permute<uint32_t>(from, to, order);
    case 8:
      return permute<uint64_t>(from, to, order);
    default:
      return permute<Bytes16>(from, to, order);
  }
}

struct Keyed {
  uint64_t key;
  uint32_t index;
  bool operator<(const Keyed& other) const {
    return key != other.key ? key < other.key : index < other.index;
  }
};

}  // namespace

Array sort_keys(const Array& array, const KeyOrder& order) {
  const Array packed = array.contiguous();
  Array result(DType::U64, array.shape());
  auto* keys = result.data<uint64_t>();
  switch (array.dtype()) {
    case DType::F16:
      float_keys<uint16_t>(packed, order, 0x7c00, keys);
      break;
    case DType::BF16:
      float_keys<uint16_t>(packed, order, 0x7f80, keys);
      break;
    case DType::F32:
      float_keys<uint32_t>(packed, order, 0x7f800000, keys);
      break;
    case DType::F64:
      float_keys<uint64_t>(packed, order, 0x7ff0000000000000, keys);
      break;
    case DType::Bool:
    case DType::U8:
      integer_keys<uint8_t>(packed, keys);
      break;
    case DType::U16:
      integer_keys<uint16_t>(packed, keys);
      break;
    case DType::U32:
      integer_keys<uint32_t>(packed, keys);
      break;
    case DType::U64:
      integer_keys<uint64_t>(packed, keys);
      break;
    case DType::I8:
      integer_keys<int8_t>(packed, keys);
      break;
    case DType::I16:
      integer_keys<int16_t>(packed, keys);
      break;
    case DType::I32:
      integer_keys<int32_t>(packed, keys);
      break;
    case DType::I64:
      integer_keys<int64_t>(packed, keys);
      break;
    default:
      throw_user("sort: {} has no order", name(array.dtype()));
  }
  if (order.descending)
    for (int64_t i = 0; i < result.num_elements(); ++i) keys[i] = ~keys[i];
  return result;
}

bool has_nan(const Array& array) {
  const Array wide =
      convert(array, array.dtype() == DType::F64 ? DType::F64 : DType::F32).contiguous();
  auto any = [&]<typename T>(const T* values) {
    return std::any_of(values, values + wide.num_elements(), [](T x) { return std::isnan(x); });
  };
  return wide.dtype() == DType::F64 ? any(wide.data<double>()) : any(wide.data<float>());
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
  std::vector<Keyed> keyed(static_cast<size_t>(n));
  std::vector<uint32_t> order(static_cast<size_t>(n));
  for (int64_t row = 0; row < rows; ++row) {
    auto key = [&](size_t k) { return key_rows[k].data<uint64_t>() + row * n; };
    for (int64_t i = 0; i < n; ++i) keyed[i] = {key(0)[i], static_cast<uint32_t>(i)};
    if (keys.size() == 1) {
      std::sort(keyed.begin(), keyed.end());
    } else {
      std::sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
        if (a.key != b.key) return a.key < b.key;
        for (size_t k = 1; k < keys.size(); ++k)
          if (key(k)[a.index] != key(k)[b.index]) return key(k)[a.index] < key(k)[b.index];
        return a.index < b.index;
      });
    }
    for (int64_t i = 0; i < n; ++i) order[i] = keyed[i].index;
    for (size_t k = 0; k < results.size(); ++k) {
      const int size = byte_size(results[k].dtype());
      permute_row(size, operand_rows[k].raw() + row * n * size, results[k].raw() + row * n * size,
                  order);
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
  std::vector<Keyed> keyed(static_cast<size_t>(n));
  std::vector<uint32_t> order(static_cast<size_t>(k));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < n; ++i)
      keyed[i] = {keys.data<uint64_t>()[row * n + i], static_cast<uint32_t>(i)};
    std::partial_sort(keyed.begin(), keyed.begin() + k, keyed.end());
    for (int64_t i = 0; i < k; ++i) {
      order[i] = keyed[i].index;
      indices.data<int32_t>()[row * k + i] = static_cast<int32_t>(keyed[i].index);
    }
    permute_row(size, packed.raw() + row * n * size, values.raw() + row * k * size, order);
  }
  return {values, indices};
}

}  // namespace cleave
