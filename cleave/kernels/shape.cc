#include "cleave/kernels/shape.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/kernels/dispatch.h"
#include "cleave/kernels/elementwise.h"

namespace cleave {

Array iota(DType dtype, const Shape& shape, size_t dim) {
  Array row(DType::I64, {shape[dim]});
  for (int64_t i = 0; i < shape[dim]; ++i) row.data<int64_t>()[i] = i;
  return convert(row, dtype).broadcast(shape, {static_cast<int64_t>(dim)});
}

Array reverse(const Array& x, std::span<const int64_t> dims) {
  Shape start(x.rank(), 0), step(x.rank(), 1);
  for (int64_t d : dims) {
    start[d] = x.shape()[d] - 1;
    step[d] = -1;
  }
  return x.slice(start, x.shape(), step);
}

Shape padded_shape(const Shape& shape, const Shape& low, const Shape& high, const Shape& interior) {
  Shape result(shape.size());
  for (size_t d = 0; d < shape.size(); ++d)
    result[d] = low[d] + high[d] + shape[d] + std::max<int64_t>(shape[d] - 1, 0) * interior[d];
  return result;
}

Array pad(const Array& x, const Array& value, const Shape& low, const Shape& high,
          const Shape& interior) {
  Array result(x.dtype(), padded_shape(x.shape(), low, high, interior));
  fill(result, value);
  // The elements that stay, and where they go.
  Shape first(x.rank()), count(x.rank()), place(x.rank()), step(x.rank());
  for (size_t d = 0; d < x.rank(); ++d) {
    step[d] = interior[d] + 1;
    first[d] = low[d] < 0 ? ceil_div(-low[d], step[d]) : 0;
    place[d] = low[d] + first[d] * step[d];
    const int64_t room = result.shape()[d] - place[d];
    const int64_t fitting = room > 0 ? ceil_div(room, step[d]) : 0;
    count[d] = std::clamp<int64_t>(x.shape()[d] - first[d], 0, fitting);
  }
  if (num_elements(count) > 0)
    copy_elements(x.slice(first, count), result.slice(place, count, step));
  return result;
}

Array concatenate(std::span<const Array> arrays, size_t dim) {
  Shape shape = arrays[0].shape();
  shape[dim] = 0;
  for (const Array& array : arrays) shape[dim] += array.shape()[dim];
  Array result(arrays[0].dtype(), shape);
  Shape start(shape.size(), 0);
  for (const Array& array : arrays) {
    if (array.num_elements() > 0) copy_elements(array, result.slice(start, array.shape()));
    start[dim] += array.shape()[dim];
  }
  return result;
}

namespace {

void keep_inside(Shape& start, const Shape& size, const Shape& whole) {
  for (size_t d = 0; d < start.size(); ++d)
    start[d] = std::clamp<int64_t>(start[d], 0, whole[d] - size[d]);
}

}  // namespace

Array dynamic_slice(const Array& x, Shape start, const Shape& size) {
  keep_inside(start, size, x.shape());
  return x.slice(start, size);
}

Array dynamic_update_slice(const Array& x, const Array& update, Shape start, bool in_place) {
  keep_inside(start, update.shape(), x.shape());
  Array result = in_place ? x : x.copy();
  if (update.num_elements() > 0) copy_elements(update, result.slice(start, update.shape()));
  return result;
}

Shape integers_of(const Array& x) {
  const Array wide = convert(x, DType::I64).contiguous();
  const auto* data = wide.data<int64_t>();
  return Shape(data, data + wide.num_elements());
}

Array array_of_integers(DType dtype, const Shape& values) {
  return convert(
      Array::from_bytes(DType::I64, {static_cast<int64_t>(values.size())}, values.data()), dtype);
}

void fill(const Array& target, const Array& scalar) {
  internal_check(target.is_contiguous() && scalar.num_elements() == 1, "fill of a strided view");
  visit_size(target.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::fill_n(reinterpret_cast<T*>(target.raw()), target.num_elements(), *scalar.data<T>());
  });
}

}  // namespace cleave
