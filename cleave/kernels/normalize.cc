#include "cleave/kernels/normalize.h"

#include <bit>
#include <numeric>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/library_threads.h"
#include "cleave/kernels/onednn.h"
#include "cleave/kernels/reduce.h"

namespace cleave {
namespace {

using dnnl::memory;

// Rows of the last dimension, whatever stands before it.
memory::desc rows_of(const Array& x) {
  const int64_t columns = x.shape().back();
  return memory::desc({x.num_elements() / columns, columns}, memory::data_type::f32,
                      memory::format_tag::ab);
}

memory view(const memory::desc& desc, const Array& x) {
  return memory(desc, onednn_engine(), x.raw());
}

template <typename Primitive>
struct Entry {
  Primitive primitive;
  memory::desc rows;
};

// oneDNN adds up rows one after the other, in as many chains as a vector has elements. In longer
// rows than this the error shows, and the kernels of this library take its place.
constexpr int64_t kLongRow = 1 << 16;

// One number per row, for every element of the row.
Array along_rows(const Array& numbers, const Shape& shape) {
  Shape dims(shape.size() - 1);
  std::iota(dims.begin(), dims.end(), 0);
  return numbers.broadcast(shape, dims);
}
Array fold_last(const Array& x, Reducer reducer) {
  return reduce(x, {static_cast<int64_t>(x.rank()) - 1}, reducer,
                reduce_identity(reducer, DType::F32));
}
Array scalar(double value) {
  Array result(DType::F32, {});
  *result.data<float>() = static_cast<float>(value);
  return result;
}

Array softmax_of_long_rows(const Array& x) {
  const Array shifted =
      binary(BinaryOp::Subtract, x, along_rows(fold_last(x, Reducer::Max), x.shape()));
  const Array powers = unary(UnaryOp::Exp, shifted);
  return binary(BinaryOp::Divide, powers, along_rows(fold_last(powers, Reducer::Sum), x.shape()));
}

Array layer_norm_of_long_rows(const Array& x, const Array* scale, const Array* shift,
                              double epsilon) {
  const auto mean = [&](const Array& values) {
    const Array sums = fold_last(values, Reducer::Sum);
    const Array count = scalar(static_cast<double>(x.shape().back()));
    return binary(BinaryOp::Divide, sums, count.broadcast(sums.shape(), {}));
  };
  const Array centred = binary(BinaryOp::Subtract, x, along_rows(mean(x), x.shape()));
  const Array variance = mean(unary(UnaryOp::Square, centred));
  const Array deviation =
      unary(UnaryOp::Sqrt,
            binary(BinaryOp::Add, variance, scalar(epsilon).broadcast(variance.shape(), {})));
  Array result = binary(BinaryOp::Divide, centred, along_rows(deviation, x.shape()));
  if (!scale) return result;
  const Shape last{static_cast<int64_t>(x.rank()) - 1};
  result = binary(BinaryOp::Multiply, result, scale->broadcast(x.shape(), last));
  return binary(BinaryOp::Add, result, shift->broadcast(x.shape(), last));
}

}  // namespace

Array softmax(const Array& x) {
  internal_check(x.dtype() == DType::F32 && x.rank() > 0, "softmax of another type");
  Array result(DType::F32, x.shape());
  if (x.num_elements() == 0) return result;
  if (x.shape().back() > kLongRow) return softmax_of_long_rows(x);
  apply_library_threads();
  const Array packed = x.contiguous();
  using Primitive = dnnl::softmax_forward;
  thread_local PrimitiveCache<Entry<Primitive>> cache;
  const memory::desc rows = rows_of(packed);
  const auto& entry = cache.get({rows.dims()[0], rows.dims()[1]}, [&] {
    return Entry<Primitive>{
        Primitive({{dnnl::prop_kind::forward_inference, rows, 1}, onednn_engine()}), rows};
  });
  entry.primitive.execute(onednn_stream(), {{DNNL_ARG_SRC, view(entry.rows, packed)},
                                            {DNNL_ARG_DST, view(entry.rows, result)}});
  onednn_stream().wait();
  return result;
}

Array layer_norm(const Array& x, const Array* scale, const Array* shift, double epsilon) {
  internal_check(x.dtype() == DType::F32 && x.rank() > 0, "layer_norm of another type");
  Array result(DType::F32, x.shape());
  if (x.num_elements() == 0) return result;
  if (x.shape().back() > kLongRow) return layer_norm_of_long_rows(x, scale, shift, epsilon);
  apply_library_threads();
  const Array packed = x.contiguous();
  using Primitive = dnnl::layer_normalization_forward;
  thread_local PrimitiveCache<Entry<Primitive>> cache;
  const memory::desc rows = rows_of(packed);
  const auto& entry = cache.get(
      {rows.dims()[0], rows.dims()[1], scale != nullptr, std::bit_cast<int64_t>(epsilon)}, [&] {
        const auto flags =
            scale ? dnnl::normalization_flags::use_scale | dnnl::normalization_flags::use_shift
                  : dnnl::normalization_flags::none;
        return Entry<Primitive>{Primitive({{dnnl::prop_kind::forward_inference, rows,
                                            static_cast<float>(epsilon), flags},
                                           onednn_engine()}),
                                rows};
      });
  std::unordered_map<int, memory> arguments{{DNNL_ARG_SRC, view(entry.rows, packed)},
                                            {DNNL_ARG_DST, view(entry.rows, result)}};
  Array weights, offsets;
  if (scale) {
    weights = scale->contiguous();
    offsets = shift->contiguous();
    const memory::desc vector({packed.shape().back()}, memory::data_type::f32,
                              memory::format_tag::a);
    arguments.emplace(DNNL_ARG_SCALE, view(vector, weights));
    arguments.emplace(DNNL_ARG_SHIFT, view(vector, offsets));
  }
  entry.primitive.execute(onednn_stream(), arguments);
  onednn_stream().wait();
  return result;
}

}  // namespace cleave
