#pragma once

#include <complex>
#include <random>
#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/kernels/float16.h"

// Arrays for tests: small whole numbers (exact in every dtype), read back as complex<double>.
namespace cleave::testing {

using Number = std::complex<double>;

// Calls visit(T{}) with the element type of a dtype.
template <typename Visit>
auto with_type(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::Bool:
      return visit(bool{});
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
    case DType::F16:
      return visit(float16(0.0f));
    case DType::BF16:
      return visit(bfloat16(0.0f));
    case DType::F32:
      return visit(float{});
    case DType::F64:
      return visit(double{});
    case DType::C64:
      return visit(std::complex<float>{});
    default:
      return visit(std::complex<double>{});
  }
}

inline Number element(const Array& array, int64_t offset) {
  return with_type(array.dtype(), [&]<typename T>(T) -> Number {
    const T value = array.data<T>()[offset];
    if constexpr (std::is_convertible_v<T, float>)
      return sizeof(T) == 2 && !std::is_integral_v<T> ? static_cast<float>(value)
                                                      : static_cast<double>(value);
    else
      return Number(value);
  });
}

inline void set_element(Array& array, int64_t offset, Number value) {
  with_type(array.dtype(), [&]<typename T>(T) {
    if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, Number>)
      array.data<T>()[offset] = static_cast<T>(value);
    else if constexpr (std::is_arithmetic_v<T>)
      array.data<T>()[offset] = static_cast<T>(value.real());
    else
      array.data<T>()[offset] = static_cast<T>(static_cast<float>(value.real()));
  });
}

// Elements in row-major order, whatever the strides.
inline std::vector<Number> elements(const Array& array) {
  const Array packed = array.contiguous();
  std::vector<Number> result;
  for (int64_t i = 0; i < packed.num_elements(); ++i) result.push_back(element(packed, i));
  return result;
}

inline Array make_array(DType dtype, Shape shape, const std::vector<Number>& values) {
  Array array(dtype, std::move(shape));
  for (int64_t i = 0; i < array.num_elements(); ++i) set_element(array, i, values[i]);
  return array;
}

// Whole numbers in [low, high], complex ones with an imaginary part as well.
inline Array random_array(std::mt19937& random, DType dtype, Shape shape, int low = -3,
                          int high = 3) {
  if (is_unsigned_integer(dtype) || dtype == DType::Bool) low = 0;
  if (dtype == DType::Bool) high = 1;
  std::uniform_int_distribution<int> pick(low, high);
  Array array(dtype, std::move(shape));
  for (int64_t i = 0; i < array.num_elements(); ++i) {
    const double real = pick(random);
    set_element(array, i, is_complex(dtype) ? Number(real, pick(random)) : Number(real));
  }
  return array;
}

inline const std::vector<DType>& all_dtypes() {
  static const std::vector<DType> types{DType::Bool, DType::I8,  DType::I16,  DType::I32,
                                        DType::I64,  DType::U8,  DType::U16,  DType::U32,
                                        DType::U64,  DType::F16, DType::BF16, DType::F32,
                                        DType::F64,  DType::C64, DType::C128};
  return types;
}

// Calls visit(index) for every index of a shape, in row-major order.
template <typename Visit>
void for_each_index(const Shape& shape, Visit visit) {
  if (num_elements(shape) == 0) return;
  Shape index(shape.size());
  while (true) {
    visit(index);
    size_t d = shape.size();
    while (d-- > 0) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

inline int64_t offset_of(const Array& array, const Shape& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * array.strides()[d];
  return offset;
}

}  // namespace cleave::testing
