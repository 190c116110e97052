#include "cleave/ops/diff_util.h"
#include "cleave/ops/indexing/family.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/reducer.h"

// gather takes windows, scatter puts them: each is the other's transpose. A gather moves windows
// that stick out inside, a scatter leaves them out: indices are clamped or masked in between.
namespace cleave {
namespace {

// Where a window may begin at most, along each indexed dimension, for every index.
Expr last_starts(Expr indices, const WindowMap& map, const Shape& operand, const Shape& window) {
  GraphBuilder& b = *indices.b;
  std::vector<Expr> limits;
  bool same = true;
  for (int64_t d : map.index_map) {
    const int64_t last = operand[d] - window[d];
    same &= last == operand[map.index_map[0]] - window[map.index_map[0]];
    limits.push_back({&b, b.constant(static_cast<double>(last), indices.dtype(), {1})});
  }
  if (same) {
    const int64_t last = operand[map.index_map[0]] - window[map.index_map[0]];
    return number_like(static_cast<double>(last), indices);
  }
  return broadcast(concatenate(limits, 0), indices.shape(), {map.index_vector_dim});
}
Expr clamped(Expr indices, const WindowMap& map, const Shape& operand, const Shape& window) {
  if (map.index_map.empty()) return indices;
  const Expr last = last_starts(indices, map, operand, window);
  return {indices.b, indices.b->emit("stablehlo.clamp", {zeros_like(indices), indices, last})};
}

// 1 for the updates whose windows lie inside, 0 for the others; of the shape of updates.
Expr inside_mask(Expr indices, const WindowMap& map, const Shape& operand, const Shape& window,
                 Expr updates) {
  GraphBuilder& b = *indices.b;
  const Expr last = last_starts(indices, map, operand, window);
  Expr inside = binary("stablehlo.and", compare("GE", indices, 0.0), compare("LE", indices, last));
  if (map.index_vector_dim < static_cast<int64_t>(indices.shape().size()))
    inside = {&b, b.reduce(inside, "stablehlo.and", 1, {map.index_vector_dim})};
  return broadcast(inside, updates.shape(), other_dims(map.window_dims, updates.shape().size()));
}

Expr emit_gather(Expr operand, Expr indices, const WindowMap& map, const Shape& window) {
  AttrDict attrs;
  attrs.set(kGatherDims, gather_attr(map));
  attrs.set("slice_sizes", ints_attr(window));
  attrs.set("indices_are_sorted", false);
  return {operand.b,
          operand.b->emit("stablehlo.gather", {operand.id, indices.id}, std::move(attrs))};
}
// An empty op: the updates stay as they are.
Expr emit_scatter(Expr operand, Expr indices, Expr updates, const WindowMap& map,
                  std::string_view op, bool unique = false) {
  GraphBuilder& b = *operand.b;
  Graph& graph = b.graph();
  AttrDict attrs;
  attrs.set(kScatterDims, scatter_attr(map));
  attrs.set("indices_are_sorted", false);
  attrs.set("unique_indices", unique);
  const Type type = b.type(operand);
  const NodeId node = graph.add_node("stablehlo.scatter", {operand.id, indices.id, updates.id},
                                     {type}, std::move(attrs));
  if (op.empty()) {
    GraphBuilder body(graph, graph.add_region(node));
    graph.add_argument(body.region(), Type::tensor(type.dtype, {}));
    body.finish({graph.add_argument(body.region(), Type::tensor(type.dtype, {}))});
  } else {
    add_scalar_body(graph, node, op, type.dtype);
  }
  graph.append(b.region(), node);
  return {&b, graph.node(node).results[0]};
}

// ---- gather

std::vector<ValueId> jvp_gather(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid()) return {ValueId{}};
  return reemit(c.b, c.node, {t[0], c.operand(1)});
}
std::vector<ValueId> vjp_gather(const DiffContext& c, std::span<const ValueId> ct) {
  const WindowMap map = gather_map(c.node);
  const Shape window = c.node.attrs.get_ints("slice_sizes");
  const Expr operand = operand_expr(c);
  const Expr indices = clamped(operand_expr(c, 1), map, operand.shape(), window);
  return {emit_scatter(zeros_like(operand), indices, expr(c.b, ct[0]), map, "stablehlo.add"),
          ValueId{}};
}

// ---- scatter

enum class Kind : uint8_t { Set, Add, Multiply, Extremum };

struct Scatter {
  const DiffContext& c;
  Kind kind = Kind::Set;
  WindowMap map;
  Shape window;
  Expr operand, indices, updates, result;
  bool unique;

