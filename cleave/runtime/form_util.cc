#include "cleave/runtime/form_util.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/local_op.h"
#include "cleave/ops/reduce/reducer.h"

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

ValueId stretch(GraphBuilder& b, ValueId value, Shape shape) {
  const Shape from = b.shape(value);
  if (from == shape) return value;
  std::vector<int64_t> dims(from.size());
  for (size_t i = 0; i < from.size(); ++i)
    dims[i] = static_cast<int64_t>(shape.size() - from.size() + i);
  return b.broadcast(value, std::move(shape), std::move(dims));
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

std::vector<ValueId> emit_with_body(GraphBuilder& b, std::string_view op,
                                    std::vector<ValueId> operands, std::vector<Type> results,
                                    AttrDict attrs, const std::vector<DType>& args,
                                    const std::function<void(GraphBuilder&)>& body) {
  Graph& graph = b.graph();
  const NodeId node = graph.add_node(op, std::move(operands), std::move(results), std::move(attrs));
  GraphBuilder inner(graph, graph.add_region(node));
  for (DType dtype : args) graph.add_argument(inner.region(), Type::tensor(dtype, {}));
  body(inner);
  const OpDef* def = graph.node(node).def;
  if (def->infer) def->infer(graph, graph.node(node));
  if (def->verify) def->verify(graph, graph.node(node));
  graph.append(b.region(), node);
  return graph.node(node).results;
}

Attribute pairs_attr(const std::vector<int64_t>& values) {
  Literal literal;
  literal.type = Type::tensor(DType::I64, {static_cast<int64_t>(values.size()) / 2, 2});
  const auto* data = reinterpret_cast<const std::byte*>(values.data());
  literal.bytes =
      std::make_shared<const std::vector<std::byte>>(data, data + values.size() * sizeof(int64_t));
  return literal_attr(std::move(literal));
}

ValueId along(GraphBuilder& b, ValueId vector, Shape shape, int64_t dim) {
  return b.broadcast(vector, std::move(shape), {dim});
}

namespace {

ValueId literal_constant(GraphBuilder& b, Literal literal) {
  const Type type = literal.type;
  AttrDict attrs;
  attrs.set("value", literal_attr(std::move(literal)));
  return b.emit_as(type, "stablehlo.constant", {}, std::move(attrs));
}

}  // namespace

ValueId lowest_constant(GraphBuilder& b, DType dtype, const Shape& shape) {
  return literal_constant(b, identity_literal(ReduceOp::Max, Type::tensor(dtype, shape)));
}
ValueId highest_constant(GraphBuilder& b, DType dtype, const Shape& shape) {
  return literal_constant(b, identity_literal(ReduceOp::Min, Type::tensor(dtype, shape)));
}

ValueId identity_constant(GraphBuilder& b, std::string_view op, DType dtype) {
  const std::optional<ReduceOp> reduction = reduce_op_of(op);
  internal_check(reduction.has_value(), "a reduction by an op that is none");
  return literal_constant(b, identity_literal(*reduction, Type::tensor(dtype, {})));
}

ValueId fold(GraphBuilder& b, ValueId x, std::string_view op, const std::vector<int64_t>& dims,
             bool keep) {
  const DType dtype = b.dtype(x);
  const Shape full = b.shape(x);
  const ValueId start = identity_constant(b, op, dtype);
  Shape rest, kept = full;
  for (size_t d = 0; d < full.size(); ++d) {
    const bool folded = std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
    if (folded) kept[d] = 1;
    if (!folded) rest.push_back(full[d]);
  }
  AttrDict attrs;
  attrs.set("dimensions", ints_attr(dims));
  const ValueId result =
      emit_with_body(b, "stablehlo.reduce", {x, start}, {Type::tensor(dtype, std::move(rest))},
                     std::move(attrs), {dtype, dtype}, [&](GraphBuilder& body) {
                       body.finish({body.emit(op, {body.arg(0), body.arg(1)})});
                     })[0];
  return keep ? b.reshape(result, std::move(kept)) : result;
}

ValueId expand(GraphBuilder& b, ValueId value, int64_t dim) {
  Shape shape = b.shape(value);
  shape.insert(shape.begin() + dim, 1);
  return b.reshape(value, std::move(shape));
}

ValueId count_constant(GraphBuilder& b, DType dtype, std::vector<int64_t> sizes, double less) {
  double count = -less;
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  count += static_cast<double>(product);
  Literal literal = splat_literal(Type::tensor(dtype, {}), count);
  const Type type = literal.type;
  AttrDict attrs;
  attrs.set(kSizes, ints_attr(std::move(sizes)));
  if (less != 0) attrs.set(kSizesLess, FloatAttr{less, Type::tensor(DType::F64, {})});
  attrs.set("value", literal_attr(std::move(literal)));
  return b.emit_as(type, "stablehlo.constant", {}, std::move(attrs));
}

}  // namespace cleave
