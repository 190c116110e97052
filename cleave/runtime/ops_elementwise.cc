#include "cleave/runtime/ops_elementwise.h"

#include <cmath>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/ops/elementwise/divisor.h"
#include "cleave/runtime/form_util.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

// Operands of a binary op brought together.
struct Pair {
  ValueId a, b;
};
Pair bring_together(GraphBuilder& b, std::string_view op, DType dtype) {
  const Shape shape = broadcast_shapes(op, b.shape(b.arg(0)), b.shape(b.arg(1)));
  return {stretch(b, cast_to(b, b.arg(0), dtype), shape),
          stretch(b, cast_to(b, b.arg(1), dtype), shape)};
}
DType promoted(GraphBuilder& b) { return promote(b.dtype(b.arg(0)), b.dtype(b.arg(1))); }

Values binary_form(GraphBuilder& b, Params params) {
  const std::string& op = op_from(params[0]);
  const auto [x, y] = bring_together(b, op, promoted(b));
  return {b.emit(op, {x, y})};
}

template <OpText op>
Tensor binary(const Operand& a, const Operand& b, FormFn form = binary_form) {
  static const int64_t params[] = {op_param(known_op(op.text))};
  return record_one(form, params, as_tensors(a, b));
}

// With the operands as floats.
Values real_binary_form(GraphBuilder& b, Params params) {
  const std::string& op = op_from(params[0]);
  const auto [x, y] = bring_together(b, op, real_type(promoted(b)));
  return {b.emit(op, {x, y})};
}

Values logical_form(GraphBuilder& b, Params params) {
  const std::string& op = op_from(params[0]);
  const auto [x, y] = bring_together(b, op, DType::Bool);
  return {b.emit(op, {x, y})};
}

Values compare_form(GraphBuilder& b, Params params) {
  static constexpr const char* kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  const auto [x, y] = bring_together(b, "compare", promoted(b));
  return {b.compare(kDirections[params[0]], x, y)};
}
Tensor compare(int direction, const Operand& a, const Operand& b) {
  const int64_t params[] = {direction};
  return record_one(compare_form, params, as_tensors(a, b));
}

Values unary_form(GraphBuilder& b, Params params) {
  return {b.emit(op_from(params[0]), {b.arg(0)})};
}
template <OpText op>
Tensor unary(const Tensor& x) {
  static const int64_t params[] = {op_param(known_op(op.text))};
  return record_one(unary_form, params, {&x, 1});
}

Values function_form(GraphBuilder& b, Params params) {
  return {b.emit(op_from(params[0]), {cast_to(b, b.arg(0), real_type(b.dtype(b.arg(0))))})};
}
template <OpText op>
Tensor function(const Tensor& x) {
  static const int64_t params[] = {op_param(known_op(op.text))};
  return record_one(function_form, params, {&x, 1});
}

ValueId zeros_like(GraphBuilder& b, ValueId x) { return b.constant_like(0, x); }

// The result of truncation, less one where the signs differ and there is a rest.
ValueId floor_quotient(GraphBuilder& b, ValueId x, ValueId y) {
  const ValueId quotient = b.binary("stablehlo.divide", x, y);
  if (is_float(b.dtype(x))) return b.emit("stablehlo.floor", {quotient});
  if (!is_signed_integer(b.dtype(x))) return quotient;
  const ValueId rest = b.binary("stablehlo.remainder", x, y), zero = zeros_like(b, x);
  const ValueId differ = b.compare("NE", b.compare("LT", rest, zero), b.compare("LT", y, zero));
  const ValueId lower = b.binary("stablehlo.and", differ, b.compare("NE", rest, zero));
  return b.binary("stablehlo.subtract", quotient, b.convert(lower, b.dtype(x)));
}

