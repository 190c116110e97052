#include <cstring>
#include <optional>

#include "cleave/graph/op_def.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/identity.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/reduce/window_attr.h"
#include "cleave/transforms/prepare.h"

namespace cleave {

std::vector<ValueId> inline_scalars(GraphBuilder& b, RegionId body,
                                    const std::vector<ValueId>& args, const Shape& shape) {
  Graph& graph = b.graph();
  ValueTable table;
  const std::vector<ValueId> formal = graph.region(body).args;
  for (size_t i = 0; i < formal.size(); ++i) table.set(formal[i], args[i]);
  auto spread = [&](ValueId value) {
    return b.shape(value) == shape ? value : b.broadcast(value, shape, {});
  };
  const std::vector<NodeId> nodes = graph.region(body).nodes;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const Node node = graph.node(nodes[i]);
    if (is_identity_op(node)) {  // a constraint, which says nothing of a scalar
      table.set(node.results[0], table.map(node.operands[0]));
      continue;
    }
    if (!node.def || !(node.def->traits & (kElementwise | kConstantLike)))
      fail(node, "inside the scalar body of an op has no derivative");
    if (node.def->has(kConstantLike)) {
      ValueTable constants;
      const NodeId copy = copy_within(graph, nodes[i], b.region(), constants);
      const ValueId scalar = graph.node(copy).results[0];
      table.set(node.results[0], spread(scalar));
      continue;
    }
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) operands.push_back(spread(table.map(operand)));
    const Type type = Type::tensor(graph.type(node.results[0]).dtype, shape);
    table.set(node.results[0], b.emit_as(type, node.name, std::move(operands), node.attrs));
  }
  std::vector<ValueId> results;
  const std::vector<ValueId> returned = graph.node(nodes.back()).operands;
  for (ValueId value : returned) results.push_back(spread(table.map(value)));
  return results;
}

