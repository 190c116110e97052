#include "cleave/discover/numbers.h"

#include <cmath>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/kernels/float16.h"

namespace cleave {
namespace {

template <typename T>
void read(const Array& array, std::vector<double>& out) {
  const T* data = array.data<T>();
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<double>(data[i]);
}

template <typename T>
void write(Array& array, std::span<const double> values) {
  T* data = array.data<T>();
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_integral_v<T>) {
      data[i] = static_cast<T>(static_cast<int64_t>(values[i]));
    } else {
      data[i] = static_cast<T>(values[i]);
    }
  }
}

// Calls `visit` with a value of the C++ type of `dtype`.
template <typename Visit>
void with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::F64:
      return visit(double{});
    case DType::F32:
      return visit(float{});
    case DType::F16:
      return visit(_Float16{});
    case DType::I8:
      return visit(int8_t{});
    case DType::I16:
      return visit(int16_t{});
    case DType::I32:
      return visit(int32_t{});
    case DType::I64:
      return visit(int64_t{});
    case DType::U8:
      return visit(uint8_t{});
    case DType::U16:
      return visit(uint16_t{});
    case DType::U32:
      return visit(uint32_t{});
    case DType::U64:
      return visit(uint64_t{});
    default:
      throw_user("discovery does not cover arrays of {}", name(dtype));
  }
}

}  // namespace

std::vector<double> to_doubles(const Array& array) {
  const Array packed = array.contiguous();
  std::vector<double> values(static_cast<size_t>(array.num_elements()));
  if (array.dtype() == DType::Bool) {
    read<uint8_t>(packed, values);
  } else if (array.dtype() == DType::BF16) {
    const bfloat16* data = packed.data<bfloat16>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(data[i]);
  } else {
    with_type(array.dtype(), [&](auto zero) { read<decltype(zero)>(packed, values); });
  }
  return values;
}

Array from_doubles(DType dtype, const Shape& shape, std::span<const double> values) {
  Array array(dtype, shape);
  if (dtype == DType::Bool) {
    uint8_t* data = array.data<uint8_t>();
    for (size_t i = 0; i < values.size(); ++i) data[i] = values[i] != 0;
  } else if (dtype == DType::BF16) {
    bfloat16* data = array.data<bfloat16>();
    for (size_t i = 0; i < values.size(); ++i) data[i] = bfloat16(static_cast<float>(values[i]));
  } else {
    with_type(dtype, [&](auto zero) { write<decltype(zero)>(array, values); });
  }
  return array;
}

uint64_t NumberStream::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double NumberStream::normal() {
  const double u = 1.0 - uniform(), v = uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v);
}

}  // namespace cleave