ValueId floor_remainder(GraphBuilder& b, ValueId x, ValueId y) {
  const ValueId rest = b.binary("stablehlo.remainder", x, y), zero = zeros_like(b, x);
  if (is_unsigned_integer(b.dtype(x))) return rest;
  const ValueId differ = b.compare("NE", b.compare("LT", rest, zero), b.compare("LT", y, zero));
  const ValueId shift = b.binary("stablehlo.and", differ, b.compare("NE", rest, zero));
  return b.emit("stablehlo.select", {shift, b.binary("stablehlo.add", rest, y), rest});
}

}  // namespace

Tensor add(const Operand& a, const Operand& b) { return binary<"stablehlo.add">(a, b); }
Tensor sub(const Operand& a, const Operand& b) { return binary<"stablehlo.subtract">(a, b); }
Tensor mul(const Operand& a, const Operand& b) { return binary<"stablehlo.multiply">(a, b); }
Tensor div(const Operand& a, const Operand& b) {
  // A number that stays one in all dtypes: a pending sum may be divided part by part.
  constexpr double kLeast = 1e-4;
  const bool nonzero = !b.is_tensor() && std::abs(b.number().number) >= kLeast;
  const int64_t params[] = {nonzero};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const auto [x, y] = bring_together(b, "stablehlo.divide", real_type(promoted(b)));
        AttrDict attrs;
        if (params[0]) attrs.set(kNonzeroDivisor, UnitAttr{});
        return {b.emit("stablehlo.divide", {x, y}, std::move(attrs))};
      },
      params, as_tensors(a, b));
}
Tensor floor_divide(const Operand& a, const Operand& b) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        const auto [x, y] = bring_together(b, "floor_divide", promoted(b));
        return {floor_quotient(b, x, y)};
      },
      {}, as_tensors(a, b));
}
Tensor remainder(const Operand& a, const Operand& b) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        const auto [x, y] = bring_together(b, "remainder", promoted(b));
        return {floor_remainder(b, x, y)};
      },
      {}, as_tensors(a, b));
}
Tensor pow(const Operand& a, const Operand& b) { return binary<"stablehlo.power">(a, b); }
Tensor maximum(const Operand& a, const Operand& b) { return binary<"stablehlo.maximum">(a, b); }
Tensor minimum(const Operand& a, const Operand& b) { return binary<"stablehlo.minimum">(a, b); }
Tensor atan2(const Operand& a, const Operand& b) {
  return binary<"stablehlo.atan2">(a, b, real_binary_form);
}
Tensor logical_and(const Operand& a, const Operand& b) {
  return binary<"stablehlo.and">(a, b, logical_form);
}
Tensor logical_or(const Operand& a, const Operand& b) {
  return binary<"stablehlo.or">(a, b, logical_form);
}
Tensor logical_xor(const Operand& a, const Operand& b) {
  return binary<"stablehlo.xor">(a, b, logical_form);
}
Tensor logical_not(const Tensor& x) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        return {b.emit("stablehlo.not", {cast_to(b, b.arg(0), DType::Bool)})};
      },
      {}, {&x, 1});
}
Tensor bitwise_and(const Operand& a, const Operand& b) { return binary<"stablehlo.and">(a, b); }
Tensor bitwise_or(const Operand& a, const Operand& b) { return binary<"stablehlo.or">(a, b); }
Tensor bitwise_xor(const Operand& a, const Operand& b) { return binary<"stablehlo.xor">(a, b); }
Tensor bitwise_not(const Tensor& x) { return unary<"stablehlo.not">(x); }
Tensor shift_left(const Operand& a, const Operand& b) {
  return binary<"stablehlo.shift_left">(a, b);
}
Tensor shift_right(const Operand& a, const Operand& b) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        const DType dtype = promoted(b);
        const char* op = is_unsigned_integer(dtype) ? "stablehlo.shift_right_logical"
                                                    : "stablehlo.shift_right_arithmetic";
        const auto [x, y] = bring_together(b, op, dtype);
        return {b.emit(op, {x, y})};
      },
      {}, as_tensors(a, b));
}
Tensor logaddexp(const Operand& a, const Operand& b) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        const auto [x, y] = bring_together(b, "logaddexp", real_type(promoted(b)));
        const ValueId top = b.binary("stablehlo.maximum", x, y);
        const ValueId gap = b.binary("stablehlo.subtract", x, y);
        const ValueId size = b.emit("stablehlo.negate", {b.emit("stablehlo.abs", {gap})});
        const ValueId rest =
            b.emit("stablehlo.log_plus_one", {b.emit("stablehlo.exponential", {size})});
        // Equal infinities have no gap.
        const ValueId same = b.compare("EQ", x, y);
        const ValueId log2 = b.constant_like(std::numbers::ln2, x);
        return {b.binary("stablehlo.add", top, b.emit("stablehlo.select", {same, log2, rest}))};
      },
      {}, as_tensors(a, b));
}
Tensor complex(const Operand& re, const Operand& im) {
  return binary<"stablehlo.complex">(re, im, real_binary_form);
}

