#pragma once

#include <cstddef>
#include <memory>

#include "cleave/core/dtype.h"
#include "cleave/core/shape.h"

namespace cleave {

// Bytes that arrays share. They are freed with the last array.
using Buffer = std::shared_ptr<std::byte[]>;
Buffer allocate(size_t bytes);  // 64-byte aligned, not initialised

// A tensor on one device: a strided view into a shared buffer. Copies are cheap and share elements;
// an array that a kernel returned is not written again while others hold it.
class Array {
 public:
  Array() = default;
  Array(DType dtype, Shape shape);  // fresh, contiguous, not initialised
  // A view; strides and offset in elements. Strides may be zero or negative.
  Array(DType dtype, Shape shape, Shape strides, int64_t offset, Buffer buffer);

  static Array zeros(DType dtype, Shape shape);
  // Copies elements from host memory, row-major.
  static Array from_bytes(DType dtype, Shape shape, const void* data);
  template <typename T>
  static Array scalar(DType dtype, T value) {
    Array array(dtype, {});
    *array.data<T>() = value;
    return array;
  }

  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  const Shape& strides() const { return strides_; }
  size_t rank() const { return shape_.size(); }
  int64_t num_elements() const { return cleave::num_elements(shape_); }
  size_t num_bytes() const { return static_cast<size_t>(num_elements()) * byte_size(dtype_); }
  bool is_contiguous() const;  // row-major without gaps; size-1 dimensions do not count
  bool valid() const { return buffer_ != nullptr; }
  const Buffer& buffer() const { return buffer_; }

  // The first element of the view.
  template <typename T>
  T* data() {
    return reinterpret_cast<T*>(raw());
  }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(raw());
  }
  std::byte* raw() const { return buffer_.get() + offset_ * byte_size(dtype_); }

  Array contiguous() const;  // itself if it is, a packed copy otherwise
  Array copy() const;        // always fresh and contiguous
  // Views.
  Array slice(const Shape& start, const Shape& size, const Shape& step = {}) const;
  Array transpose(const Shape& permutation) const;
  Array reshape(Shape shape) const;  // a view if strides allow it, a copy otherwise
  Array broadcast(Shape shape, const Shape& dims) const;  // dims[i]: where dimension i goes

 private:
  DType dtype_ = DType::F32;
  Shape shape_;
  Shape strides_;
  int64_t offset_ = 0;
  Buffer buffer_;
};

// Copies `from` into `to`, element by element; same dtype and shape, any strides. They must not
// overlap.
void copy_elements(const Array& from, const Array& to);
// Bit for bit, NaNs included.
bool identical(const Array& a, const Array& b);

}  // namespace cleave
