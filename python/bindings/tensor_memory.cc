#include <nanobind/ndarray.h>

#include <algorithm>
#include <mutex>

#include "cleave/core/error.h"
#include "tensors.h"

// Elements between Python's arrays and Tensors. Arrays travel as DLPack does: a pointer, a shape,
// strides and a type.
namespace cleave::python {
namespace {

using namespace nb::literals;
using Code = nb::dlpack::dtype_code;

std::optional<Code> float8_code(DType dtype) {
  switch (dtype) {
    case DType::F8E3M4:
      return Code::Float8_E3M4;
    case DType::F8E4M3:
      return Code::Float8_E4M3;
    case DType::F8E4M3FN:
      return Code::Float8_E4M3FN;
    case DType::F8E4M3FNUZ:
      return Code::Float8_E4M3FNUZ;
    case DType::F8E4M3B11FNUZ:
      return Code::Float8_E4M3B11FNUZ;
    case DType::F8E5M2:
      return Code::Float8_E5M2;
    case DType::F8E5M2FNUZ:
      return Code::Float8_E5M2FNUZ;
    case DType::F8E8M0FNU:
      return Code::Float8_E8M0FNU;
    default:
      return std::nullopt;
  }
}

nb::dlpack::dtype dlpack_type(DType dtype) {
  const auto bits = static_cast<uint8_t>(8 * byte_size(dtype));
  auto of = [&](Code code) { return nb::dlpack::dtype{static_cast<uint8_t>(code), bits, 1}; };
  if (dtype == DType::Bool) return of(Code::Bool);
  if (dtype == DType::BF16) return of(Code::Bfloat);
  if (auto code = float8_code(dtype)) return of(*code);
  if (!has_kernels(dtype))
    throw_user("DLPack has no arrays of {} as Cleave keeps them; cast the tensor", name(dtype));
  if (is_complex(dtype)) return of(Code::Complex);
  if (is_float(dtype)) return of(Code::Float);
  return of(is_unsigned_integer(dtype) ? Code::UInt : Code::Int);
}

DType dtype_of(nb::dlpack::dtype type) {
  for (int i = 0; i <= static_cast<int>(DType::F8E8M0FNU); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!has_kernels(dtype) && !float8_code(dtype)) continue;
    if (type == dlpack_type(dtype)) return dtype;
  }
  throw_user("an array of DLPack's type code {} with {} bits has no dtype here", type.code,
             type.bits);
}

// Memory that belongs to others: it is held here as well, so that nothing takes it for free and
// writes to it. It is let go by `sweep`, under the interpreter's lock, once no tensor has it.
class Borrowed {
 public:
  void add(Buffer buffer) {
    std::lock_guard lock(mutex_);
    buffers_.push_back(std::move(buffer));
  }
  void sweep() {
    std::vector<Buffer> free;
    {
      std::lock_guard lock(mutex_);
      const auto end = std::partition(buffers_.begin(), buffers_.end(),
                                      [](const Buffer& b) { return b.use_count() > 1; });
      free.assign(std::make_move_iterator(end), std::make_move_iterator(buffers_.end()));
      buffers_.erase(end, buffers_.end());
    }
  }
  size_t size() {
    std::lock_guard lock(mutex_);
    return buffers_.size();
  }

 private:
  std::mutex mutex_;
  std::vector<Buffer> buffers_;
};

Borrowed& borrowed() {
  static Borrowed* all = new Borrowed;  // others may hold memory to the very end
  return *all;
}

using AnyArray = nb::ndarray<nb::ro, nb::device::cpu>;

// An array's elements as they lie, alive as long as the result.
Array view_of(const AnyArray& array, DType dtype) {
  Shape shape, strides;
  for (size_t d = 0; d < array.ndim(); ++d) {
    shape.push_back(static_cast<int64_t>(array.shape(d)));
    strides.push_back(array.stride(d));
  }
  if (array.itemsize() != static_cast<size_t>(byte_size(dtype)))
    throw_user("elements of {} bytes are no {}", array.itemsize(), name(dtype));
  auto* owner = new AnyArray(array);
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(array.data()));
  Buffer buffer(data, [owner](std::byte*) { delete owner; });
  return Array(dtype, std::move(shape), std::move(strides), 0, std::move(buffer));
}

