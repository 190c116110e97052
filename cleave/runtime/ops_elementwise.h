#pragma once

#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

// Element by element, with NumPy's broadcasting and the promotion of promotion.h. Functions of real
// numbers take integers and booleans as f32.
namespace cleave {

Tensor add(const Operand& a, const Operand& b);
Tensor sub(const Operand& a, const Operand& b);
Tensor mul(const Operand& a, const Operand& b);
Tensor div(const Operand& a, const Operand& b);           // of integers: f32
Tensor floor_divide(const Operand& a, const Operand& b);  // towards minus infinity
Tensor remainder(const Operand& a, const Operand& b);     // with the sign of b
Tensor pow(const Operand& a, const Operand& b);
Tensor maximum(const Operand& a, const Operand& b);
Tensor minimum(const Operand& a, const Operand& b);
Tensor atan2(const Operand& a, const Operand& b);
Tensor logical_and(const Operand& a, const Operand& b);  // of bools; others: not zero
Tensor logical_or(const Operand& a, const Operand& b);
Tensor logical_xor(const Operand& a, const Operand& b);
Tensor logical_not(const Tensor& x);
Tensor bitwise_and(const Operand& a, const Operand& b);
Tensor bitwise_or(const Operand& a, const Operand& b);
Tensor bitwise_xor(const Operand& a, const Operand& b);
Tensor bitwise_not(const Tensor& x);
Tensor shift_left(const Operand& a, const Operand& b);
Tensor shift_right(const Operand& a,
                   const Operand& b);  // arithmetic for signed, logical for others
Tensor logaddexp(const Operand& a, const Operand& b);
Tensor complex(const Operand& re, const Operand& im);

Tensor equal(const Operand& a, const Operand& b);
Tensor not_equal(const Operand& a, const Operand& b);
Tensor less(const Operand& a, const Operand& b);
Tensor less_equal(const Operand& a, const Operand& b);
Tensor greater(const Operand& a, const Operand& b);
Tensor greater_equal(const Operand& a, const Operand& b);

// a where the condition holds, else b; all three broadcast.
Tensor where(const Tensor& condition, const Operand& a, const Operand& b);
Tensor clip(const Tensor& x, const Operand& low, const Operand& high);

Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor cbrt(const Tensor& x);
Tensor square(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);
Tensor erf_inv(const Tensor& x);
Tensor lgamma(const Tensor& x);
Tensor digamma(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // halves to even
Tensor is_finite(const Tensor& x);
Tensor is_nan(const Tensor& x);
Tensor is_inf(const Tensor& x);
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);
Tensor conj(const Tensor& x);
Tensor popcount(const Tensor& x);
Tensor count_leading_zeros(const Tensor& x);

Tensor cast(const Tensor& x, DType dtype);
Tensor bitcast(const Tensor& x, DType dtype);  // the same bits as another dtype
Tensor reduce_precision(const Tensor& x, int exponent_bits, int mantissa_bits);

inline Tensor operator+(const Tensor& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Operand& b) { return div(a, b); }
inline Tensor operator%(const Tensor& a, const Operand& b) { return remainder(a, b); }
inline Tensor operator+(const Scalar& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Scalar& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Scalar& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator!(const Tensor& x) { return logical_not(x); }
inline Tensor operator&&(const Tensor& a, const Tensor& b) { return logical_and(a, b); }
inline Tensor operator||(const Tensor& a, const Tensor& b) { return logical_or(a, b); }
// Element by element, as in NumPy: the result is a Tensor of bools.
inline Tensor operator==(const Tensor& a, const Tensor& b) { return equal(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return not_equal(a, b); }
inline Tensor operator==(const Tensor& a, const Scalar& b) { return equal(a, b); }
inline Tensor operator!=(const Tensor& a, const Scalar& b) { return not_equal(a, b); }
inline Tensor operator<(const Tensor& a, const Operand& b) { return less(a, b); }
inline Tensor operator<=(const Tensor& a, const Operand& b) { return less_equal(a, b); }
inline Tensor operator>(const Tensor& a, const Operand& b) { return greater(a, b); }
inline Tensor operator>=(const Tensor& a, const Operand& b) { return greater_equal(a, b); }
inline Tensor& operator+=(Tensor& a, const Operand& b) { return a = add(a, b); }
inline Tensor& operator-=(Tensor& a, const Operand& b) { return a = sub(a, b); }
inline Tensor& operator*=(Tensor& a, const Operand& b) { return a = mul(a, b); }
inline Tensor& operator/=(Tensor& a, const Operand& b) { return a = div(a, b); }

}  // namespace cleave
