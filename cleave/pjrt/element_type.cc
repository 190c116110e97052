#include "cleave/pjrt/element_type.h"

#include <utility>

#include "cleave/core/error.h"
#include "cleave/pjrt/c_interface.h"

namespace cleave::pjrt {
namespace {

constexpr std::pair<DType, int> kTypes[] = {
    {DType::Bool, c::kPred},
    {DType::I8, c::kS8},
    {DType::I16, c::kS16},
    {DType::I32, c::kS32},
    {DType::I64, c::kS64},
    {DType::U8, c::kU8},
    {DType::U16, c::kU16},
    {DType::U32, c::kU32},
    {DType::U64, c::kU64},
    {DType::F16, c::kF16},
    {DType::BF16, c::kBF16},
    {DType::F32, c::kF32},
    {DType::F64, c::kF64},
    {DType::C64, c::kC64},
    {DType::C128, c::kC128},
    {DType::I2, c::kS2},
    {DType::I4, c::kS4},
    {DType::U2, c::kU2},
    {DType::U4, c::kU4},
    {DType::F4E2M1FN, c::kF4E2M1FN},
    {DType::F8E3M4, c::kF8E3M4},
    {DType::F8E4M3, c::kF8E4M3},
    {DType::F8E4M3FN, c::kF8E4M3FN},
    {DType::F8E4M3FNUZ, c::kF8E4M3FNUZ},
    {DType::F8E4M3B11FNUZ, c::kF8E4M3B11FNUZ},
    {DType::F8E5M2, c::kF8E5M2},
    {DType::F8E5M2FNUZ, c::kF8E5M2FNUZ},
    {DType::F8E8M0FNU, c::kF8E8M0FNU},
};

}  // namespace

std::optional<int> element_type(DType dtype) {
  for (const auto& [own, theirs] : kTypes)
    if (own == dtype) return theirs;
  return std::nullopt;
}

std::optional<DType> dtype_of(int element_type) {
  for (const auto& [own, theirs] : kTypes)
    if (theirs == element_type) return own;
  return std::nullopt;
}

void require_transferable(const Type& type, const std::string& what) {
  if (!type.is_tensor())
    throw_user("{} is {}, which XLA's engine cannot pass; only tensors can be", what,
               to_string(type));
  if (!type.has_static_shape())
    throw_user("{} is {}; XLA's engine needs sizes that are known", what, to_string(type));
  if (!element_type(type.dtype))
    throw_user("{} is {}, and PJRT has no name for elements of {}; Cleave's own engine can run it",
               what, to_string(type), name(type.dtype));
}

}  // namespace cleave::pjrt