Tensor equal(const Operand& a, const Operand& b) { return compare(0, a, b); }
Tensor not_equal(const Operand& a, const Operand& b) { return compare(1, a, b); }
Tensor less(const Operand& a, const Operand& b) { return compare(2, a, b); }
Tensor less_equal(const Operand& a, const Operand& b) { return compare(3, a, b); }
Tensor greater(const Operand& a, const Operand& b) { return compare(4, a, b); }
Tensor greater_equal(const Operand& a, const Operand& b) { return compare(5, a, b); }

Tensor where(const Tensor& condition, const Operand& a, const Operand& b) {
  const OperandPair pair = as_tensors(a, b);
  const Tensor operands[] = {pair.values[0], pair.values[1], condition};
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        const DType dtype = promoted(b);
        Shape shape = broadcast_shapes("where", b.shape(b.arg(0)), b.shape(b.arg(1)));
        shape = broadcast_shapes("where", shape, b.shape(b.arg(2)));
        return {b.emit("stablehlo.select", {stretch(b, cast_to(b, b.arg(2), DType::Bool), shape),
                                            stretch(b, cast_to(b, b.arg(0), dtype), shape),
                                            stretch(b, cast_to(b, b.arg(1), dtype), shape)})};
      },
      {}, operands);
}

Tensor clip(const Tensor& x, const Operand& low, const Operand& high) {
  return minimum(maximum(x, low), high);
}

