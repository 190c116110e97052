#include "cleave/core/dtype.h"

#include <array>

namespace cleave {
namespace {

enum class Kind : uint8_t { Bool, Signed, Unsigned, Float, Complex, Index };

struct Info {
  std::string_view name;
  int bits;
  Kind kind;
};

// In the order of the enum.
constexpr std::array kInfo = {
    Info{"i1", 1, Kind::Bool},
    Info{"i8", 8, Kind::Signed},
    Info{"i16", 16, Kind::Signed},
    Info{"i32", 32, Kind::Signed},
    Info{"i64", 64, Kind::Signed},
    Info{"ui8", 8, Kind::Unsigned},
    Info{"ui16", 16, Kind::Unsigned},
    Info{"ui32", 32, Kind::Unsigned},
    Info{"ui64", 64, Kind::Unsigned},
    Info{"f16", 16, Kind::Float},
    Info{"bf16", 16, Kind::Float},
    Info{"f32", 32, Kind::Float},
    Info{"f64", 64, Kind::Float},
    Info{"complex<f32>", 64, Kind::Complex},
    Info{"complex<f64>", 128, Kind::Complex},
    Info{"i2", 2, Kind::Signed},
    Info{"i4", 4, Kind::Signed},
    Info{"ui2", 2, Kind::Unsigned},
    Info{"ui4", 4, Kind::Unsigned},
    Info{"f4E2M1FN", 4, Kind::Float},
    Info{"f6E2M3FN", 6, Kind::Float},
    Info{"f6E3M2FN", 6, Kind::Float},
    Info{"f8E3M4", 8, Kind::Float},
    Info{"f8E4M3", 8, Kind::Float},
    Info{"f8E4M3FN", 8, Kind::Float},
    Info{"f8E4M3FNUZ", 8, Kind::Float},
    Info{"f8E4M3B11FNUZ", 8, Kind::Float},
    Info{"f8E5M2", 8, Kind::Float},
    Info{"f8E5M2FNUZ", 8, Kind::Float},
    Info{"f8E8M0FNU", 8, Kind::Float},
    Info{"tf32", 32, Kind::Float},
    Info{"index", 64, Kind::Index},
    Info{"other", 0, Kind::Index},
};
static_assert(kInfo.size() == static_cast<size_t>(DType::Other) + 1);

const Info& info(DType type) { return kInfo[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name(DType type) { return info(type).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kInfo.size(); ++i)
    if (kInfo[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

int bit_width(DType type) { return info(type).bits; }
int byte_size(DType type) { return (info(type).bits + 7) / 8; }
bool has_kernels(DType type) { return type <= DType::C128; }
bool is_float(DType type) { return info(type).kind == Kind::Float; }
bool is_signed_integer(DType type) { return info(type).kind == Kind::Signed; }
bool is_unsigned_integer(DType type) { return info(type).kind == Kind::Unsigned; }
bool is_integer(DType type) { return is_signed_integer(type) || is_unsigned_integer(type); }
bool is_complex(DType type) { return info(type).kind == Kind::Complex; }

DType real_part_type(DType type) {
  if (type == DType::C64) return DType::F32;
  if (type == DType::C128) return DType::F64;
  return type;
}

}  // namespace cleave