bool is_aligned(const AnyArray& array) {
  return reinterpret_cast<uintptr_t>(array.data()) % array.itemsize() == 0;
}

// `dtype` empty: the array's own. Shared unless `copy`; arrays that are not packed are copied.
Tensor from_array(const AnyArray& array, const std::string& dtype_text, bool copy) {
  borrowed().sweep();
  const DType dtype =
      dtype_text.empty() ? dtype_of(array.dtype()) : to_dtype(nb::str(dtype_text.c_str()));
  Array view = view_of(array, dtype);
  if (view.num_elements() == 0) return Tensor::from(Array(dtype, view.shape()));
  if (copy || !view.is_contiguous() || !is_aligned(array)) return Tensor::from(view.copy());
  Tensor tensor = Tensor::from(std::move(view));
  borrowed().add(tensor.addressable_shards()[0].data.buffer());
  return tensor;
}

void evaluate_all(const Tensors& tensors) {
  borrowed().sweep();
  nb::gil_scoped_release released;
  evaluate(tensors);
}

// The whole value, not to be written to: the tensor's own memory if one device has all of it.
Array whole_of(const Tensor& tensor) {
  evaluate_all({tensor});
  nb::gil_scoped_release released;
  if (!tensor.mesh())
    if (auto shards = tensor.addressable_shards(); shards.size() == 1)
      return shards[0].data.contiguous();
  return tensor.to_host();
}

template <typename... Form>
nb::ndarray<Form...> exported(Array array, nb::dlpack::dtype type) {
  std::vector<size_t> shape(array.shape().begin(), array.shape().end());
  auto* held = new Array(std::move(array));
  nb::capsule owner(held, [](void* p) noexcept { delete static_cast<Array*>(p); });
  return nb::ndarray<Form...>(held->raw(), shape.size(), shape.data(), owner, nullptr, type);
}

// Types that NumPy lacks are unsigned numbers of their size.
nb::dlpack::dtype numpy_type(DType dtype) {
  if (has_kernels(dtype) && dtype != DType::BF16) return dlpack_type(dtype);
  return dlpack_type(byte_size(dtype) == 1 ? DType::U8 : DType::U16);
}

nb::object host_view(const Tensor& tensor) {
  return nb::cast(exported<nb::numpy, nb::ro>(whole_of(tensor), numpy_type(tensor.dtype())));
}

// Readers that do not know of memory that is not to be written get a copy.
nb::object dlpack_of(const Tensor& tensor, bool copy) {
  const nb::dlpack::dtype type = dlpack_type(tensor.dtype());
  Array whole = whole_of(tensor);
  if (copy) return nb::cast(exported<nb::array_api>(whole.copy(), type));
  return nb::cast(exported<nb::array_api, nb::ro>(std::move(whole), type));
}

nb::list shards_of(const Tensor& tensor) {
  evaluate_all({tensor});
  nb::list list;
  for (TensorShard& shard : tensor.addressable_shards())
    list.append(nb::make_tuple(shard.device, shard.index.offset, shard.index.size,
                               nb::cast(exported<nb::numpy, nb::ro>(shard.data.contiguous(),
                                                                    numpy_type(tensor.dtype())))));
  return list;
}

}  // namespace

void bind_tensor_memory(nb::module_& m) {
  m.def("from_array", &from_array, "array"_a, "dtype"_a = "", "copy"_a = true,
        "A Tensor of an array's elements: a copy, or the same memory if it is packed.");
  m.def("host_view", &host_view, "tensor"_a,
        "The whole value as a NumPy array that is not to be written to.");
  m.def("dlpack_of", &dlpack_of, "tensor"_a, "copy"_a);
  m.def("shards_of", &shards_of, "tensor"_a);
  m.def("evaluate", &evaluate_all, "tensors"_a);
  m.def("borrowed_buffers", [] {
    borrowed().sweep();
    return borrowed().size();
  });
}

}  // namespace cleave::python
