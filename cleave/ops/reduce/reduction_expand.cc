#include <algorithm>
#include <map>

#include "cleave/graph/flow.h"
#include "cleave/ops/expansions.h"
#include "cleave/ops/expr.h"
#include "cleave/ops/identity.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/reduce/window_attr.h"

// Ops with a body of scalars, as the ops of the body on whole arrays.
namespace cleave {

std::vector<ValueId> inline_scalars(GraphBuilder& b, RegionId body, std::span<const ValueId> args,
                                    const Shape& shape) {
  Graph& graph = b.graph();
  std::map<ValueId, ValueId> whole;
  const std::vector<ValueId> formal = graph.region(body).args;
  for (size_t i = 0; i < formal.size(); ++i) whole[formal[i]] = args[i];
  auto spread = [&](ValueId value) {
    const auto it = whole.find(value);
    if (it != whole.end()) value = it->second;
    return b.shape(value) == shape ? value : b.broadcast(value, shape, {});
  };
  const std::vector<NodeId> nodes = graph.region(body).nodes;
  for (size_t i = 0; i + 1 < nodes.size(); ++i) {
    const Node node = graph.node(nodes[i]);
    if (is_identity_op(node)) {  // a constraint, which says nothing of a scalar
      whole[node.results[0]] = spread(node.operands[0]);
      continue;
    }
    if (!(node.def->traits & (kElementwise | kConstantLike)))
      fail(node, "inside the scalar body of an op has no derivative");
    if (node.def->has(kConstantLike)) {
      whole[node.results[0]] = spread(reemit(b, node, {})[0]);
      continue;
    }
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) operands.push_back(spread(operand));
    const Type type = Type::tensor(graph.type(node.results[0]).dtype, shape);
    whole[node.results[0]] = b.emit_as(type, node.name(), std::move(operands), node.attrs);
  }
  std::vector<ValueId> results;
  const std::vector<ValueId> returned = graph.node(nodes.back()).operands;
  for (ValueId value : returned) results.push_back(spread(value));
  return results;
}

namespace {

// Whether the nodes of a body are elementwise ops and constants of scalars, as inline_scalars
// wants, and none uses a value from around it.
bool is_scalar_code(const Graph& graph, RegionId body) {
  if (!captured_values(graph, {body}).empty()) return false;
  const std::vector<NodeId>& nodes = graph.region(body).nodes;
  return std::all_of(nodes.begin(), nodes.end() - 1, [&](NodeId id) {
    const Node& node = graph.node(id);
    return (node.def->traits & (kElementwise | kConstantLike) || is_identity_op(node)) &&
           node.results.size() == 1 && node.regions.empty() && graph.result_type(node).rank() == 0;
  });
}

// The body's ops on whole tensors. A program keeps a map with another body, for which there is a
// kernel; a derivative needs the ops, and inline_scalars says which of them is in the way.
std::vector<ValueId> expand_map(GraphBuilder& b, const Node& node,
                                std::span<const ValueId> operands, ExpandUse use) {
  if (use == kInPrograms && !is_scalar_code(b.graph(), node.regions[0])) return {};
  const Shape shape = b.shape(node.results[0]);
  return inline_scalars(b, node.regions[0], operands, shape);
}

// Any body: values that are neighbours along the folded dimensions are combined in order, half as
// many each time.
std::vector<ValueId> fold_any_body(GraphBuilder& b, const Node& node,
                                   std::span<const ValueId> operands) {
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
std::vector<ValueId> fold_any_window(GraphBuilder& b, const Node& node,
                                     std::span<const ValueId> operands) {
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

std::vector<ValueId> expand_reduce(GraphBuilder& b, const Node& node,
                                   std::span<const ValueId> operands, ExpandUse) {
  if (recognise_reducers(b.graph(), node.regions[0])) return {};  // there are rules
  return fold_any_body(b, node, operands);
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

// There are rules for sums, and for extrema of windows without holes.
std::vector<ValueId> expand_reduce_window(GraphBuilder& b, const Node& node,
                                          std::span<const ValueId> operands, ExpandUse) {
  const auto reducers = recognise_reducers(b.graph(), node.regions[0]);
  const bool sum = reducers && reducers->size() == 1 && (*reducers)[0] == Reducer::Sum;
  const bool known = is_extremum_or_sum(b.graph(), node.regions[0]) &&
                     (sum || is_plain(window_of(node, b.shape(operands[0]).size())));
  if (known) return {};
  return fold_any_window(b, node, operands);
}

}  // namespace

void add_reduction_expansions(OpRegistry& r) {
  set_expansion(r, "stablehlo.map", expand_map, kInPrograms | kInDerivatives);
  set_expansion(r, "stablehlo.reduce", expand_reduce, kInDerivatives);
  set_expansion(r, "stablehlo.reduce_window", expand_reduce_window, kInDerivatives);
}

}  // namespace cleave