namespace {

// chlo.broadcast_add: both operands at the common shape.
std::vector<ValueId> expand_broadcast(GraphBuilder& b, const Node& node,
                                      const std::vector<ValueId>& operands) {
  const Type type = b.type(node.results[0]);
  std::vector<ValueId> full;
  for (ValueId operand : operands) {
    const size_t rank = b.shape(operand).size();
    std::vector<int64_t> dims = node.attrs.get_ints_or_empty("broadcast_dimensions");
    if (dims.size() != rank) {
      dims.clear();
      for (size_t d = 0; d < rank; ++d)
        dims.push_back(static_cast<int64_t>(type.rank() - rank + d));
    }
    full.push_back(b.shape(operand) == type.shape ? operand
                                                  : b.broadcast(operand, type.shape, dims));
  }
  AttrDict attrs = node.attrs;
  attrs.erase("broadcast_dimensions");
  const std::string base = node.name.substr(std::string_view("chlo.broadcast_").size());
  const bool chlo = base == "next_after" || base == "polygamma" || base == "zeta";
  return {b.emit_as(type, (chlo ? "chlo." : "stablehlo.") + base, full, attrs)};
}

// Any body: neighbours along the folded dimensions are combined in order, half as many each time.
std::vector<ValueId> expand_reduce(GraphBuilder& b, const Node& node,
                                   const std::vector<ValueId>& operands) {
  const size_t n = num_reduced(node);
  const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
  const Shape in = b.shape(operands[0]);
  std::vector<int64_t> order = dims;
  Shape kept;
  int64_t count = 1;
  for (int64_t d : dims) count *= in[d];
  for (int64_t d : other_dims(dims, in.size())) {
    order.push_back(d);
    kept.push_back(in[d]);
  }
  auto with_count = [&](int64_t size) {
    Shape shape{size};
    shape.insert(shape.end(), kept.begin(), kept.end());
    return shape;
  };
  std::vector<Expr> rows;
  for (size_t i = 0; i < n; ++i)
    rows.push_back(reshape(transpose(expr(b, operands[i]), order), with_count(count)));
  const RegionId body = node.regions[0];
  auto part = [&](Expr x, int64_t begin, int64_t end, int64_t step) {
    std::vector<int64_t> start(kept.size() + 1, 0), limit = x.shape(), stride(kept.size() + 1, 1);
    start[0] = begin;
    limit[0] = end;
    stride[0] = step;
    return slice(x, start, limit, stride);
  };
  while (count > 1) {
    const int64_t half = count / 2;
    std::vector<ValueId> args;
    for (int64_t side : {0, 1})
      for (const Expr& row : rows) args.push_back(part(row, side, 2 * half, 2));
    const std::vector<ValueId> merged = inline_scalars(b, body, args, with_count(half));
    for (size_t i = 0; i < n; ++i) {
      const Expr whole = expr(b, merged[i]);
      rows[i] = count % 2 ? concatenate({whole, part(rows[i], count - 1, count, 1)}, 0) : whole;
    }
    count = (count + 1) / 2;
  }
  std::vector<ValueId> args;
  for (size_t i = 0; i < n; ++i) args.push_back(broadcast(expr(b, operands[n + i]), kept, {}));
  if (count == 0) return args;
  for (const Expr& row : rows) args.push_back(reshape(row, kept));
  return inline_scalars(b, body, args, kept);
}

// Any body: the elements of all windows at one place, and then at the next.
std::vector<ValueId> expand_reduce_window(GraphBuilder& b, const Node& node,
                                          const std::vector<ValueId>& operands) {
  const size_t n = num_reduced(node);
  const size_t rank = b.shape(operands[0]).size();
  const Window window = window_of(node, rank);
  const Shape out = b.shape(node.results[0]);
  std::vector<int64_t> low, high, interior;
  int64_t places = 1;
  for (const Window::Dim& dim : window.dims) {
    low.push_back(dim.low);
    high.push_back(dim.high);
    interior.push_back(dim.base_dilation - 1);
    places *= dim.size;
  }
  std::vector<Expr> padded;
  for (size_t i = 0; i < n; ++i) {
    AttrDict attrs;
    attrs.set("edge_padding_low", ints_attr(low));
    attrs.set("edge_padding_high", ints_attr(high));
    attrs.set("interior_padding", ints_attr(interior));
    padded.push_back({&b, b.emit("stablehlo.pad", {operands[i], operands[n + i]}, attrs)});
  }
  std::vector<ValueId> results;
  for (size_t i = 0; i < n; ++i) results.push_back(broadcast(expr(b, operands[n + i]), out, {}));
  for (int64_t place = 0; place < places; ++place) {
    std::vector<int64_t> start(rank), limit(rank), stride(rank);
    int64_t rest = place;
    for (size_t d = rank; d-- > 0;) {
      const Window::Dim& dim = window.dims[d];
      start[d] = rest % dim.size * dim.dilation;
      rest /= dim.size;
      stride[d] = dim.stride;
      limit[d] = start[d] + (out[d] - 1) * dim.stride + 1;
    }
    std::vector<ValueId> args = results;
    for (const Expr& x : padded) args.push_back(slice(x, start, limit, stride));
    results = inline_scalars(b, node.regions[0], args, out);
  }
  return results;
}

// ---- batch norms, over all dimensions but the feature's

struct BatchNorm {
  GraphBuilder& b;
  Expr x;
  int64_t feature;
  double epsilon;
  std::vector<int64_t> others;
  double count = 1;

