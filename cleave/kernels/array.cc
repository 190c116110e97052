#include "cleave/kernels/array.h"

#include <cstring>
#include <new>
#include <optional>

#include "cleave/core/aligned.h"
#include "cleave/core/available_memory.h"
#include "cleave/core/error.h"
#include "cleave/kernels/allocation_count.h"
#include "cleave/kernels/buffer_pool.h"
#include "cleave/kernels/workspace.h"

namespace cleave {
namespace {

// Arrays of this many bytes and more take blocks from the pool, which keeps at most kKeptBytes.
constexpr size_t kPooledBytes = size_t{64} << 10;
constexpr size_t kKeptBytes = size_t{1} << 30;
constexpr size_t kMostBytes = size_t{1} << 62;

// Never destroyed: arrays may outlive every other static object.
BufferPool& pool() {
  static auto* pool = new BufferPool(kKeptBytes);
  return *pool;
}

// AddressSanitizer finds uses of freed arrays only where they are really freed.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kUsePool = false;
#else
constexpr bool kUsePool = true;
#endif

void count_allocated(size_t bytes) {
  AllocationCount& count = thread_allocations();
  count.live += static_cast<int64_t>(bytes);
  if (count.live > count.peak) count.peak = count.live;
}
void count_freed(size_t bytes) { thread_allocations().live -= static_cast<int64_t>(bytes); }

}  // namespace

AllocationCount& thread_allocations() {
  static thread_local AllocationCount count;
  return count;
}

Buffer allocate(size_t bytes) {
  if (bytes > kMostBytes) throw_user("an array of {} bytes: more than any memory holds", bytes);
  if (kUsePool && bytes >= kPooledBytes) {
    std::byte* data = pool().take(bytes);
    count_allocated(bytes);
    return Buffer(data, [bytes](std::byte* p) {
      count_freed(bytes);
      pool().give(p, bytes);
    });
  }
  check_fits(static_cast<int64_t>(bytes), "an array");
  auto* data = static_cast<std::byte*>(
      ::operator new[](bytes == 0 ? 1 : bytes, std::align_val_t{kAlignment}));
  count_allocated(bytes);
  return Buffer(data, [bytes](std::byte* p) {
    count_freed(bytes);
    ::operator delete[](p, std::align_val_t{kAlignment});
  });
}

Array::Array(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), strides_(row_major_strides(shape_)) {
  buffer_ = allocate(num_bytes());
}

Array::Array(DType dtype, Shape shape, Shape strides, int64_t offset, Buffer buffer)
    : dtype_(dtype),
      shape_(std::move(shape)),
      strides_(std::move(strides)),
      offset_(offset),
      buffer_(std::move(buffer)) {}

Array Array::zeros(DType dtype, Shape shape) {
  Array array(dtype, std::move(shape));
  std::memset(array.raw(), 0, array.num_bytes());
  return array;
}

Array Array::from_bytes(DType dtype, Shape shape, const void* data) {
  Array array(dtype, std::move(shape));
  if (array.num_bytes()) std::memcpy(array.raw(), data, array.num_bytes());
  return array;
}

bool Array::is_contiguous() const {
  int64_t expected = 1;
  for (size_t d = rank(); d-- > 0;) {
    if (shape_[d] == 0) return true;
    if (shape_[d] != 1 && strides_[d] != expected) return false;
    expected *= shape_[d];
  }
  return true;
}

Array Array::contiguous() const { return is_contiguous() ? *this : copy(); }

Array Array::copy() const {
  Array result(dtype_, shape_);
  copy_elements(*this, result);
  return result;
}

Array Array::slice(const Shape& start, const Shape& size, const Shape& step) const {
  Array view = *this;
  view.shape_ = size;
  for (size_t d = 0; d < rank(); ++d) {
    view.offset_ += start[d] * strides_[d];
    if (!step.empty()) view.strides_[d] *= step[d];
  }
  if (view.num_elements() == 0) view.offset_ = 0;
  return view;
}

Array Array::transpose(const Shape& permutation) const {
  Array view = *this;
  for (size_t d = 0; d < rank(); ++d) {
    view.shape_[d] = shape_[permutation[d]];
    view.strides_[d] = strides_[permutation[d]];
  }
  return view;
}

namespace {

// The strides of the same elements in another shape, or nothing where no strides reach them in
// order. Walks groups of dimensions whose products of sizes agree: inside one, the old dimensions
// must lie behind each other.
std::optional<Shape> reshaped_strides(const Shape& shape, const Shape& strides, const Shape& to) {
  Shape old_shape, old_strides;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    if (!old_shape.empty() && old_strides.back() == strides[d] * shape[d]) {
      old_shape.back() *= shape[d];
      old_strides.back() = strides[d];
    } else {
      old_shape.push_back(shape[d]);
      old_strides.push_back(strides[d]);
    }
  }
  Shape result(to.size(), 1);
  size_t old = old_shape.size();
  int64_t left = 1, stride = 0;  // of the merged dimension that is being split, from its minor end
  for (size_t d = to.size(); d-- > 0;) {
    if (to[d] == 1) continue;
    if (left == 1) {
      --old;
      left = old_shape[old];
      stride = old_strides[old];
    }
    if (left % to[d] != 0) return std::nullopt;
    result[d] = stride;
    stride *= to[d];
    left /= to[d];
  }
  return result;
}

}  // namespace

Array Array::reshape(Shape shape) const {
  internal_check(cleave::num_elements(shape) == num_elements(), "reshape to another element count");
  if (num_elements() > 0 && !is_contiguous()) {
    if (auto strides = reshaped_strides(shape_, strides_, shape))
      return Array(dtype_, std::move(shape), std::move(*strides), offset_, buffer_);
  }
  Array view = contiguous();
  view.shape_ = std::move(shape);
  view.strides_ = row_major_strides(view.shape_);
  return view;
}

bool reshapes_as_view(const Array& array, const Shape& shape) {
  return array.num_elements() == 0 || array.is_contiguous() ||
         reshaped_strides(array.shape(), array.strides(), shape).has_value();
}

Array Array::broadcast(Shape shape, const Shape& dims) const {
  Shape strides(shape.size(), 0);
  for (size_t d = 0; d < rank(); ++d)
    if (shape_[d] == shape[dims[d]] && shape_[d] != 1) strides[dims[d]] = strides_[d];
  return Array(dtype_, std::move(shape), std::move(strides), offset_, buffer_);
}

bool identical(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return false;
  const Array x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.raw(), y.raw(), x.num_bytes()) == 0;
}

}  // namespace cleave
