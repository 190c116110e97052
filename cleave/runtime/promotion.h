#pragma once

#include <complex>
#include <concepts>
#include <cstdint>
#include <span>

#include "cleave/core/dtype.h"
#include "cleave/runtime/tensor.h"

namespace cleave {

// The dtype of an op on two, as JAX has it: bool < unsigned < signed < float < complex, the wider
// of two of a kind; an unsigned with a signed that is not wider gives the next wider signed (u64
// with a signed: f32); f16 with bf16 gives f32; an integer never widens a float.
//   i32 + f16 -> f16     u8 + i8 -> i16     f64 + complex<f32> -> complex<f64>
DType promote(DType a, DType b);

// A number of the program's text. It is weak: it takes the dtype of the tensor that it meets,
// unless its kind is higher (an integer tensor with 0.5 is f32, a bool tensor with 2 is i32).
struct Scalar {
  enum class Kind : uint8_t { Bool, Int, Float, Complex };
  Kind kind;
  int64_t integer = 0;
  std::complex<double> number;

  template <std::integral T>
  Scalar(T value)
      : kind(std::is_same_v<T, bool> ? Kind::Bool : Kind::Int),
        integer(static_cast<int64_t>(value)),
        number(static_cast<double>(value)) {}
  template <std::floating_point T>
  Scalar(T value) : kind(Kind::Float), number(static_cast<double>(value)) {}
  Scalar(std::complex<double> value) : kind(Kind::Complex), number(value) {}

  // Of an integer: its value, that of a uint64_t above 2^63 too.
  __int128 exact() const {
    return integer < 0 && number.real() > 0 ? static_cast<__int128>(static_cast<uint64_t>(integer))
                                            : static_cast<__int128>(integer);
  }
  DType dtype() const;  // bool, i32, f32, complex<f32>: with no tensor about
  DType dtype_with(DType tensor) const;
};

// Whether an integer is one of the dtype; true for bools and for floats, which take any number.
bool integer_fits(__int128 value, DType dtype);
// "-128 to 127"
std::string integer_range(DType dtype);

// A tensor without dimensions. Inside a trace it is a constant. Throws UserError if the number
// is beyond the integers of the dtype, or NaN or infinite and the dtype has integers.
Tensor scalar(const Scalar& value, DType dtype);

// What an op with two operands takes: a tensor or a number. Lives as long as the call.
class Operand {
 public:
  Operand(const Tensor& tensor) : tensor_(&tensor) {}
  Operand(const Scalar& scalar) : scalar_(scalar) {}
  template <typename T>
  requires std::is_arithmetic_v<T> Operand(T value) : scalar_(value) {}

  bool is_tensor() const { return tensor_ != nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  const Scalar& number() const { return scalar_; }

 private:
  const Tensor* tensor_ = nullptr;
  Scalar scalar_ = 0;
};

// Operands as tensors: numbers take the dtype of the tensors around them. Two tensors keep theirs;
// the op converts.
struct OperandPair {
  Tensor values[2];
  operator std::span<const Tensor>() const { return values; }
};
OperandPair as_tensors(const Operand& a, const Operand& b);

}  // namespace cleave
