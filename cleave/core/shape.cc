#include "cleave/core/shape.h"

#include "cleave/core/error.h"

namespace cleave {

// Sizes in bytes fit into 64 bits too, whatever the type: 16 bytes an element is the most.
int64_t num_elements(const Shape& shape) {
  int64_t count = 1;
  bool fits = true, known = true;
  for (int64_t size : shape) {
    if (size == 0) return 0;
    known &= size != kDynamicSize;
    fits &= !__builtin_mul_overflow(count, size, &count);
  }
  if (!known) return kDynamicSize;
  if (!fits || count > INT64_MAX / 16)
    throw_user("a tensor of {}: it has more elements than any memory holds", to_string(shape));
  return count;
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // Of a tensor without elements the product may be anything.
    if (__builtin_mul_overflow(stride, shape[i], &stride)) stride = 0;
  }
  return strides;
}

std::string to_string(const Shape& shape) {
  std::string text;
  for (int64_t size : shape) {
    if (!text.empty()) text += 'x';
    text += size == kDynamicSize ? "?" : std::to_string(size);
  }
  return text;
}

}  // namespace cleave
