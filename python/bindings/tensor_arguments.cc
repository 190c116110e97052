
#include <array>
#include <string_view>

#include "cleave/core/error.h"
#include "cleave/runtime/partition_spec.h"
#include "tensors.h"

namespace cleave::python {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 30> kNames{{
    {"bool", DType::Bool},
    {"int8", DType::I8},
    {"int16", DType::I16},
    {"int32", DType::I32},
    {"int64", DType::I64},
    {"uint8", DType::U8},
    {"uint16", DType::U16},
    {"uint32", DType::U32},
    {"uint64", DType::U64},
    {"float16", DType::F16},
    {"bfloat16", DType::BF16},
    {"float32", DType::F32},
    {"float64", DType::F64},
    {"complex64", DType::C64},
    {"complex128", DType::C128},
    {"int2", DType::I2},
    {"int4", DType::I4},
    {"uint2", DType::U2},
    {"uint4", DType::U4},
    {"float4_e2m1fn", DType::F4E2M1FN},
    {"float6_e2m3fn", DType::F6E2M3FN},
    {"float6_e3m2fn", DType::F6E3M2FN},
    {"float8_e3m4", DType::F8E3M4},
    {"float8_e4m3", DType::F8E4M3},
    {"float8_e4m3fn", DType::F8E4M3FN},
    {"float8_e4m3fnuz", DType::F8E4M3FNUZ},
    {"float8_e4m3b11fnuz", DType::F8E4M3B11FNUZ},
    {"float8_e5m2", DType::F8E5M2},
    {"float8_e5m2fnuz", DType::F8E5M2FNUZ},
    {"float8_e8m0fnu", DType::F8E8M0FNU},
}};

// A function of the package, kept until the process ends.
nb::handle helper(const char* module, const char* name) {
  return nb::object(nb::module_::import_(module).attr(name)).release();
}

Scalar integer_of(nb::handle object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow == 0) return Scalar(static_cast<int64_t>(value));
  const unsigned long long large = PyLong_AsUnsignedLongLong(object.ptr());
  if (!PyErr_Occurred()) return Scalar(static_cast<uint64_t>(large));
  PyErr_Clear();
  throw_user("{} has more than 64 bits", nb::str(object).c_str());
}

int64_t to_int(nb::handle object) {
  const Py_ssize_t value = PyNumber_AsSsize_t(object.ptr(), PyExc_OverflowError);
  if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
  return value;
}

Slice to_slice(nb::handle object) {
  auto bound = [&](const char* name) -> std::optional<int64_t> {
    nb::object value = object.attr(name);
    if (value.is_none()) return std::nullopt;
    return to_int(value);
  };
  return {bound("start"), bound("stop"), bound("step").value_or(1)};
}

TensorIndex to_index(nb::handle object) {
  if (object.is_none()) return newaxis;
  if (object.ptr() == Py_Ellipsis) return ellipsis;
  if (PySlice_Check(object.ptr())) return to_slice(object);
  if (PyBool_Check(object.ptr()))
    throw_user("an index is {}; index with numbers, slices, None, ... or Tensors",
               nb::str(object).c_str());
  if (PyLong_Check(object.ptr())) return to_int(object);
  if (!nb::isinstance<Tensor>(object) && PyIndex_Check(object.ptr()) &&
      !nb::hasattr(object, "__len__"))
    return to_int(object);
  return to_tensor(object);
}

}  // namespace

std::optional<Scalar> number_of(nb::handle object) {
  PyObject* o = object.ptr();
  if (PyBool_Check(o)) return Scalar(o == Py_True);
  if (PyLong_CheckExact(o)) return integer_of(object);
  if (PyFloat_CheckExact(o)) return Scalar(PyFloat_AS_DOUBLE(o));
  if (PyComplex_CheckExact(o))
    return Scalar(std::complex<double>(PyComplex_RealAsDouble(o), PyComplex_ImagAsDouble(o)));
  return std::nullopt;
}

Scalar to_scalar(nb::handle object) {
  if (auto number = number_of(object)) return *number;
  if (nb::hasattr(object, "item")) {
    nb::object item = object.attr("item")();
    if (auto number = number_of(item)) return *number;
  }
  throw_user("a number is needed, not {}", nb::type_name(object.type()).c_str());
}

Tensor to_tensor(nb::handle object) {
  if (const Tensor * tensor; nb::try_cast(object, tensor) && tensor) return *tensor;
  if (auto number = number_of(object)) return scalar(*number, number->dtype());
  static nb::handle asarray = helper("cleave.tensors", "asarray");
  return nb::cast<Tensor>(asarray(object));
}

Tensors to_tensors(nb::handle list) {
  if (nb::isinstance<Tensor>(list)) {
    Tensors parts;
    for (nb::handle part : list) parts.push_back(to_tensor(part));
    return parts;
  }
  Tensors all;
  for (nb::handle object : list) all.push_back(to_tensor(object));
  return all;
}

HeldOperand::HeldOperand(nb::handle object) : number_(number_of(object)) {
  if (!number_) tensor_ = to_tensor(object);
}

DType to_dtype(nb::handle object) {
  static nb::handle name_of = helper("cleave.dtypes", "name");
  nb::object text = nb::isinstance<nb::str>(object) ? nb::borrow(object) : name_of(object);
  const std::string wanted = nb::cast<std::string>(text);
  for (const auto& [name, dtype] : kNames)
    if (name == wanted) return dtype;
  if (auto dtype = dtype_from_name(wanted)) return *dtype;
  throw_user("'{}' is no dtype; write float32, bfloat16, int32, bool, ...", wanted);
}

std::optional<DType> to_optional_dtype(nb::handle object) {
  if (object.is_none()) return std::nullopt;
  return to_dtype(object);
}

std::string dtype_name(DType dtype) {
  for (const auto& [name, known] : kNames)
    if (known == dtype) return std::string(name);
  return std::string(name(dtype));
}

Ints to_ints(nb::handle object) {
  if (object.is_none()) return {};
  if (!nb::hasattr(object, "__iter__") || (nb::isinstance<Tensor>(object))) return {to_int(object)};
  Ints values;
  for (nb::handle value : object) values.push_back(to_int(value));
  return values;
}

Ints to_axes(nb::handle object) {
  Ints axes = to_ints(object);
  if (axes.empty() && !object.is_none()) throw_user("axis=() names no dimension; None means all");
  return axes;
}

MeshPtr to_mesh(const std::string& text) { return shared_mesh(parse_mesh(text)); }

std::vector<TensorIndex> to_indices(nb::handle key) {
  std::vector<TensorIndex> indices;
  if (!PyTuple_Check(key.ptr())) return {to_index(key)};
  for (nb::handle index : key) indices.push_back(to_index(index));
  return indices;
}

std::optional<PartitionSpec> to_spec(nb::handle text) {
  if (text.is_none()) return std::nullopt;
  return parse_partition_spec(nb::cast<std::string>(text));
}

std::vector<std::optional<PartitionSpec>> to_specs(nb::handle list) {
  std::vector<std::optional<PartitionSpec>> specs;
  for (nb::handle text : list) specs.push_back(to_spec(text));
  return specs;
}

SpecEntry to_entry(nb::handle axes) {
  if (nb::isinstance<nb::str>(axes)) return SpecEntry(nb::cast<std::string>(axes));
  return SpecEntry(nb::cast<std::vector<std::string>>(axes));
}

}  // namespace cleave::python
