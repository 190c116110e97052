#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "bindings.h"
#include "cleave/runtime/ops_index.h"
#include "cleave/runtime/promotion.h"
#include "cleave/runtime/tensor.h"

// Objects of Python as what functions over Tensors take. Functions are bound directly:
//
//   define(m, "sum", &cleave::sum, "a"_a, "axis"_a = nb::none(), "keepdims"_a = false);
//
// takes arrays, lists and numbers for a Tensor, and None, a number or a tuple for dimensions.
namespace cleave::python {

using Tensors = std::vector<Tensor>;
using Ints = std::vector<int64_t>;

void bind_tensor_memory(nb::module_& m);
void bind_elementwise(nb::module_& m);
void bind_tensor_operators(nb::class_<Tensor>& cls);
void bind_reductions(nb::module_& m);
void bind_shape_ops(nb::module_& m);
void bind_linear_algebra(nb::module_& m);
void bind_layers(nb::module_& m);
void bind_random(nb::module_& m);
void bind_collectives(nb::module_& m);

// Tensors themselves; numbers; and through cleave.tensors.asarray everything that has elements.
Tensor to_tensor(nb::handle object);
Tensors to_tensors(nb::handle list);
// Numbers of Python, which take the dtype of the tensor that they meet.
std::optional<Scalar> number_of(nb::handle object);
Scalar to_scalar(nb::handle object);
// By name (float32, f32), or anything that cleave.dtypes.name knows.
DType to_dtype(nb::handle object);
std::optional<DType> to_optional_dtype(nb::handle object);
std::string dtype_name(DType dtype);  // as NumPy has it: float32, bfloat16
// None: no numbers; a number: one.
Ints to_ints(nb::handle object);
// As `to_ints`, but an empty tuple, which names no dimension at all, is an error.
Ints to_axes(nb::handle object);
MeshPtr to_mesh(const std::string& text);
std::vector<TensorIndex> to_indices(nb::handle key);
// The text of a spec; none for None.
std::optional<PartitionSpec> to_spec(nb::handle text);
std::vector<std::optional<PartitionSpec>> to_specs(nb::handle list);
SpecEntry to_entry(nb::handle axes);

// A tensor or a number, for as long as a call lasts.
class HeldOperand {
 public:
  explicit HeldOperand(nb::handle object);
  operator Operand() const { return number_ ? Operand(*number_) : Operand(tensor_); }

 private:
  Tensor tensor_;
  std::optional<Scalar> number_;
};

// How a parameter of a C++ function is taken from Python: the type that the binding has, and the
// conversion.
template <typename T>
struct Taken {
  using Type = std::decay_t<T>;
  static const Type& give(const Type& value) { return value; }
};
template <typename Result, Result (*convert)(nb::handle)>
struct TakenBy {
  using Type = nb::handle;
  static Result give(nb::handle object) { return convert(object); }
};
template <>
struct Taken<const Tensor&> : TakenBy<Tensor, to_tensor> {};
template <>
struct Taken<std::span<const Tensor>> : TakenBy<Tensors, to_tensors> {};
template <>
struct Taken<const Operand&> {
  using Type = nb::handle;
  static HeldOperand give(nb::handle object) { return HeldOperand(object); }
};
template <>
struct Taken<const Scalar&> : TakenBy<Scalar, to_scalar> {};
template <>
struct Taken<DType> : TakenBy<DType, to_dtype> {};
template <>
struct Taken<std::optional<DType>> : TakenBy<std::optional<DType>, to_optional_dtype> {};
template <>
struct Taken<const Ints&> : TakenBy<Ints, to_ints> {};

template <typename R, typename... A, typename... Extra>
void define(nb::module_& m, const char* name, R (*f)(A...), const Extra&... extra) {
  m.def(
      name, [f](typename Taken<A>::Type... a) -> R { return f(Taken<A>::give(a)...); }, extra...);
}

}  // namespace cleave::python
