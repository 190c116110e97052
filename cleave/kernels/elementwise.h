#pragma once

#include <string_view>

#include "cleave/kernels/array.h"
#include "cleave/kernels/loop.h"

// Elementwise kernels: operands of one shape, any strides; the result is fresh and contiguous.
//
//   Array y = binary(BinaryOp::Add, x, unary(UnaryOp::Exp, x));
//
// float16 and bfloat16 compute in float32 and round once. Functions of float32 are right to one or
// two units in the last place (see fast_math.h), and do not depend on where an element lies.
namespace cleave {

enum class UnaryOp : uint8_t {
  // Arithmetic and bits.
  Abs,
  Negate,
  Sign,
  Not,
  Popcnt,
  CountLeadingZeros,
  Square,
  Ceil,
  Floor,
  RoundAfz,
  RoundEven,
  IsFinite,
  IsInf,
  IsPosInf,
  IsNegInf,
  Real,
  Imag,
  Conj,
  // Functions.
  Cbrt,
  Cos,
  Exp,
  Expm1,
  Log,
  Log1p,
  Logistic,
  Rsqrt,
  Sin,
  Sqrt,
  Tan,
  Tanh,
  Acos,
  Acosh,
  Asin,
  Asinh,
  Atan,
  Atanh,
  Cosh,
  Sinh,
  // Special functions.
  BesselI1e,
  Digamma,
  Erf,
  Erfc,
  ErfInv,
  Lgamma,
};

enum class BinaryOp : uint8_t {
  Add,
  Subtract,
  Multiply,
  Divide,
  Remainder,
  Maximum,
  Minimum,
  And,
  Or,
  Xor,
  ShiftLeft,
  ShiftRightArithmetic,
  ShiftRightLogical,
  MulHi,
  Atan2,
  Power,
  Complex,
  NextAfter,
  Polygamma,
  Zeta,
};

enum class CompareOp : uint8_t { Eq, Ne, Ge, Gt, Le, Lt };

// The loop of an op on operands of a dtype; its `loop` is null if the op is not defined there.
LoopChoice unary_loop(UnaryOp op, DType dtype);
LoopChoice binary_loop(BinaryOp op, DType dtype);
LoopChoice compare_loop(CompareOp op, DType dtype, bool total_order);

Loop select_loop(DType dtype);  // of Bool, dtype, dtype

// What the result is stored as: abs and real of c64 give f32, is_finite gives bool, complex gives
// c64.
DType result_dtype(UnaryOp op, DType operand);
DType result_dtype(BinaryOp op, DType operand);

// `reuse` is an operand that is not needed any more: the result may take its memory.
Array unary(UnaryOp op, const Array& x, const Array* reuse = nullptr);
Array binary(BinaryOp op, const Array& a, const Array& b, const Array* reuse = nullptr);
// Floats compare as IEEE does, or by totalOrder: -NaN < -inf < -0 < +0 < inf < NaN.
Array compare(CompareOp op, const Array& a, const Array& b, bool total_order = false);
// `pred` has the shape of the others, or is a scalar.
Array select(const Array& pred, const Array& on_true, const Array& on_false);
// min(max(x, low), high); the bounds have the shape of x, or are scalars.
Array clamp(const Array& low, const Array& x, const Array& high);
Array convert(const Array& x, DType to);
// The bits as another type; a wider or narrower one takes or gives a last dimension.
Array bitcast_convert(const Array& x, DType to, const Shape& shape);
// Floats with fewer bits of exponent and mantissa, kept in their own type.
Array reduce_precision(const Array& x, int exponent_bits, int mantissa_bits);
// A scalar as a view of any shape.
Array splat(const Array& scalar, const Shape& shape);

}  // namespace cleave
