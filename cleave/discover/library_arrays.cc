#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/discover/library.h"
#include "cleave/ops/dot/dot_dims.h"

namespace cleave {
namespace {

using Values = std::span<const ValueId>;
using V = std::vector<ValueId>;

TensorDesc f64(Shape shape, Domain domain = Domain::Any) {
  return {DType::F64, std::move(shape), domain};
}
TensorDesc index(Shape shape, int64_t limit) {
  return {DType::I64, std::move(shape), Domain::Index, limit};
}

int64_t int_of(const AttrMap& attrs, const char* name) { return std::get<int64_t>(attrs.at(name)); }

int64_t dim_of(const AttrMap& attrs, size_t rank, const char* op) {
  const int64_t dim = int_of(attrs, "dim");
  if (dim < 0 || dim >= static_cast<int64_t>(rank))
    throw_user("{}: dim {} of a tensor of rank {}", op, dim, rank);
  return dim;
}

ValueId dot(GraphBuilder& b, ValueId x, ValueId y, std::vector<int64_t> batch, int64_t contract_x,
            int64_t contract_y) {
  Shape shape;
  for (int64_t d : batch) shape.push_back(b.shape(x)[d]);
  if (b.shape(x)[contract_x] != b.shape(y)[contract_y])
    throw_user("matmul: contracting dimensions of <{}> and <{}> differ", to_string(b.shape(x)),
               to_string(b.shape(y)));
  for (size_t i = 0; i < batch.size(); ++i)
    if (b.shape(x)[batch[i]] != b.shape(y)[batch[i]])
      throw_user("matmul: batch dimensions of <{}> and <{}> differ", to_string(b.shape(x)),
                 to_string(b.shape(y)));
  const auto nb = static_cast<int64_t>(batch.size());
  shape.push_back(b.shape(x)[contract_x == nb + 1 ? nb : nb + 1]);
  shape.push_back(b.shape(y)[contract_y == nb ? nb + 1 : nb]);
  return b.emit_as(Type::tensor(b.dtype(x), shape), "stablehlo.dot_general", {x, y},
                   dot_attrs({batch, batch, {contract_x}, {contract_y}}));
}

V cross(GraphBuilder& b, const AttrMap& attrs, Values x) {
  const Shape shape = b.shape(x[0]);
  const int64_t dim = dim_of(attrs, shape.size(), "cross");
  if (b.shape(x[1]) != shape)
    throw_user("cross: shapes <{}> and <{}> differ", to_string(shape), to_string(b.shape(x[1])));
  if (shape[dim] != 3)
    throw_user("cross: dimension {} of <{}> must have size 3", dim, to_string(shape));
  auto part = [&](ValueId v, int64_t i) {
    std::vector<int64_t> start(shape.size(), 0), limit = shape;
    start[dim] = i;
    limit[dim] = i + 1;
    return b.slice(v, start, limit);
  };
  V parts;
  for (int64_t i = 0; i < 3; ++i) {
    const ValueId plus =
        b.emit("stablehlo.multiply", {part(x[0], (i + 1) % 3), part(x[1], (i + 2) % 3)});
    const ValueId minus =
        b.emit("stablehlo.multiply", {part(x[0], (i + 2) % 3), part(x[1], (i + 1) % 3)});
    parts.push_back(b.emit("stablehlo.subtract", {plus, minus}));
  }
  AttrDict concat;
  concat.set("dimension", int_attr(dim));
  return {b.emit("stablehlo.concatenate", parts, std::move(concat))};
}

// Rows of a table by index, as a product with one-hot rows: rows out of range are zero.
V embedding(GraphBuilder& b, const AttrMap&, Values x) {
  const int64_t n = b.shape(x[1])[0], rows = b.shape(x[0])[0];
  const ValueId index_rows = b.broadcast(x[1], {n, rows}, {0});
  const ValueId one_hot =
      b.convert(b.compare("EQ", index_rows, b.iota(DType::I64, {n, rows}, 1)), b.dtype(x[0]));
  return {dot(b, one_hot, x[0], {}, 1, 0)};
}

// How many boundaries are below each element.
V bucketize(GraphBuilder& b, const AttrMap&, Values x) {
  const int64_t n = b.shape(x[0])[0], m = b.shape(x[1])[0];
  const ValueId below =
      b.compare("LT", b.broadcast(x[1], {n, m}, {1}), b.broadcast(x[0], {n, m}, {0}));
  return {b.reduce(b.convert(below, DType::I64), "stablehlo.add", 0, {1})};
}

V flip(GraphBuilder& b, const AttrMap& attrs, Values x) {
  AttrDict reverse;
  reverse.set("dimensions", ints_attr({dim_of(attrs, b.shape(x[0]).size(), "flip")}));
  return {b.emit("stablehlo.reverse", {x[0]}, std::move(reverse))};
}

V sort(GraphBuilder& b, const AttrMap& attrs, Values x) {
  const Shape shape = b.shape(x[0]);
  const int64_t dim = dim_of(attrs, shape.size(), "sort");
  AttrDict sort_attrs;
  sort_attrs.set("dimension", int_attr(dim));
  sort_attrs.set("is_stable", Attribute(true));
  Graph& g = b.graph();
  const NodeId node = g.add_node("stablehlo.sort", {x[0]}, {b.type(x[0])}, std::move(sort_attrs));
  GraphBuilder body(g, g.add_region(node));
  const Type scalar = Type::tensor(b.dtype(x[0]), {});
  const ValueId a = g.add_argument(body.region(), scalar),
                c = g.add_argument(body.region(), scalar);
  body.finish({body.compare("LT", a, c)});
  g.append(b.region(), node);
  return {g.node(node).results.front()};
}

template <typename Body>
void with_dim(std::vector<Operator>& library, std::string name, Body body,
              std::vector<Sample> samples) {
  Operator op = operator_with_body(std::move(name), body, std::move(samples));
  op.dim_attrs = {"dim"};
  library.push_back(std::move(op));
}

std::vector<AttrMap> dims(std::initializer_list<int64_t> values) {
  std::vector<AttrMap> sets;
  for (int64_t dim : values) sets.push_back({{"dim", dim}});
  return sets;
}

}  // namespace

void add_array_operators(std::vector<Operator>& library) {
  library.push_back(operator_with_body(
      "matmul",
      [](GraphBuilder& b, const AttrMap&, Values x) { return V{dot(b, x[0], x[1], {}, 1, 0)}; },
      {{{f64({5, 4}), f64({4, 7})}, {}}, {{f64({3, 6}), f64({6, 2})}, {}}}));
  library.push_back(operator_with_body(
      "bmm",
      [](GraphBuilder& b, const AttrMap&, Values x) { return V{dot(b, x[0], x[1], {0}, 2, 1)}; },
      {{{f64({3, 5, 4}), f64({3, 4, 2})}, {}}}));
  with_dim(library, "cross", cross,
           {{{f64({4, 3}), f64({4, 3})}, {{"dim", int64_t{1}}}},
            {{f64({3, 5}), f64({3, 5})}, {{"dim", int64_t{0}}}},
            {{f64({2, 3, 4}), f64({2, 3, 4})}, {{"dim", int64_t{1}}}},
            {{f64({3, 3}), f64({3, 3})}, {{"dim", int64_t{0}}}},
            {{f64({3, 3}), f64({3, 3})}, {{"dim", int64_t{1}}}}});
  library.push_back(operator_with_body("transpose",
                                       [](GraphBuilder& b, const AttrMap&, Values x) {
                                         return V{b.transpose(x[0], {1, 0})};
                                       },
                                       {{{f64({5, 3})}, {}}, {{f64({4, 7})}, {}}}));
  library.push_back(
      operator_with_body("embedding", embedding, {{{f64({6, 4}), index({5}, 6)}, {}}}));
  library.push_back(operator_with_body(
      "bucketize", bucketize,
      {{{f64({7}), f64({5}, Domain::Sorted)}, {}}, {{f64({4}), f64({9}, Domain::Sorted)}, {}}}));
  with_dim(library, "flip", flip, cross_samples({{f64({5, 3})}, {f64({4, 7})}}, dims({0, 1})));
  with_dim(library, "sort", sort, cross_samples({{f64({5, 3})}, {f64({4, 7})}}, dims({0, 1})));
  with_dim(
      library, "concat",
      [](GraphBuilder& b, const AttrMap& attrs, Values x) {
        AttrDict concat;
        concat.set("dimension", int_attr(dim_of(attrs, b.shape(x[0]).size(), "concat")));
        return V{b.emit("stablehlo.concatenate", {x[0], x[1]}, std::move(concat))};
      },
      cross_samples({{f64({5, 3}), f64({5, 3})}}, dims({0, 1})));
  Operator view = operator_with_body(
      "view",
      [](GraphBuilder& b, const AttrMap& attrs, Values x) {
        return V{b.reshape(x[0], std::get<std::vector<int64_t>>(attrs.at("shape")))};
      },
      {{{f64({12, 8})}, {{"shape", std::vector<int64_t>{16, 6}}}},
       {{f64({12, 8})}, {{"shape", std::vector<int64_t>{3, 4, 8}}}},
       {{f64({6, 4, 5})}, {{"shape", std::vector<int64_t>{24, 5}}}},
       {{f64({12, 8})}, {{"shape", std::vector<int64_t>{12, 1, 8}}}}});
  view.shape_attr = "shape";
  library.push_back(std::move(view));
  Operator broadcast = operator_with_body(
      "broadcast_to",
      [](GraphBuilder& b, const AttrMap& attrs, Values x) {
        return V{b.broadcast(x[0], std::get<std::vector<int64_t>>(attrs.at("shape")), {1})};
      },
      {{{f64({5})}, {{"shape", std::vector<int64_t>{4, 5}}}}});
  broadcast.shape_attr = "shape";
  library.push_back(std::move(broadcast));
}

}  // namespace cleave
