#include "cleave/runtime/ops_literal.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

Shape shape_of(const Numbers& numbers) {
  Shape shape;
  for (const Numbers* at = &numbers; !at->number(); at = &at->list()[0]) {
    shape.push_back(static_cast<int64_t>(at->list().size()));
    if (at->list().empty()) break;
  }
  return shape;
}

void collect(const Numbers& numbers, const Shape& shape, size_t depth, std::vector<Scalar>& all) {
  if (numbers.number()) {
    if (depth != shape.size())
      throw_user("tensor: a number stands beside lists; all must be nested alike");
    all.push_back(*numbers.number());
    return;
  }
  if (depth == shape.size())
    throw_user("tensor: a list stands beside numbers; all must be nested alike");
  if (static_cast<int64_t>(numbers.list().size()) != shape[depth])
    throw_user(
        "tensor: lists of {} and of {} stand side by side along dimension {}; give all the "
        "same length",
        shape[depth], numbers.list().size(), depth);
  for (const Numbers& part : numbers.list()) collect(part, shape, depth + 1, all);
}

DType common_type(const std::vector<Scalar>& numbers) {
  auto kind = numbers.empty() ? Scalar::Kind::Float : Scalar::Kind::Bool;
  for (const Scalar& number : numbers) kind = std::max(kind, number.kind);
  switch (kind) {
    case Scalar::Kind::Bool:
      return DType::Bool;
    case Scalar::Kind::Int:
      return DType::I32;
    case Scalar::Kind::Float:
      return DType::F32;
    case Scalar::Kind::Complex:
      break;
  }
  return DType::C64;
}

}  // namespace

Tensor tensor(const Numbers& numbers, std::optional<DType> dtype) {
  const Shape shape = shape_of(numbers);
  std::vector<Scalar> all;
  collect(numbers, shape, 0, all);
  const DType type = dtype.value_or(common_type(all));
  if (!is_complex(type))
    for (const Scalar& number : all)
      if (number.kind == Scalar::Kind::Complex)
        throw_user("tensor: {} holds no complex numbers; give complex<f32>", name(type));
  Array array = Array::zeros(type, shape);
  auto* out = array.data<std::byte>();
  const auto bytes = static_cast<size_t>(byte_size(type));
  for (size_t i = 0; i < all.size(); ++i) {
    const Array one = scalar(all[i], type).to_host();
    std::copy_n(one.data<std::byte>(), bytes, out + i * bytes);
  }
  Tensor result = Tensor::from(std::move(array));
  result.record()->constant = true;
  return result;
}

}  // namespace cleave
