#include "cleave/ops/literal_array.h"

#include "cleave/core/error.h"

namespace cleave {

Array array_of(const Literal& literal) {
  const Type& type = literal.type;
  if (!literal.bytes)
    throw_user("the elements of a constant {} are in the resource '{}', which is not given",
               to_string(type), literal.resource);
  // Arrays are read once they are made; the literal's bytes stay as they are.
  auto* bytes = const_cast<std::byte*>(literal.data());
  Buffer buffer(std::shared_ptr<void>(literal.bytes, bytes), bytes);
  Shape strides = literal.splat ? Shape(type.rank(), 0) : row_major_strides(type.shape);
  return Array(type.dtype, type.shape, std::move(strides), 0, std::move(buffer));
}

}  // namespace cleave
