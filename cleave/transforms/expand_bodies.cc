#include <algorithm>

#include "cleave/ops/collective/process_groups.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/op.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/transforms/prepare.h"

// Scatters and collectives with any body, as ops that have derivatives.
namespace cleave {
namespace {

// What a body of 2n scalars (n old values, n new ones) makes of value i alone.
struct BodyPart {
  std::vector<NodeId> nodes;  // that it needs, in order
  bool alone = false;         // it uses the old and the new value i, and nothing else
  bool known = false;         // it is the new value, or their sum, product, maximum, minimum
};

BodyPart part_of(const Graph& graph, RegionId region, size_t i) {
  const Region& body = graph.region(region);
  const Node& end = graph.node(body.nodes.back());
  const size_t n = end.operands.size();
  const ValueId result = end.operands[i], before = body.args[i], after = body.args[n + i];
  BodyPart part;
  std::vector<ValueId> needed{result};
  part.alone = true;
  for (size_t k = body.nodes.size() - 1; k-- > 0;) {
    const Node& node = graph.node(body.nodes[k]);
    const bool is_needed = std::ranges::any_of(
        node.results, [&](ValueId value) { return std::ranges::count(needed, value) > 0; });
    if (!is_needed) continue;
    part.nodes.insert(part.nodes.begin(), body.nodes[k]);
    needed.insert(needed.end(), node.operands.begin(), node.operands.end());
  }
  for (ValueId value : needed)
    for (ValueId arg : body.args) part.alone &= value != arg || value == before || value == after;
  part.known = result == after;
  if (part.alone && part.nodes.size() == 1) {
    const Node& node = graph.node(part.nodes[0]);
    const bool both = node.operands.size() == 2 && node.operands[0] != node.operands[1];
    part.known = both && (is<op::Add, op::Multiply, op::Maximum, op::Minimum>(node));
  }
  return part;
}

// A scatter of one operand, whose body `fill` writes: it gets the old and the new value.
template <typename Fill>
ValueId scatter_one(GraphBuilder& b, const Node& node, ValueId operand, ValueId indices,
                    ValueId updates, const Fill& fill) {
  Graph& graph = b.graph();
  const Type type = b.type(operand);
  const NodeId made =
      graph.add_node("stablehlo.scatter", {operand, indices, updates}, {type}, node.attrs);
  const RegionId body = graph.add_region(made);
  const ValueId before = graph.add_argument(body, Type::tensor(type.dtype, {}));
  const ValueId after = graph.add_argument(body, Type::tensor(type.dtype, {}));
  const ValueId result = fill(body, before, after);
  end_region(graph, body, "stablehlo.return", {result});
  graph.append(b.region(), made);
  return graph.node(made).results[0];
}

// The number of windows that the indices place.
int64_t num_windows(const Shape& indices, const WindowMap& map) {
  int64_t count = 1;
  for (size_t d = 0; d < indices.size(); ++d)
    if (static_cast<int64_t>(d) != map.index_vector_dim) count *= indices[d];
  return count;
}

int64_t group_size(const Node& node) {
  const Attribute* attribute = node.attrs.find("replica_groups");
  const auto* elements = attribute ? attribute->as<ElementsAttr>() : nullptr;
  require(elements && elements->literal.type.rank() == 2 && elements->literal.type.shape[1] > 0 &&
              global_mode(node) != GroupMode::CrossReplicaAndPartition,
          node,
          "with a body that is no sum, maximum or minimum has a derivative where replica_groups "
          "names its groups");
  return elements->literal.type.shape[1];
}

// Groups and channel: the same devices meet.
AttrDict meeting_attrs(const Node& node) {
  AttrDict attrs;
  for (const char* name :
       {"replica_groups", "channel_handle", "channel_id", "use_global_device_ids"})
    if (const Attribute* value = node.attrs.find(name)) attrs.set(name, *value);
  return attrs;
}

// The parts along a dimension, folded by the body in order.
Expr fold_parts(GraphBuilder& b, RegionId body, Expr parts, int64_t dim) {
  Shape shape = parts.shape();
  const int64_t count = shape[dim];
  shape.erase(shape.begin() + dim);
  auto part = [&](int64_t i) {
    std::vector<int64_t> start(parts.shape().size(), 0), limit = parts.shape();
    start[dim] = i;
    limit[dim] = i + 1;
    return reshape(slice(parts, start, limit), shape);
  };
  Expr total = part(0);
  for (int64_t i = 1; i < count; ++i)
    total = expr(b, inline_scalars(b, body, {total, part(i)}, shape)[0]);
  return total;
}

}  // namespace

std::vector<ValueId> expand_scatter(GraphBuilder& b, const Node& node,
                                    const std::vector<ValueId>& operands) {
  Graph& graph = b.graph();
  const size_t n = (operands.size() - 1) / 2;
  const RegionId body = node.regions[0];
  std::vector<BodyPart> parts;
  bool separate = true;
  for (size_t i = 0; i < n; ++i) {
    parts.push_back(part_of(graph, body, i));
    separate &= parts[i].alone && (parts[i].known || !is_differentiable(b.type(operands[i])));
  }
  if (separate && n == 1) return {};
  const ValueId indices = operands[n];
  std::vector<ValueId> results;
  if (separate) {
    for (size_t i = 0; i < n; ++i)
      results.push_back(scatter_one(b, node, operands[i], indices, operands[n + 1 + i],
                                    [&](RegionId inner, ValueId before, ValueId after) {
                                      ValueTable table;
                                      table.set(graph.region(body).args[i], before);
                                      table.set(graph.region(body).args[n + i], after);
                                      for (NodeId id : parts[i].nodes)
                                        copy_within(graph, id, inner, table);
                                      return table.map(
                                          graph.node(graph.terminator(body)).operands[i]);
                                    }));
    return results;
  }
  // Where no two windows meet: what stands there and what comes, through the body, put in place.
  const WindowMap map = scatter_map(node);
  require(node.attrs.get_bool("unique_indices", false) || num_windows(b.shape(indices), map) == 1,
          node,
          "has a body that is neither the new value nor a sum, product, maximum or minimum of old "
          "and new, one for each operand; its derivative depends on the order in which windows "
          "meet, unless unique_indices = true says that none do");
  const Shape updates = b.shape(operands[n + 1]);
  Shape window(b.shape(operands[0]).size(), 1);
  const std::vector<int64_t> dims = map.window_operand_dims(window.size());
  for (size_t k = 0; k < dims.size(); ++k) window[dims[k]] = updates[map.window_dims[k]];
  AttrDict attrs;
  attrs.set(kGatherDims, gather_attr(map));
  attrs.set("slice_sizes", ints_attr(window));
  attrs.set("indices_are_sorted", false);
  std::vector<ValueId> args;
  for (size_t i = 0; i < n; ++i)
    args.push_back(b.emit("stablehlo.gather", {operands[i], indices}, attrs));
  for (size_t i = 0; i < n; ++i) args.push_back(operands[n + 1 + i]);
  const std::vector<ValueId> merged = inline_scalars(b, body, args, updates);
  for (size_t i = 0; i < n; ++i)
    results.push_back(scatter_one(b, node, operands[i], indices, merged[i],
                                  [](RegionId, ValueId, ValueId after) { return after; }));
  return results;
}

std::vector<ValueId> expand_collective(GraphBuilder& b, const Node& node,
                                       const std::vector<ValueId>& operands) {
  const RegionId body = node.regions[0];
  const auto op = common_reducer(b.graph(), body, false);
  const bool scatters = is<op::ReduceScatter>(node);
  if (op == ReduceOp::Sum || (!scatters && (op == ReduceOp::Max || op == ReduceOp::Min))) return {};
  std::vector<ValueId> results;
  for (ValueId operand : operands) {
    const Expr x = expr(b, operand);
    const int64_t count = group_size(node);
    Shape shape = x.shape();
    AttrDict attrs = meeting_attrs(node);
    if (!scatters) {
      shape.insert(shape.begin(), 1);
      Type type = Type::tensor(x.dtype(), shape);
      type.shape[0] = count;
      attrs.set("all_gather_dim", int_attr(0));
      const Expr all{&b, b.emit_as(type, "stablehlo.all_gather", {reshape(x, shape)}, attrs)};
      results.push_back(fold_parts(b, body, all, 0));
      continue;
    }
    // Every device gets its piece of all others.
    const int64_t dim = node.attrs.get_int("scatter_dimension");
    shape[dim] /= count;
    shape.insert(shape.begin() + dim, count);
    attrs.set("split_dimension", int_attr(dim));
    attrs.set("concat_dimension", int_attr(dim));
    attrs.set("split_count", int_attr(count));
    attrs.erase("use_global_device_ids");
    const Expr pieces{&b, b.emit_as(Type::tensor(x.dtype(), shape), "stablehlo.all_to_all",
                                    {reshape(x, shape)}, attrs)};
    results.push_back(fold_parts(b, body, pieces, dim));
  }
  return results;
}

}  // namespace cleave
