#include "cleave/runtime/form_util.h"

#include <algorithm>

#include "cleave/core/error.h"

namespace cleave {

const OpDef* known_op(std::string_view name) {
  const OpDef* def = find_op(name);
  if (!def) throw_internal("no op {}", name);
  return def;
}

Shape broadcast_shapes(std::string_view op, const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()));
  for (size_t i = 1; i <= result.size(); ++i) {
    const int64_t x = i <= a.size() ? a[a.size() - i] : 1, y = i <= b.size() ? b[b.size() - i] : 1;
    if (x != y && x != 1 && y != 1)
      throw_user(
          "{}: shapes <{}> and <{}> do not broadcast: dimension {} from the end is {} in one and "
          "{} "
          "in the other; reshape one of them",
          op, to_string(a), to_string(b), i, x, y);
    result[result.size() - i] = x == 1 ? y : x;
  }
  return result;
}

ValueId stretch(GraphBuilder& b, ValueId value, const Shape& shape) {
  const Shape from = b.shape(value);
  if (from == shape) return value;
  std::vector<int64_t> dims(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    dims[i] = static_cast<int64_t>(shape.size() - from.size() + i);
  return b.broadcast(value, shape, std::move(dims));
}

ValueId cast_to(GraphBuilder& b, ValueId value, DType dtype) {
  return b.dtype(value) == dtype ? value : b.convert(value, dtype);
}

int64_t checked_dim(std::string_view op, int64_t dim, int64_t rank) {
  const int64_t index = dim < 0 ? dim + rank : dim;
  if (index < 0 || index >= rank)
    throw_user("{}: dimension {} of a tensor of rank {}; it must be in [{}, {})", op, dim, rank,
               -rank, rank);
  return index;
}

std::vector<int64_t> checked_dims(std::string_view op, std::vector<int64_t> dims, int64_t rank) {
  for (int64_t& dim : dims) dim = checked_dim(op, dim, rank);
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end())
    throw_user("{}: a dimension is named twice", op);
  return dims;
}

StructAttr struct_attr(std::string name,
                       std::vector<std::pair<const char*, std::vector<int64_t>>> fields) {
  StructAttr result{std::move(name), {}};
  for (auto& [field, values] : fields)
    if (!values.empty()) result.fields.push_back({field, ints_attr(std::move(values))});
  return result;
}

ValueId expand(GraphBuilder& b, ValueId value, int64_t dim) {
  Shape shape = b.shape(value);
  shape.insert(shape.begin() + dim, 1);
  return b.reshape(value, std::move(shape));
}

}  // namespace cleave
