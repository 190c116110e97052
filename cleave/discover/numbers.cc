#include "cleave/discover/numbers.h"

#include <cmath>
#include <complex>

#include "cleave/core/error.h"
#include "cleave/kernels/dispatch.h"

namespace cleave {
namespace {

template <typename T>
constexpr bool is_complex_number = false;
template <typename T>
constexpr bool is_complex_number<std::complex<T>> = true;

// Cut to 64 bits, which wraps around as the integer types do; what is no number becomes 0.
uint64_t whole_bits(double x) {
  if (!std::isfinite(x)) return 0;
  x = std::fmod(std::trunc(x), 0x1p64);
  return x < 0 ? 0 - static_cast<uint64_t>(-x) : static_cast<uint64_t>(x);
}

template <typename T>
void fill_real(T* data, std::span<const double> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, bool>) {
      data[i] = values[i] != 0;
    } else if constexpr (std::is_integral_v<T>) {
      data[i] = static_cast<T>(whole_bits(values[i]));
    } else if constexpr (std::is_same_v<T, bfloat16>) {
      data[i] = bfloat16(static_cast<float>(values[i]));
    } else {
      data[i] = static_cast<T>(values[i]);
    }
  }
}

void require_kernels(DType dtype) {
  if (!has_kernels(dtype)) throw_user("discovery does not cover arrays of {}", name(dtype));
}

}  // namespace

std::vector<double> to_doubles(const Array& array) {
  if (array.dtype() == DType::F64 && array.is_contiguous())
    return {array.data<double>(), array.data<double>() + array.num_elements()};
  require_kernels(array.dtype());
  const Array packed = array.contiguous();
  const size_t parts = is_complex(array.dtype()) ? 2 : 1;
  std::vector<double> values(static_cast<size_t>(array.num_elements()) * parts);
  visit_dtype(array.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_complex_number<T>) {
      const auto* data = packed.data<typename T::value_type>();
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(data[i]);
    } else {
      const T* data = packed.data<T>();
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(data[i]);
    }
  });
  return values;
}

Array from_doubles(DType dtype, const Shape& shape, std::span<const double> values) {
  require_kernels(dtype);
  Array array(dtype, shape);
  visit_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (is_complex_number<T>) {
      auto* data = array.data<typename T::value_type>();
      for (size_t i = 0; i < values.size(); ++i)
        data[i] = static_cast<typename T::value_type>(values[i]);
    } else {
      fill_real(array.data<T>(), values);
    }
  });
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
