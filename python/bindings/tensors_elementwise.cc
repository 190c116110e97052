#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_matrix.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using namespace nb::literals;
using Unary = Tensor (*)(const Tensor&);
using Binary = Tensor (*)(const Operand&, const Operand&);

void bind_unary(nb::module_& m) {
  const std::pair<const char*, Unary> table[] = {
      {"negative", neg},
      {"abs", abs},
      {"absolute", abs},
      {"sign", sign},
      {"exp", exp},
      {"exp2", exp2},
      {"expm1", expm1},
      {"log", log},
      {"log1p", log1p},
      {"log2", log2},
      {"log10", log10},
      {"sqrt", sqrt},
      {"rsqrt", rsqrt},
      {"cbrt", cbrt},
      {"square", square},
      {"reciprocal", reciprocal},
      {"sin", sin},
      {"cos", cos},
      {"tan", tan},
      {"asin", asin},
      {"acos", acos},
      {"atan", atan},
      {"arcsin", asin},
      {"arccos", acos},
      {"arctan", atan},
      {"sinh", sinh},
      {"cosh", cosh},
      {"tanh", tanh},
      {"asinh", asinh},
      {"acosh", acosh},
      {"atanh", atanh},
      {"arcsinh", asinh},
      {"arccosh", acosh},
      {"arctanh", atanh},
      {"erf", erf},
      {"erfc", erfc},
      {"erfinv", erf_inv},
      {"lgamma", lgamma},
      {"digamma", digamma},
      {"floor", floor},
      {"ceil", ceil},
      {"rint", round},
      {"trunc", trunc},
      {"isfinite", is_finite},
      {"isnan", is_nan},
      {"isinf", is_inf},
      {"real", real},
      {"imag", imag},
      {"conj", conj},
      {"conjugate", conj},
      {"bitwise_count", popcount},
      {"count_leading_zeros", count_leading_zeros},
      {"logical_not", logical_not},
      {"bitwise_not", bitwise_not},
      {"invert", bitwise_not},
  };
  for (const auto& [name, f] : table) define(m, name, f, "x"_a);
}

void bind_binary(nb::module_& m) {
  const std::pair<const char*, Binary> table[] = {
      {"add", add},
      {"subtract", sub},
      {"multiply", mul},
      {"divide", div},
      {"true_divide", div},
      {"floor_divide", floor_divide},
      {"remainder", remainder},
      {"mod", remainder},
      {"power", pow},
      {"pow", pow},
      {"maximum", maximum},
      {"minimum", minimum},
      {"atan2", atan2},
      {"arctan2", atan2},
      {"logaddexp", logaddexp},
      {"hypot", hypot},
      {"logical_and", logical_and},
      {"logical_or", logical_or},
      {"logical_xor", logical_xor},
      {"bitwise_and", bitwise_and},
      {"bitwise_or", bitwise_or},
      {"bitwise_xor", bitwise_xor},
      {"left_shift", shift_left},
      {"right_shift", shift_right},
      {"equal", equal},
      {"not_equal", not_equal},
      {"less", less},
      {"less_equal", less_equal},
      {"greater", greater},
      {"greater_equal", greater_equal},
      {"complex", complex},
  };
  for (const auto& [name, f] : table) define(m, name, f, "x1"_a, "x2"_a);
}

Tensor clipped(nb::handle x, nb::handle low, nb::handle high) {
  const Tensor value = to_tensor(x);
  if (!low.is_none() && !high.is_none()) return clip(value, HeldOperand(low), HeldOperand(high));
  if (!low.is_none()) return maximum(value, HeldOperand(low));
  return high.is_none() ? value : minimum(value, HeldOperand(high));
}

using Close = Tensor (*)(const Operand&, const Operand&, const CloseOptions&);
void bind_close(nb::module_& m, const char* name, Close f) {
  m.def(
      name,
      [f](nb::handle a, nb::handle b, double rtol, double atol, bool equal_nan) {
        return f(HeldOperand(a), HeldOperand(b), {rtol, atol, equal_nan});
      },
      "a"_a, "b"_a, "rtol"_a = 1e-5, "atol"_a = 1e-8, "equal_nan"_a = false);
}

Tensor like(nb::handle x, nb::handle value, nb::handle dtype) {
  const Tensor other = to_tensor(x);
  const DType wanted = to_optional_dtype(dtype).value_or(other.dtype());
  return full_like(wanted == other.dtype() ? other : cast(other, wanted), to_scalar(value));
}

Tensor counted(nb::handle start, nb::handle stop, nb::handle step, nb::handle dtype) {
  const Scalar begin = stop.is_none() ? Scalar(0) : to_scalar(start);
  const Scalar end = to_scalar(stop.is_none() ? start : stop);
  return arange(begin, end, to_scalar(step), to_optional_dtype(dtype));
}

void bind_creation(nb::module_& m) {
  const nb::str f32("float32");
  m.def(
      "full",
      [](nb::handle shape, nb::handle value, nb::handle dtype) {
        const Scalar number = to_scalar(value);
        return full(to_ints(shape), number, to_optional_dtype(dtype).value_or(number.dtype()));
      },
      "shape"_a, "fill_value"_a, "dtype"_a = nb::none());
  define(m, "zeros", zeros, "shape"_a, "dtype"_a = f32);
  define(m, "ones", ones, "shape"_a, "dtype"_a = f32);
  m.def("full_like", &like, "a"_a, "fill_value"_a, "dtype"_a = nb::none(),
        "With the shape and layout of another tensor.");
  m.def(
      "zeros_like", [](nb::handle x, nb::handle dtype) { return like(x, nb::int_(0), dtype); },
      "a"_a, "dtype"_a = nb::none());
  m.def(
      "ones_like", [](nb::handle x, nb::handle dtype) { return like(x, nb::int_(1), dtype); },
      "a"_a, "dtype"_a = nb::none());
  m.def("arange", &counted, "start"_a, "stop"_a = nb::none(), "step"_a = 1, "dtype"_a = nb::none());
  define(m, "linspace", linspace, "start"_a, "stop"_a, "num"_a = 50, "dtype"_a = f32);
  define(m, "eye", eye, "N"_a, "M"_a = nb::none(), "dtype"_a = f32);
  define(m, "iota", iota, "shape"_a, "axis"_a, "dtype"_a = "int32",
         "0, 1, 2, ... along a dimension.");
}

}  // namespace

void bind_elementwise(nb::module_& m) {
  nb::module_ np = m.def_submodule("numpy", "Functions over Tensors with NumPy's names.");
  bind_unary(np);
  bind_binary(np);
  bind_creation(np);
  define(np, "where", where, "condition"_a, "x"_a, "y"_a);
  np.def("clip", &clipped, "a"_a, "min"_a = nb::none(), "max"_a = nb::none());
  define(np, "astype", cleave::cast, "x"_a, "dtype"_a);
  define(np, "bitcast", bitcast, "x"_a, "dtype"_a, "The same bits as another dtype.");
  define(np, "reduce_precision", reduce_precision, "x"_a, "exponent_bits"_a, "mantissa_bits"_a);
  define(np, "lerp", lerp, "a"_a, "b"_a, "weight"_a);
  define(np, "nan_to_num", nan_to_num, "x"_a, "nan"_a = 0.0);
  define(np, "xlogy", xlogy, "x"_a, "y"_a);
  bind_close(np, "isclose", is_close);
  bind_close(np, "allclose", allclose);
}

}  // namespace cleave::python