  explicit Scatter(const DiffContext& context)
      : c(context),
        map(scatter_map(c.node)),
        operand(operand_expr(c, 0)),
        indices(operand_expr(c, 1)),
        updates(operand_expr(c, 2)),
        result(result_expr(c)),
        unique(c.node.attrs.get_bool("unique_indices", false)) {
    require(c.operands.size() == 3, c.node, "of several operands has no derivative");
    const Graph& graph = c.b.graph();
    const RegionId body = c.node.regions[0];
    if (!returns_second_half(graph, body)) {
      const auto op = common_reducer(graph, body, false);
      require(op && (*op == ReduceOp::Sum || *op == ReduceOp::Prod || *op == ReduceOp::Max ||
                     *op == ReduceOp::Min),
              c.node, "has a body without a derivative rule");
      kind = *op == ReduceOp::Sum    ? Kind::Add
             : *op == ReduceOp::Prod ? Kind::Multiply
                                     : Kind::Extremum;
    }
    window.assign(operand.shape().size(), 1);
    const std::vector<int64_t> dims = map.window_operand_dims(window.size());
    for (size_t i = 0; i < dims.size(); ++i) window[dims[i]] = updates.shape()[map.window_dims[i]];
  }

  // What the result holds where the updates went, zero for updates that were left out.
  Expr taken(Expr whole) const {
    const Expr windows = emit_gather(whole, indices, map, window);
    if (map.index_map.empty()) return windows;
    return select(inside_mask(indices, map, operand.shape(), window, updates), windows, 0.0);
  }
  Expr added(Expr into, Expr parts) const {
    return emit_scatter(into, indices, parts, map, "stablehlo.add", unique);
  }
  // Of updates that meet at one place the last one stays: 1 for those that stayed.
  Expr stayed() const {
    Shape flat{num_elements(updates.shape())};
    const Expr numbers = reshape(iota(c.b, DType::I32, flat, 0) + 1.0, updates.shape());
    const Expr nobody{&c.b, c.b.constant(0, DType::I32, operand.shape())};
    const Expr winners = emit_scatter(nobody, indices, numbers, map, "");
    return compare("EQ", taken(winners), numbers);
  }
  Expr marks(Expr a, Expr b) const { return convert(compare("EQ", a, b), operand.dtype()); }
};

std::vector<ValueId> jvp_scatter(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid() && !t[2].valid()) return {ValueId{}};
  const Scatter s(c);
  const Expr to = materialize(c, t[0], c.operand(0)), tu = materialize(c, t[2], c.operand(2));
  switch (s.kind) {
    case Kind::Set:
    case Kind::Add:
      return reemit(c.b, c.node, {to, c.operand(1), tu});
    case Kind::Multiply: {
      const Expr ones = number_like(1, s.operand);
      const Expr factor = emit_scatter(ones, s.indices, s.updates, s.map, "stablehlo.multiply");
      const Expr others = s.unique ? s.taken(s.operand) : s.taken(s.result) / s.updates;
      return {s.added(to * factor, tu * others)};
    }
    case Kind::Extremum: {
      const Expr first = s.marks(s.operand, s.result);
      const Expr second = s.marks(s.updates, s.taken(s.result));
      return {s.added(to * first, tu * second) / s.added(first, second)};
    }
  }
  return {ValueId{}};
}

