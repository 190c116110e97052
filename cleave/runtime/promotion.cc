#include "cleave/runtime/promotion.h"

#include <algorithm>

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

Tensor scalar(const Scalar& value, DType dtype) {
  Array array;
  if (value.kind == Scalar::Kind::Int || value.kind == Scalar::Kind::Bool)
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
