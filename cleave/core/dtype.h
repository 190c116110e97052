#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cleave {

// Element types, in MLIR's spelling: i1 (bool), si8 is "i8", unsigned is "ui8", ...
// The narrow types (I2 to F8E8M0FNU) have no kernels of their own: ops on them compute in a wider
// type and round the result (kernels/narrow.h).
enum class DType : uint8_t {
  Bool,
  I8,
  I16,
  I32,
  I64,
  U8,
  U16,
  U32,
  U64,
  F16,
  BF16,
  F32,
  F64,
  C64,
  C128,
  // Types without kernels of their own.
  I2,
  I4,
  U2,
  U4,
  F4E2M1FN,
  F6E2M3FN,
  F6E3M2FN,
  F8E3M4,
  F8E4M3,
  F8E4M3FN,
  F8E4M3FNUZ,
  F8E4M3B11FNUZ,
  F8E5M2,
  F8E5M2FNUZ,
  F8E8M0FNU,
  TF32,
  Index,
  Other,  // an element type kept as text, such as !quant.uniform<...>
};

std::string_view name(DType type);  // "f32", "ui8", "complex<f32>"
std::optional<DType> dtype_from_name(std::string_view name);
int bit_width(DType type);     // 32 for F32, 64 for C64, 1 for Bool
int byte_size(DType type);     // bytes in memory: Bool is 1, I4 is 1
bool has_kernels(DType type);  // Bool .. C128
bool is_float(DType type);     // F16, BF16, F32, F64, F8...
bool is_integer(DType type);   // I*, U*, not Bool
bool is_signed_integer(DType type);
bool is_unsigned_integer(DType type);
bool is_complex(DType type);
DType real_part_type(DType complex);  // C64 -> F32; others: itself

}  // namespace cleave
