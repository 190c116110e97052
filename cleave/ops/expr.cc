#include "cleave/ops/expr.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/indexing/window_map.h"

namespace cleave {

std::vector<int64_t> all_dims(size_t rank) {
  std::vector<int64_t> dims(rank);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

bool contains_dim(const std::vector<int64_t>& dims, int64_t dim) {
  return std::ranges::find(dims, dim) != dims.end();
}

std::vector<int64_t> other_dims(const std::vector<int64_t>& dims, size_t rank) {
  std::vector<int64_t> others;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (!contains_dim(dims, d)) others.push_back(d);
  return others;
}

Attribute struct_of(std::string name, std::vector<NamedAttribute> fields) {
  std::erase_if(fields, [](const NamedAttribute& field) {
    const auto* ints = field.value.as<DenseArrayAttr>();
    return ints && ints->ints.empty();
  });
  return StructAttr{std::move(name), std::move(fields)};
}

Attribute pairs_attr(const std::vector<int64_t>& low, const std::vector<int64_t>& high) {
  std::vector<std::byte> bytes(16 * low.size());
  auto* values = reinterpret_cast<int64_t*>(bytes.data());
  for (size_t i = 0; i < low.size(); ++i) {
    values[2 * i] = low[i];
    values[2 * i + 1] = high[i];
  }
  Literal literal;
  literal.type = Type::tensor(DType::I64, {static_cast<int64_t>(low.size()), 2});
  literal.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return literal_attr(std::move(literal));
}

Expr transpose(Expr x, std::vector<int64_t> permutation) {
  if (std::ranges::is_sorted(permutation)) return x;
  return {x.b, x.b->transpose(x.id, std::move(permutation))};
}

Expr swap_last_two(Expr x) {
  std::vector<int64_t> order = all_dims(x.shape().size());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(x, order);
}

Expr sum(Expr x, std::vector<int64_t> dims) {
  if (dims.empty()) return x;
  return {x.b, x.b->reduce(x.id, "stablehlo.add", 0, std::move(dims))};
}

Expr sum_all(Expr x) { return sum(x, all_dims(x.shape().size())); }

Expr reverse(Expr x, std::vector<int64_t> dims) {
  if (dims.empty()) return x;
  AttrDict attrs;
  attrs.set("dimensions", ints_attr(std::move(dims)));
  return {x.b, x.b->emit("stablehlo.reverse", {x.id}, std::move(attrs))};
}

Expr slice(Expr x, std::vector<int64_t> start, std::vector<int64_t> limit,
           std::vector<int64_t> stride) {
  if (stride.empty()) stride.assign(start.size(), 1);
  AttrDict attrs;
  attrs.set("start_indices", ints_attr(std::move(start)));
  attrs.set("limit_indices", ints_attr(std::move(limit)));
  attrs.set("strides", ints_attr(std::move(stride)));
  return {x.b, x.b->emit("stablehlo.slice", {x.id}, std::move(attrs))};
}

Expr pad(Expr x, double value, std::vector<int64_t> low, std::vector<int64_t> high,
         std::vector<int64_t> interior) {
  if (interior.empty()) interior.assign(low.size(), 0);
  auto zero = [](int64_t n) { return n == 0; };
  if (std::ranges::all_of(low, zero) && std::ranges::all_of(high, zero) &&
      std::ranges::all_of(interior, zero))
    return x;
  AttrDict attrs;
  attrs.set("edge_padding_low", ints_attr(std::move(low)));
  attrs.set("edge_padding_high", ints_attr(std::move(high)));
  attrs.set("interior_padding", ints_attr(std::move(interior)));
  const ValueId fill = x.b->constant(value, x.dtype());
  return {x.b, x.b->emit("stablehlo.pad", {x.id, fill}, std::move(attrs))};
}

Expr concatenate(const std::vector<Expr>& parts, int64_t dim) {
  if (parts.size() == 1) return parts[0];
  std::vector<ValueId> values(parts.begin(), parts.end());
  AttrDict attrs;
  attrs.set("dimension", int_attr(dim));
  return {parts[0].b, parts[0].b->emit("stablehlo.concatenate", values, std::move(attrs))};
}

Expr iota(GraphBuilder& b, DType dtype, Shape shape, int64_t dim) {
  return {&b, b.iota(dtype, std::move(shape), dim)};
}

Expr matmul(Expr x, Expr y) {
  const size_t rank = x.shape().size();
  const std::vector<int64_t> batch = all_dims(rank - 2);
  const auto last = static_cast<int64_t>(rank) - 1;
  return {x.b, x.b->emit("stablehlo.dot_general", {x.id, y.id},
                         dot_attrs({batch, batch, {last}, {last - 1}}))};
}

Expr take_along(Expr x, Expr indices, int64_t dim) {
  const size_t rank = x.shape().size();
  const std::vector<int64_t> others = other_dims({dim}, rank);
  AttrDict attrs;
  attrs.set(kGatherDims,
            gather_attr({{}, {dim}, others, others, {dim}, static_cast<int64_t>(rank)}));
  attrs.set("slice_sizes", ints_attr(Shape(rank, 1)));
  attrs.set("indices_are_sorted", false);
  return {x.b, x.b->emit("stablehlo.gather", {x.id, indices.id}, std::move(attrs))};
}

Expr put_along(Expr y, Expr indices, int64_t dim, Shape shape) {
  GraphBuilder& b = *y.b;
  const size_t rank = shape.size();
  const std::vector<int64_t> others = other_dims({dim}, rank);
  AttrDict attrs;
  attrs.set(kScatterDims,
            scatter_attr({{}, {dim}, others, others, {dim}, static_cast<int64_t>(rank)}));
  attrs.set("indices_are_sorted", false);
  attrs.set("unique_indices", false);
  const ValueId zeros = b.constant(0, y.dtype(), shape);
  const Type type = Type::tensor(y.dtype(), std::move(shape));
  Graph& graph = b.graph();
  const NodeId node =
      graph.add_node("stablehlo.scatter", {zeros, indices.id, y.id}, {type}, std::move(attrs));
  add_scalar_body(graph, node, "stablehlo.add", y.dtype());
  graph.append(b.region(), node);
  return {&b, graph.node(node).results[0]};
}

void add_scalar_body(Graph& graph, NodeId node, std::string_view op, DType dtype) {
  GraphBuilder body(graph, graph.add_region(node));
  const Type scalar = Type::tensor(dtype, {});
  const ValueId x = graph.add_argument(body.region(), scalar);
  const ValueId y = graph.add_argument(body.region(), scalar);
  body.finish({body.emit(op, {x, y})});
}

void copy_body(Graph& graph, RegionId source, RegionId target) {
  Cloner(graph, ValueMap::sparse()).region(source, target);
}

std::vector<ValueId> reemit(GraphBuilder& b, const Node& node, std::vector<ValueId> operands) {
  Graph& graph = b.graph();
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(graph.type(result));
  const NodeId copy = graph.add_node_like(node, std::move(operands), std::move(types), node.attrs);
  for (RegionId region : node.regions) copy_body(graph, region, graph.add_region(copy));
  graph.append(b.region(), copy);
  return graph.node(copy).results;
}

}  // namespace cleave