  BatchNorm(GraphBuilder& builder, const Node& node, ValueId operand)
      : b(builder),
        x(expr(builder, operand)),
        feature(node.attrs.get_int("feature_index")),
        epsilon(node.attrs.get_float("epsilon")),
        others(other_dims({feature}, x.shape().size())) {
    for (int64_t d : others) count *= static_cast<double>(x.shape()[d]);
  }
  Expr spread(Expr v) const { return broadcast(v, x.shape(), {feature}); }
  Expr mean(Expr y) const { return sum(y, others) / count; }
  Expr apply(Expr scale, Expr offset, Expr m, Expr variance) const {
    const Expr factor = scale / sqrt(variance + epsilon);
    return (x - spread(m)) * spread(factor) + spread(offset);
  }
};
std::vector<ValueId> expand_batch_norm(GraphBuilder& b, const Node& node,
                                       const std::vector<ValueId>& v) {
  const BatchNorm norm(b, node, v[0]);
  auto at = [&](size_t i) { return expr(b, v[i]); };
  if (is<op::BatchNormInference>(node)) return {norm.apply(at(1), at(2), at(3), at(4))};
  if (is<op::BatchNormTraining>(node)) {
    const Expr mean = norm.mean(norm.x);
    const Expr centered = norm.x - norm.spread(mean);
    const Expr variance = norm.mean(centered * centered);
    return {norm.apply(at(1), at(2), mean, variance), mean, variance};
  }
  // batch_norm_grad: x, scale, mean, variance, incoming
  const Expr scale = at(1), mean = at(2), variance = at(3), g = at(4);
  const Expr inverse = 1.0 / sqrt(variance + norm.epsilon);
  const Expr centered = norm.x - norm.spread(mean);
  const Expr to_scale = sum(g * centered, norm.others) * inverse;
  const Expr to_offset = sum(g, norm.others);
  const Expr normalized = centered * norm.spread(inverse);
  const Expr rest =
      norm.spread(to_offset / norm.count) + normalized * norm.spread(to_scale / norm.count);
  return {norm.spread(scale * inverse) * (g - rest), to_scale, to_offset};
}

// result[b..., p..., i..., q...] = operand[b..., p..., index[b..., i...], q...]
std::vector<ValueId> expand_index_select(GraphBuilder& b, const Node& node,
                                         const std::vector<ValueId>& operands) {
  const int64_t dim = node.attrs.get_int("dim"), batch = node.attrs.get_int("batch_dims");
  const auto rank = static_cast<int64_t>(b.shape(operands[0]).size());
  const auto index_rank = static_cast<int64_t>(b.shape(operands[1]).size());
  WindowMap map;
  map.collapsed_dims = map.index_map = {dim};
  map.index_vector_dim = index_rank;
  map.operand_batching_dims = map.indices_batching_dims = all_dims(static_cast<size_t>(batch));
  Shape window = b.shape(operands[0]);
  window[dim] = 1;
  // A gather puts the dimensions of indices where the windows leave room.
  for (int64_t d = batch; d < rank; ++d)
    if (d != dim) map.window_dims.push_back(d < dim ? d : d - 1 + index_rank - batch);
  for (int64_t d = 0; d < batch; ++d) window[d] = 1;
  AttrDict attrs;
  attrs.set(kGatherDims, gather_attr(map));
  attrs.set("slice_sizes", ints_attr(window));
  return {b.emit("stablehlo.gather", operands, std::move(attrs))};
}

// "abc->ca": sums, and another order.
std::vector<ValueId> expand_unary_einsum(GraphBuilder& b, const Node& node,
                                         const std::vector<ValueId>& operands) {
  std::string text(node.attrs.get_string("einsum_config"));
  std::erase(text, ' ');
  const size_t arrow = text.find("->");
  std::string from = text.substr(0, arrow);
  const std::string to = text.substr(arrow + 2);
  std::vector<int64_t> summed, order;
  for (size_t d = 0; d < from.size(); ++d)
    if (to.find(from[d]) == std::string::npos) summed.push_back(static_cast<int64_t>(d));
  std::erase_if(from, [&](char letter) { return to.find(letter) == std::string::npos; });
  if (from.size() != to.size()) return {};
  for (char letter : to) order.push_back(static_cast<int64_t>(from.find(letter)));
  return {transpose(sum(expr(b, operands[0]), summed), order)};
}

bool is_extremum_or_sum(const Graph& graph, RegionId body) {
  const auto reducers = recognise_reducers(graph, body);
  return reducers && reducers->size() == 1 &&
         ((*reducers)[0] == Reducer::Sum || (*reducers)[0] == Reducer::Max ||
          (*reducers)[0] == Reducer::Min);
}
bool is_plain(const Window& window) {
  for (const Window::Dim& dim : window.dims)
    if (dim.base_dilation != 1 || dim.dilation != 1 || dim.low < 0 || dim.high < 0) return false;
  return true;
}

std::optional<int64_t> constant_of(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid() || !is<op::Constant>(graph.node(producer))) return {};
  const Literal& literal = graph.node(producer).attrs.get_literal("value");
  if (!is_integer(literal.type.dtype) || literal.num_elements() != 1) return {};
  int64_t number = 0;
  const auto size = static_cast<size_t>(byte_size(literal.type.dtype));
  std::memcpy(&number, literal.data(), size);
  if (is_signed_integer(literal.type.dtype) && size < 8) {
    const int shift = 64 - 8 * static_cast<int>(size);
    number = static_cast<int64_t>(static_cast<uint64_t>(number) << shift) >> shift;
  }
  return number;
}

}  // namespace