Tensor neg(const Tensor& x) { return unary<"stablehlo.negate">(x); }
Tensor abs(const Tensor& x) {
  if (is_unsigned_integer(x.dtype()) || x.dtype() == DType::Bool) return x;
  return unary<"stablehlo.abs">(x);
}
Tensor sign(const Tensor& x) { return unary<"stablehlo.sign">(x); }
Tensor exp(const Tensor& x) { return function<"stablehlo.exponential">(x); }
Tensor expm1(const Tensor& x) { return function<"stablehlo.exponential_minus_one">(x); }
Tensor log(const Tensor& x) { return function<"stablehlo.log">(x); }
Tensor log1p(const Tensor& x) { return function<"stablehlo.log_plus_one">(x); }
Tensor log2(const Tensor& x) { return div(log(x), std::numbers::ln2); }
Tensor sqrt(const Tensor& x) { return function<"stablehlo.sqrt">(x); }
Tensor rsqrt(const Tensor& x) { return function<"stablehlo.rsqrt">(x); }
Tensor cbrt(const Tensor& x) { return function<"stablehlo.cbrt">(x); }
Tensor square(const Tensor& x) { return mul(x, x); }
Tensor reciprocal(const Tensor& x) { return div(1, x); }
Tensor sin(const Tensor& x) { return function<"stablehlo.sine">(x); }
Tensor cos(const Tensor& x) { return function<"stablehlo.cosine">(x); }
Tensor tan(const Tensor& x) { return function<"stablehlo.tan">(x); }
Tensor asin(const Tensor& x) { return function<"chlo.asin">(x); }
Tensor acos(const Tensor& x) { return function<"chlo.acos">(x); }
Tensor atan(const Tensor& x) { return function<"chlo.atan">(x); }
Tensor sinh(const Tensor& x) { return function<"chlo.sinh">(x); }
Tensor cosh(const Tensor& x) { return function<"chlo.cosh">(x); }
Tensor tanh(const Tensor& x) { return function<"stablehlo.tanh">(x); }
Tensor asinh(const Tensor& x) { return function<"chlo.asinh">(x); }
Tensor acosh(const Tensor& x) { return function<"chlo.acosh">(x); }
Tensor atanh(const Tensor& x) { return function<"chlo.atanh">(x); }
Tensor erf(const Tensor& x) { return function<"chlo.erf">(x); }
Tensor erfc(const Tensor& x) { return function<"chlo.erfc">(x); }
Tensor erf_inv(const Tensor& x) { return function<"chlo.erf_inv">(x); }
Tensor lgamma(const Tensor& x) { return function<"chlo.lgamma">(x); }
Tensor digamma(const Tensor& x) { return function<"chlo.digamma">(x); }
Tensor sigmoid(const Tensor& x) { return function<"stablehlo.logistic">(x); }
Tensor floor(const Tensor& x) { return function<"stablehlo.floor">(x); }
Tensor ceil(const Tensor& x) { return function<"stablehlo.ceil">(x); }
Tensor round(const Tensor& x) { return function<"stablehlo.round_nearest_even">(x); }
Tensor is_finite(const Tensor& x) { return function<"stablehlo.is_finite">(x); }
Tensor is_nan(const Tensor& x) { return not_equal(x, x); }
Tensor is_inf(const Tensor& x) { return function<"chlo.is_inf">(x); }
Tensor real(const Tensor& x) {
  if (!is_complex(x.dtype())) return x;
  return unary<"stablehlo.real">(x);
}
Tensor imag(const Tensor& x) {
  if (!is_complex(x.dtype())) return mul(x, 0);
  return unary<"stablehlo.imag">(x);
}
Tensor conj(const Tensor& x) { return is_complex(x.dtype()) ? complex(real(x), neg(imag(x))) : x; }
Tensor popcount(const Tensor& x) { return unary<"stablehlo.popcnt">(x); }
Tensor count_leading_zeros(const Tensor& x) { return unary<"stablehlo.count_leading_zeros">(x); }

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const int64_t params[] = {static_cast<int64_t>(dtype)};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {b.convert(b.arg(0), static_cast<DType>(params[0]))};
      },
      params, {&x, 1});
}

Tensor bitcast(const Tensor& x, DType dtype) {
  if (bit_width(x.dtype()) != bit_width(dtype))
    throw_user("bitcast: {} has {} bits and {} has {}; they must have as many", name(x.dtype()),
               bit_width(x.dtype()), name(dtype), bit_width(dtype));
  const int64_t params[] = {static_cast<int64_t>(dtype)};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        return {b.emit_as(Type::tensor(static_cast<DType>(params[0]), b.shape(b.arg(0))),
                          "stablehlo.bitcast_convert", {b.arg(0)})};
      },
      params, {&x, 1});
}

Tensor reduce_precision(const Tensor& x, int exponent_bits, int mantissa_bits) {
  if (exponent_bits < 1 || mantissa_bits < 0)
    throw_user("reduce_precision: {} bits of exponent and {} of mantissa; at least 1 and 0",
               exponent_bits, mantissa_bits);
  const int64_t params[] = {exponent_bits, mantissa_bits};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        AttrDict attrs;
        attrs.set("exponent_bits", int_attr(params[0], DType::I32));
        attrs.set("mantissa_bits", int_attr(params[1], DType::I32));
        return {b.emit("stablehlo.reduce_precision", {b.arg(0)}, std::move(attrs))};
      },
      params, {&x, 1});
}

}  // namespace cleave
