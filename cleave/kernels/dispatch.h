#pragma once

#include <complex>
#include <cstdint>
#include <type_traits>

#include "cleave/core/dtype.h"
#include "cleave/core/error.h"
#include "cleave/kernels/float16.h"

namespace cleave {

// Calls visit(std::type_identity<T>{}) with the C++ type of a dtype's elements.
//   visit_dtype(array.dtype(), [&](auto tag) { using T = typename decltype(tag)::type; ... });
// Every type that `visit` handles is compiled: prefer the narrower lists if they suffice.
template <typename Visit>
decltype(auto) visit_integer(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::I8:
      return visit(std::type_identity<int8_t>{});
    case DType::I16:
      return visit(std::type_identity<int16_t>{});
    case DType::I32:
      return visit(std::type_identity<int32_t>{});
    case DType::I64:
      return visit(std::type_identity<int64_t>{});
    case DType::U8:
      return visit(std::type_identity<uint8_t>{});
    case DType::U16:
      return visit(std::type_identity<uint16_t>{});
    case DType::U32:
      return visit(std::type_identity<uint32_t>{});
    case DType::U64:
      return visit(std::type_identity<uint64_t>{});
    default:
      throw_internal("{} is not an integer type with kernels", name(dtype));
  }
}

template <typename Visit>
decltype(auto) visit_float(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::F16:
      return visit(std::type_identity<float16>{});
    case DType::BF16:
      return visit(std::type_identity<bfloat16>{});
    case DType::F32:
      return visit(std::type_identity<float>{});
    case DType::F64:
      return visit(std::type_identity<double>{});
    default:
      throw_internal("{} is not a float type with kernels", name(dtype));
  }
}

template <typename Visit>
decltype(auto) visit_dtype(DType dtype, Visit&& visit) {
  if (dtype == DType::Bool) return visit(std::type_identity<bool>{});
  if (dtype == DType::C64) return visit(std::type_identity<std::complex<float>>{});
  if (dtype == DType::C128) return visit(std::type_identity<std::complex<double>>{});
  if (is_integer(dtype)) return visit_integer(dtype, visit);
  return visit_float(dtype, visit);
}

// By size alone, for kernels that move elements: uint8_t to uint64_t, and 16 bytes.
struct Bytes16 {
  uint64_t parts[2];
  bool operator==(const Bytes16&) const = default;
};
template <typename Visit>
decltype(auto) visit_size(DType dtype, Visit&& visit) {
  switch (byte_size(dtype)) {
    case 1:
      return visit(std::type_identity<uint8_t>{});
    case 2:
      return visit(std::type_identity<uint16_t>{});
    case 4:
      return visit(std::type_identity<uint32_t>{});
    case 8:
      return visit(std::type_identity<uint64_t>{});
    default:
      return visit(std::type_identity<Bytes16>{});
  }
}

}  // namespace cleave
