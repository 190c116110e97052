#include "cleave/runtime/promotion.h"

#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

DType wider_signed(int bits) {
  return bits >= 64 ? DType::F32 : bits >= 32 ? DType::I64 : bits >= 16 ? DType::I32 : DType::I16;
}

DType promote_integers(DType a, DType b) {
  if (is_signed_integer(a) == is_signed_integer(b)) return bit_width(a) >= bit_width(b) ? a : b;
  const DType with_sign = is_signed_integer(a) ? a : b, without = is_signed_integer(a) ? b : a;
  return bit_width(with_sign) > bit_width(without) ? with_sign : wider_signed(bit_width(without));
}

int rank_of(DType type) {
  return type == DType::Bool ? 0 : is_integer(type) ? 1 : is_float(type) ? 2 : 3;
}

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  for (DType type : {a, b})
    if (!has_kernels(type)) throw_user("no promotion of {} with {}; cast first", name(a), name(b));
  if (rank_of(a) > rank_of(b)) std::swap(a, b);
  if (rank_of(a) == rank_of(b)) {
    if (rank_of(a) == 1) return promote_integers(a, b);
    if (bit_width(a) == bit_width(b)) return DType::F32;  // f16 with bf16
    return bit_width(a) > bit_width(b) ? a : b;
  }
  if (is_complex(b) && a == DType::F64) return DType::C128;
  return b;
}

DType Scalar::dtype() const {
  switch (kind) {
    case Kind::Bool:
      return DType::Bool;
    case Kind::Int:
      return DType::I32;
    case Kind::Float:
      return DType::F32;
    case Kind::Complex:
      break;
  }
  return DType::C64;
}

DType Scalar::dtype_with(DType tensor) const {
  if (rank_of(tensor) >= rank_of(dtype())) return tensor;
  return kind == Kind::Complex && tensor == DType::F64 ? DType::C128 : dtype();
}

bool integer_fits(__int128 value, DType dtype) {
  if (dtype == DType::Bool || !is_integer(dtype)) return true;
  const int bits = bit_width(dtype) - (is_signed_integer(dtype) ? 1 : 0);
  const __int128 end = static_cast<__int128>(1) << bits;
  return value < end && value >= (is_signed_integer(dtype) ? -end : 0);
}

std::string integer_range(DType dtype) {
  const bool has_sign = is_signed_integer(dtype);
  const int bits = bit_width(dtype) - (has_sign ? 1 : 0);
  const uint64_t most = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return has_sign ? fmt::format("-{} to {}", most + 1, most) : fmt::format("0 to {}", most);
}

namespace {

// Numbers of the program's text are not wrapped, and what is no number is no integer.
void check_fits(const Scalar& value, DType dtype) {
  if (!is_integer(dtype) || dtype == DType::Bool || value.kind == Scalar::Kind::Bool) return;
  const double number = value.number.real();
  const bool fits =
      value.kind == Scalar::Kind::Int
          ? integer_fits(value.exact(), dtype)
          : std::abs(number) < 0x1p64 && integer_fits(static_cast<__int128>(number), dtype);
  if (fits) return;
  const std::string text = value.kind != Scalar::Kind::Int ? fmt::format("{}", number)
                           : value.integer < 0 && number > 0
                               ? fmt::format("{}", static_cast<uint64_t>(value.integer))
                               : fmt::format("{}", value.integer);
  throw_user("the number {} does not fit in {}, which holds {}; cast to a wider dtype", text,
             name(dtype), integer_range(dtype));
}

}  // namespace

Tensor scalar(const Scalar& value, DType dtype) {
  check_fits(value, dtype);
  Array array;
  const bool beyond_signed = value.integer < 0 && value.number.real() > 0;
  if (value.kind == Scalar::Kind::Int && beyond_signed)
    array =
        convert(Array::scalar<uint64_t>(DType::U64, static_cast<uint64_t>(value.integer)), dtype);
  else if (value.kind == Scalar::Kind::Int || value.kind == Scalar::Kind::Bool)
    array = convert(Array::scalar<int64_t>(DType::I64, value.integer), dtype);
  else if (is_complex(dtype))
    array = convert(Array::scalar<std::complex<double>>(DType::C128, value.number), dtype);
  else
    array = convert(Array::scalar<double>(DType::F64, value.number.real()), dtype);
  Tensor tensor = Tensor::from(std::move(array));
  tensor.record()->constant = true;
  return tensor;
}

OperandPair as_tensors(const Operand& a, const Operand& b) {
  if (a.is_tensor() && b.is_tensor()) return {{a.tensor(), b.tensor()}};
  if (a.is_tensor())
    return {{a.tensor(), scalar(b.number(), b.number().dtype_with(a.tensor().dtype()))}};
  if (b.is_tensor())
    return {{scalar(a.number(), a.number().dtype_with(b.tensor().dtype())), b.tensor()}};
  return {{scalar(a.number(), a.number().dtype()), scalar(b.number(), b.number().dtype())}};
}

}  // namespace cleave
