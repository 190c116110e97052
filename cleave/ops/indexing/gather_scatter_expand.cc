#include <algorithm>
#include <map>

#include "cleave/ops/expansions.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/indexing/family.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/op.h"

// torch_index_select is a gather. Scatters of several operands, or with any body, are scatters with
// simple ones.
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
  GraphBuilder(graph, body).finish({result});
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

// Operand i alone: its part of the body, copied.
ValueId scatter_part(GraphBuilder& b, const Node& node, std::span<const ValueId> operands, size_t i,
                     const BodyPart& part) {
  Graph& graph = b.graph();
  const size_t n = (operands.size() - 1) / 2;
  const RegionId body = node.regions[0];
  auto fill = [&](RegionId inner, ValueId before, ValueId after) {
    GraphBuilder writer(graph, inner);
    std::map<ValueId, ValueId> copies{{graph.region(body).args[i], before},
                                      {graph.region(body).args[n + i], after}};
    auto mapped = [&](ValueId value) {
      const auto it = copies.find(value);
      return it == copies.end() ? value : it->second;
    };
    for (NodeId id : part.nodes) {
      const Node source = graph.node(id);
      std::vector<ValueId> inputs;
      for (ValueId operand : source.operands) inputs.push_back(mapped(operand));
      const std::vector<ValueId> results = reemit(writer, source, std::move(inputs));
      for (size_t k = 0; k < results.size(); ++k) copies[source.results[k]] = results[k];
    }
    return mapped(graph.node(graph.terminator(body)).operands[i]);
  };
  return scatter_one(b, node, operands[i], operands[n], operands[n + 1 + i], fill);
}

// If no two windows meet: what stands there and what comes, through the body, put in place.
std::vector<ValueId> scatter_merged(GraphBuilder& b, const Node& node,
                                    std::span<const ValueId> operands) {
  const size_t n = (operands.size() - 1) / 2;
  const ValueId indices = operands[n];
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
  std::vector<ValueId> args, results;
  for (size_t i = 0; i < n; ++i)
    args.push_back(b.emit("stablehlo.gather", {operands[i], indices}, attrs));
  for (size_t i = 0; i < n; ++i) args.push_back(operands[n + 1 + i]);
  const std::vector<ValueId> merged = inline_scalars(b, node.regions[0], args, updates);
  for (size_t i = 0; i < n; ++i)
    results.push_back(scatter_one(b, node, operands[i], indices, merged[i],
                                  [](RegionId, ValueId, ValueId after) { return after; }));
  return results;
}

std::vector<ValueId> expand_scatter(GraphBuilder& b, const Node& node,
                                    std::span<const ValueId> operands, ExpandUse) {
  const size_t n = (operands.size() - 1) / 2;
  std::vector<BodyPart> parts;
  bool separate = true;
  for (size_t i = 0; i < n; ++i) {
    parts.push_back(part_of(b.graph(), node.regions[0], i));
    const DType dtype = b.dtype(operands[i]);
    const bool differentiable = is_float(dtype) || is_complex(dtype);
    separate &= parts[i].alone && (parts[i].known || !differentiable);
  }
  if (!separate) return scatter_merged(b, node, operands);
  if (n == 1) return {};  // there are rules
  std::vector<ValueId> results;
  for (size_t i = 0; i < n; ++i) results.push_back(scatter_part(b, node, operands, i, parts[i]));
  return results;
}

// result[b..., p..., i..., q...] = operand[b..., p..., index[b..., i...], q...]
std::vector<ValueId> expand_index_select(GraphBuilder& b, const Node& node,
                                         std::span<const ValueId> operands, ExpandUse) {
  const int64_t dim = node.attrs.get_int("dim"), batch = node.attrs.get_int("batch_dims");
  const auto rank = static_cast<int64_t>(b.shape(operands[0]).size());
  const auto index_rank = static_cast<int64_t>(b.shape(operands[1]).size());
  WindowMap map;
  map.collapsed_dims = map.index_map = {dim};
  map.index_vector_dim = index_rank;
  map.operand_batching_dims = map.indices_batching_dims = all_dims(static_cast<size_t>(batch));
  Shape window = b.shape(operands[0]);
  window[dim] = 1;
  // A gather puts the dimensions of indices into the places that the windows leave free.
  for (int64_t d = batch; d < rank; ++d)
    if (d != dim) map.window_dims.push_back(d < dim ? d : d - 1 + index_rank - batch);
  for (int64_t d = 0; d < batch; ++d) window[d] = 1;
  AttrDict attrs;
  attrs.set(kGatherDims, gather_attr(map));
  attrs.set("slice_sizes", ints_attr(window));
  return {b.emit("stablehlo.gather", {operands[0], operands[1]}, std::move(attrs))};
}

}  // namespace

void add_index_expansions(OpRegistry& r) {
  set_expansion(r, "stablehlo.scatter", expand_scatter, kInDerivatives);
  set_expansion(r, "stablehlo.torch_index_select", expand_index_select,
                kInPrograms | kInDerivatives);
}

}  // namespace cleave