std::vector<ValueId> expand(GraphBuilder& b, const Node& node,
                            const std::vector<ValueId>& operands) {
  if (node.name.starts_with("chlo.broadcast_")) return expand_broadcast(b, node, operands);
  if (is<op::TorchIndexSelect>(node)) return expand_index_select(b, node, operands);
  if (is<op::UnaryEinsum>(node)) return expand_unary_einsum(b, node, operands);
  if (is<op::CustomCall>(node)) return expand_call(b, node, operands);
  if (is<op::Scatter>(node)) return expand_scatter(b, node, operands);
  if (is<op::AllReduce, op::ReduceScatter>(node)) return expand_collective(b, node, operands);
  if (auto results = expand_dynamic_sizes(b, node, operands); !results.empty()) return results;
  if (is<op::Map>(node))
    return inline_scalars(b, node.regions[0], operands, b.shape(node.results[0]));
  if (node.name.starts_with("stablehlo.batch_norm_")) return expand_batch_norm(b, node, operands);
  if (is<op::Reduce>(node) && !recognise_reducers(b.graph(), node.regions[0]))
    return expand_reduce(b, node, operands);
  if (is<op::ReduceWindow>(node)) {
    const bool sum = [&] {
      const auto reducers = recognise_reducers(b.graph(), node.regions[0]);
      return reducers && reducers->size() == 1 && (*reducers)[0] == Reducer::Sum;
    }();
    const bool known = is_extremum_or_sum(b.graph(), node.regions[0]) &&
                       (sum || is_plain(window_of(node, b.shape(operands[0]).size())));
    if (!known) return expand_reduce_window(b, node, operands);
  }
  return {};
}

bool find_counted_loop(const Graph& graph, const Node& node, const ValueTable& table,
                       CountedLoop& loop) {
  const Region& condition = graph.region(node.regions[0]);
  const Region& body = graph.region(node.regions[1]);
  const ValueId decided = graph.node(condition.nodes.back()).operands[0];
  const NodeId compare_id = graph.value(decided).producer;
  if (!compare_id.valid() || !is<op::Compare>(graph.node(compare_id))) return false;
  const Node& compare = graph.node(compare_id);
  const Value& left = graph.value(compare.operands[0]);
  if (left.producer.valid() || left.region != node.regions[0]) return false;
  loop.counter = left.index;
  const auto end = constant_of(graph, table.map(compare.operands[1]));
  const auto begin = constant_of(graph, table.map(node.operands[loop.counter]));
  const NodeId next_id = graph.value(graph.node(body.nodes.back()).operands[loop.counter]).producer;
  if (!end || !begin || !next_id.valid() || !is<op::Add>(graph.node(next_id))) return false;
  const Node& next = graph.node(next_id);
  const bool first = next.operands[0] == body.args[loop.counter];
  if (!first && next.operands[1] != body.args[loop.counter]) return false;
  const auto step = constant_of(graph, table.map(next.operands[first ? 1 : 0]));
  if (!step || *step == 0) return false;
  const std::string_view direction = compare.attrs.get_string("comparison_direction");
  const int64_t inclusive = direction == "LE" || direction == "GE" ? 1 : 0;
  if (direction == "LT" || direction == "LE") {
    if (*step < 0) return false;
    loop.trips = std::max<int64_t>(0, (*end + inclusive - *begin + *step - 1) / *step);
  } else if (direction == "GT" || direction == "GE") {
    if (*step > 0) return false;
    loop.trips = std::max<int64_t>(0, (*begin + inclusive - *end - *step - 1) / -*step);
  } else {
    return false;
  }
  loop.begin = *begin;
  loop.step = *step;
  return true;
}

}  // namespace cleave