std::vector<ValueId> vjp_scatter(const DiffContext& c, std::span<const ValueId> ct) {
  const Scatter s(c);
  const Expr g = expr(c.b, ct[0]);
  Expr operand, updates;
  switch (s.kind) {
    case Kind::Add:
      operand = g;
      if (c.wants(2)) updates = s.taken(g);
      break;
    case Kind::Set:
      if (c.wants(0))
        operand = emit_scatter(g, s.indices, zeros_like(s.updates), s.map, "", s.unique);
      if (c.wants(2)) updates = s.unique ? s.taken(g) : select(s.stayed(), s.taken(g), 0.0);
      break;
    case Kind::Multiply: {
      const Expr ones = number_like(1, s.operand);
      if (c.wants(0))
        operand = g * emit_scatter(ones, s.indices, s.updates, s.map, "stablehlo.multiply");
      if (c.wants(2))
        updates = s.unique ? s.taken(g * s.operand) : s.taken(g * s.result) / s.updates;
      break;
    }
    case Kind::Extremum: {
      const Expr first = s.marks(s.operand, s.result);
      const Expr second = s.marks(s.updates, s.taken(s.result));
      const Expr share = g / s.added(first, second);
      operand = share * first;
      updates = s.taken(share) * second;
      break;
    }
  }
  return {operand.id, ValueId{}, updates.id};
}

// ---- sort: one more operand tells where everything went

std::vector<ValueId> origins(const DiffContext& c) {
  Graph& graph = c.b.graph();
  const Shape shape = operand_expr(c).shape();
  int64_t dim = c.node.attrs.get_int("dimension", -1);
  if (dim < 0) dim += static_cast<int64_t>(shape.size());
  std::vector<ValueId> operands(c.operands.begin(), c.operands.end());
  operands.push_back(iota(c.b, DType::I32, shape, dim));
  std::vector<Type> types;
  for (ValueId operand : operands) types.push_back(graph.type(operand));
  const NodeId node = graph.add_node("stablehlo.sort", operands, std::move(types), c.node.attrs);
  const RegionId body = graph.add_region(node);
  copy_body(graph, c.node.regions[0], body);
  for (int i = 0; i < 2; ++i) graph.add_argument(body, Type::tensor(DType::I32, {}));
  graph.append(c.b.region(), node);
  return {graph.node(node).results.back()};
}
int64_t sort_dim(const DiffContext& c) {
  const int64_t dim = c.node.attrs.get_int("dimension", -1);
  return dim < 0 ? dim + static_cast<int64_t>(operand_expr(c).shape().size()) : dim;
}
std::vector<ValueId> jvp_sort(const DiffContext& c, std::span<const ValueId> t) {
  std::vector<ValueId> results(t.size());
  Expr from;
  for (size_t i = 0; i < t.size(); ++i) {
    if (!t[i].valid()) continue;
    if (!from.valid()) from = expr(c.b, origins(c)[0]);
    results[i] = take_along(expr(c.b, t[i]), from, sort_dim(c));
  }
  return results;
}
std::vector<ValueId> vjp_sort(const DiffContext& c, std::span<const ValueId> ct) {
  std::vector<ValueId> results(ct.size());
  Expr from;
  for (size_t i = 0; i < ct.size(); ++i) {
    if (!ct[i].valid() || !c.wants(i)) continue;
    if (!from.valid()) from = expr(c.b, origins(c)[0]);
    results[i] = put_along(expr(c.b, ct[i]), from, sort_dim(c), operand_expr(c, i).shape());
  }
  return results;
}

}  // namespace

void add_index_derivatives(OpRegistry& r) {
  auto set = [&](const char* name, JvpFn jvp, VjpFn vjp) {
    r.extend(name, [&](OpDef& def) {
      def.jvp = jvp;
      def.vjp = vjp;
    });
  };
  set("stablehlo.gather", jvp_gather, vjp_gather);
  set("stablehlo.scatter", jvp_scatter, vjp_scatter);
  set("stablehlo.sort", jvp_sort, vjp_sort);
}

}  // namespace cleave
