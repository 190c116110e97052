#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_linalg.h"
#include "tensors.h"

namespace cleave::python {
namespace {

using Binary = Tensor (*)(const Operand&, const Operand&);

Tensor product(const Operand& a, const Operand& b) {
  if (!a.is_tensor() || !b.is_tensor())
    throw nb::type_error("@ takes matrices or vectors, not numbers; use *");
  return matmul(a.tensor(), b.tensor());
}

// Tensors, numbers, and what has elements: NumPy's, JAX's and PyTorch's arrays.
bool is_operand(nb::handle object) {
  return nb::isinstance<Tensor>(object) || number_of(object) || nb::hasattr(object, "__array__") ||
         nb::hasattr(object, "__dlpack__");
}

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

template <Binary f>
nb::object forward(const Tensor& a, nb::handle b) {
  if (!is_operand(b)) return not_implemented();
  return nb::cast(f(a, HeldOperand(b)));
}
template <Binary f>
nb::object backward(const Tensor& b, nb::handle a) {
  if (!is_operand(a)) return not_implemented();
  return nb::cast(f(HeldOperand(a), b));
}

template <Binary f>
void both_ways(nb::class_<Tensor>& cls, const std::string& name) {
  cls.def(("__" + name + "__").c_str(), &forward<f>, nb::is_operator());
  cls.def(("__r" + name + "__").c_str(), &backward<f>, nb::is_operator());
}

nb::object power(const Tensor& a, nb::handle b, nb::handle modulus) {
  if (!modulus.is_none()) return not_implemented();
  return forward<cleave::pow>(a, b);
}

}  // namespace

void bind_tensor_operators(nb::class_<Tensor>& cls) {
  both_ways<add>(cls, "add");
  both_ways<sub>(cls, "sub");
  both_ways<mul>(cls, "mul");
  both_ways<div>(cls, "truediv");
  both_ways<floor_divide>(cls, "floordiv");
  both_ways<remainder>(cls, "mod");
  both_ways<product>(cls, "matmul");
  both_ways<bitwise_and>(cls, "and");
  both_ways<bitwise_or>(cls, "or");
  both_ways<bitwise_xor>(cls, "xor");
  both_ways<shift_left>(cls, "lshift");
  both_ways<shift_right>(cls, "rshift");
  cls.def("__pow__", &power, nb::arg("exponent"), nb::arg("modulus") = nb::none());
  cls.def(
      "__rpow__",
      [](const Tensor& b, nb::handle a, nb::handle) { return backward<cleave::pow>(b, a); },
      nb::arg("base"), nb::arg("modulus") = nb::none());
  cls.def("__eq__", &forward<equal>, nb::is_operator());
  cls.def("__ne__", &forward<not_equal>, nb::is_operator());
  cls.def("__lt__", &forward<less>, nb::is_operator());
  cls.def("__le__", &forward<less_equal>, nb::is_operator());
  cls.def("__gt__", &forward<greater>, nb::is_operator());
  cls.def("__ge__", &forward<greater_equal>, nb::is_operator());
  cls.def("__neg__", [](const Tensor& x) { return neg(x); });
  cls.def("__pos__", [](const Tensor& x) { return x; });
  cls.def("__abs__", [](const Tensor& x) { return cleave::abs(x); });
  cls.def("__invert__", [](const Tensor& x) { return bitwise_not(x); });
}

}  // namespace cleave::python
