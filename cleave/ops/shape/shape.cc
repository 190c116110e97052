#include "cleave/kernels/shape.h"

#include <algorithm>
#include <numeric>

#include "cleave/graph/literal.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/shape/family.h"
#include "cleave/ops/shape/shape_util.h"

namespace cleave {
namespace {

// ---- constant, iota ----

std::vector<Type> infer_constant(const Graph&, const Node& node) {
  require_operands(node, 0);
  return {node.attrs.get_literal("value").type};
}
std::vector<Array> eval_constant(EvalContext&, const Node& node, std::span<const Array>) {
  return {array_of(node.attrs.get_literal("value"))};
}

std::vector<Type> infer_iota(const Graph& graph, const Node& node) {
  require_operands(node, 0);
  const Type& result = declared_result(graph, node);
  require(result.has_static_shape(), node, "the sizes of the result {} are not known",
          to_string(result));
  const int64_t dim = node.attrs.get_int("iota_dimension");
  require(dim >= 0 && dim < static_cast<int64_t>(result.rank()), node,
          "iota_dimension {} must lie in [0, {})", dim, result.rank());
  return {result};
}
std::vector<Array> eval_iota(EvalContext& context, const Node& node, std::span<const Array>) {
  const Type& type = context.graph().result_type(node);
  return {iota(type.dtype, type.shape, node.attrs.get_int("iota_dimension"))};
}

// ---- reshape ----

std::vector<Type> infer_reshape(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& result = declared_result(graph, node);
  require(operand.dtype == result.dtype, node, "{} and {} differ in element type",
          to_string(operand), to_string(result));
  require(!operand.has_static_shape() || !result.has_static_shape() ||
              num_elements(operand.shape) == num_elements(result.shape),
          node, "{} has {} elements, {} has {}", to_string(operand), num_elements(operand.shape),
          to_string(result), num_elements(result.shape));
  return {result};
}

// Walks both shapes by common divisors. While the products of the factors so far are equal, the
// next common divisor is a factor of both; where the next sizes are coprime the two sides get
// factors of their own until the products meet again.
OpShardingRule reshape_rule(const Graph& graph, const Node& node) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  auto has_none = [](int64_t size) { return size <= 0; };  // empty, or known only at run time
  if (std::any_of(in.begin(), in.end(), has_none) || std::any_of(out.begin(), out.end(), has_none))
    return {};
  RuleBuilder builder(graph, node);
  struct Side {
    const Shape& shape;
    size_t dim = 0;
    int64_t sizes = 1;    // the product of the dimensions entered
    int64_t factors = 1;  // the product of the factors made
    bool done() const { return dim == shape.size(); }
    bool at_one() const { return !done() && shape[dim] == 1; }
    void enter() {
      if (!done() && sizes == factors) sizes *= shape[dim];
    }
    void leave() {
      if (!done() && sizes == factors) ++dim;
    }
    int64_t next() const { return sizes / factors; }
  };
  Side a{in}, b{out};
  while (!a.done() || !b.done()) {
    if (a.at_one()) {
      builder.factor({int(a.dim++)}, {kNoDim}, 1);
      continue;
    }
    if (b.at_one()) {
      builder.factor({kNoDim}, {int(b.dim++)}, 1);
      continue;
    }
    a.enter();
    b.enter();
    const int64_t common = std::gcd(a.next(), b.next());
    auto add_in = [&](int64_t size) {
      builder.factor({int(a.dim)}, {kNoDim}, size);
      a.factors *= size;
    };
    auto add_out = [&](int64_t size) {
      builder.factor({kNoDim}, {int(b.dim)}, size);
      b.factors *= size;
    };
    // The side that is behind takes what makes the products meet, or leaves the common divisor.
    auto catch_up = [&](const Side& behind, const Side& ahead) {
      if (ahead.factors % behind.factors == 0 &&
          behind.next() % (ahead.factors / behind.factors) == 0)
        return ahead.factors / behind.factors;
      return behind.next() > common ? behind.next() / common : behind.next();
    };
    if (a.factors == b.factors && common > 1) {
      builder.factor({int(a.dim)}, {int(b.dim)}, common);
      a.factors *= common;
      b.factors *= common;
    } else if (a.factors == b.factors) {
      add_in(a.next());
      add_out(b.next());
    } else if (a.factors < b.factors) {
      add_in(catch_up(a, b));
    } else {
      add_out(catch_up(b, a));
    }
    a.leave();
    b.leave();
  }
  return builder.build();
}
std::vector<Array> eval_reshape(EvalContext& context, const Node& node, std::span<const Array> in) {
  Shape shape = context.graph().result_type(node).shape;
  return {in[0].reshape(resolve_shape(node, std::move(shape), in[0].num_elements()))};
}

// ---- transpose ----

std::vector<Type> infer_transpose(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  Type type = tensor_operand(graph, node, 0);
  const std::vector<int64_t> permutation = node.attrs.get_ints("permutation");
  require(permutation.size() == type.rank(), node, "permutation {} is not one of {}",
          ints_text(permutation), to_string(type));
  require_distinct_dims(node, "permutation", permutation, type.rank());
  const Shape shape = type.shape;
  for (size_t d = 0; d < shape.size(); ++d) type.shape[d] = shape[permutation[d]];
  type.encoding.clear();
  return {type};
}
OpShardingRule transpose_rule(const Graph& graph, const Node& node) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const std::vector<int64_t> permutation = node.attrs.get_ints("permutation");
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < permutation.size(); ++d)
    builder.factor({int(permutation[d])}, {int(d)}, in[permutation[d]]);
  return builder.build();
}
OpCost transpose_cost(const Graph& graph, const Node& node) {
  OpCost cost = moved_cost(graph, node);
  const std::vector<int64_t> permutation = node.attrs.get_ints("permutation");
  // Rows that stay whole are copied one by one.
  const bool keeps_rows =
      permutation.empty() || permutation.back() == static_cast<int64_t>(permutation.size()) - 1;
  if (!keeps_rows) cost.kernel = KernelClass::Transpose;
  return cost;
}
std::vector<Array> eval_transpose(EvalContext&, const Node& node, std::span<const Array> in) {
  return {in[0].transpose(node.attrs.get_ints("permutation"))};
}

// ---- broadcast_in_dim, broadcast ----

std::vector<Type> infer_broadcast_in_dim(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& result = declared_result(graph, node);
  require_broadcastable(node, operand, result, node.attrs.get_ints("broadcast_dimensions"));
  return {result};
}
OpShardingRule broadcast_in_dim_rule(const Graph& graph, const Node& node) {
  return broadcast_rule(graph, node, node.attrs.get_ints("broadcast_dimensions"));
}
std::vector<Array> eval_broadcast_in_dim(EvalContext& context, const Node& node,
                                         std::span<const Array> in) {
  const Type& result = context.graph().result_type(node);
  require(result.has_static_shape(), node, "the sizes of the result {} are not known",
          to_string(result));
  return {in[0].broadcast(result.shape, node.attrs.get_ints("broadcast_dimensions"))};
}

std::vector<Type> infer_broadcast(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  Type type = tensor_operand(graph, node, 0);
  const std::vector<int64_t> sizes = node.attrs.get_ints("broadcast_sizes");
  for (int64_t size : sizes)
    require(size >= 0, node, "broadcast_sizes {} must not be negative", ints_text(sizes));
  type.shape.insert(type.shape.begin(), sizes.begin(), sizes.end());
  return {type};
}
Shape trailing_dims(const Graph& graph, const Node& node) {
  const size_t rank = graph.operand_type(node, 0).rank();
  Shape dims(rank);
  std::iota(dims.begin(), dims.end(), graph.result_type(node).rank() - rank);
  return dims;
}
OpShardingRule broadcast_op_rule(const Graph& graph, const Node& node) {
  return broadcast_rule(graph, node, trailing_dims(graph, node));
}
std::vector<Array> eval_broadcast(EvalContext& context, const Node& node,
                                  std::span<const Array> in) {
  Shape shape = node.attrs.get_ints("broadcast_sizes");
  shape.insert(shape.end(), in[0].shape().begin(), in[0].shape().end());
  return {in[0].broadcast(shape, trailing_dims(context.graph(), node))};
}

// ---- slice, reverse ----

std::vector<Type> infer_slice(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  Type type = tensor_operand(graph, node, 0);
  const std::vector<int64_t> start = node.attrs.get_ints("start_indices");
  const std::vector<int64_t> limit = node.attrs.get_ints("limit_indices");
  const std::vector<int64_t> step = node.attrs.get_ints("strides");
  require(start.size() == type.rank() && limit.size() == type.rank() && step.size() == type.rank(),
          node, "start {}, limit {} and strides {} must have one entry per dimension of {}",
          ints_text(start), ints_text(limit), ints_text(step), to_string(type));
  for (size_t d = 0; d < type.rank(); ++d) {
    require(start[d] >= 0 && start[d] <= limit[d] &&
                (is_dynamic(type.shape[d]) || limit[d] <= type.shape[d]) && step[d] > 0,
            node, "[{}:{}:{}] does not fit dimension {} of {}", start[d], limit[d], step[d], d,
            to_string(type));
    const int64_t span = limit[d] - start[d];  // strides may be as large as they like
    type.shape[d] = span / step[d] + (span % step[d] != 0);
  }
  type.encoding.clear();
  return {type};
}
OpShardingRule slice_rule(const Graph& graph, const Node& node) {
  return pointwise_rule_with_mismatch(graph, node, FactorKind::Permutation, false);
}
std::vector<Array> eval_slice(EvalContext&, const Node& node, std::span<const Array> in) {
  const Shape start = node.attrs.get_ints("start_indices"), step = node.attrs.get_ints("strides");
  Shape size = node.attrs.get_ints("limit_indices");
  for (size_t d = 0; d < size.size(); ++d) {
    const int64_t span = size[d] - start[d];
    size[d] = span / step[d] + (span % step[d] != 0);
  }
  return {in[0].slice(start, size, step)};
}

std::vector<Type> infer_reverse(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& type = tensor_operand(graph, node, 0);
  require_distinct_dims(node, "dimensions", node.attrs.get_ints("dimensions"), type.rank());
  return {type};
}
OpShardingRule reverse_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.result_type(node).shape;
  const std::vector<int64_t> dims = node.attrs.get_ints("dimensions");
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool moved = std::find(dims.begin(), dims.end(), int64_t(d)) != dims.end();
    builder.same_dim(int(d), shape[d], moved ? FactorKind::Permutation : FactorKind::PassThrough);
  }
  return builder.build();
}
std::vector<Array> eval_reverse(EvalContext&, const Node& node, std::span<const Array> in) {
  return {reverse(in[0], node.attrs.get_ints("dimensions"))};
}

// ---- pad ----

std::vector<Type> infer_pad(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  Type type = tensor_operand(graph, node, 0);
  const Type& value = tensor_operand(graph, node, 1);
  require(value.rank() == 0 && value.dtype == type.dtype, node,
          "the padding value must be a scalar of the operand's type, got {}",
          operand_types_text(graph, node));
  const std::vector<int64_t> low = node.attrs.get_ints("edge_padding_low");
  const std::vector<int64_t> high = node.attrs.get_ints("edge_padding_high");
  const std::vector<int64_t> interior = node.attrs.get_ints("interior_padding");
  require(low.size() == type.rank() && high.size() == type.rank() && interior.size() == type.rank(),
          node, "low {}, high {} and interior {} must have one entry per dimension of {}",
          ints_text(low), ints_text(high), ints_text(interior), to_string(type));
  require_padding(node, type.shape, low, high, interior);
  for (size_t d = 0; d < type.rank(); ++d) {
    int64_t& size = type.shape[d];
    if (is_dynamic(size)) continue;
    const int64_t padded = low[d] + high[d] + size + std::max<int64_t>(size - 1, 0) * interior[d];
    require(padded >= 0, node, "padding {} and {} leaves nothing of dimension {} of {}", low[d],
            high[d], d, to_string(type));
    size = padded;
  }
  type.encoding.clear();
  return {type};
}
std::vector<Array> eval_pad(EvalContext&, const Node& node, std::span<const Array> in) {
  return {pad(in[0], in[1], node.attrs.get_ints("edge_padding_low"),
              node.attrs.get_ints("edge_padding_high"), node.attrs.get_ints("interior_padding"))};
}

// ---- concatenate ----

std::vector<Type> infer_concatenate(const Graph& graph, const Node& node) {
  require(!node.operands.empty(), node, "takes at least one operand");
  Type type = tensor_operand(graph, node, 0);
  const int64_t dim = node.attrs.get_int("dimension");
  require(dim >= 0 && dim < static_cast<int64_t>(type.rank()), node,
          "dimension {} must lie in [0, {})", dim, type.rank());
  for (size_t i = 1; i < node.operands.size(); ++i) {
    Type other = tensor_operand(graph, node, i);
    // The text of all operands is written only if it is needed: there may be thousands.
    if (other.dtype != type.dtype || other.rank() != type.rank())
      fail(node, "operands differ in element type or rank: {}", operand_types_text(graph, node));
    const int64_t size = other.shape[dim];
    other.shape[dim] = type.shape[dim];
    if (!compatible(other.shape, type.shape))
      fail(node, "operands differ in a dimension other than {}: {}", dim,
           operand_types_text(graph, node));
    type.shape = merge(type.shape, other.shape);
    type.shape[dim] =
        is_dynamic(size) || is_dynamic(type.shape[dim]) ? kDynamicSize : type.shape[dim] + size;
  }
  type.encoding.clear();
  return {type};
}
// The producer of a value where it is a slice, else none.
const Node* slice_of(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid() || graph.node(producer).name() != "stablehlo.slice") return nullptr;
  return &graph.node(producer);
}
// Slices that are put together again move elements between neighbours; anything else gathers.
FactorKind concatenate_kind(const Graph& graph, const Node& node) {
  size_t slices = 0, of_same = 0;
  auto source = [&](ValueId value) {
    const Node* slice = slice_of(graph, value);
    return slice ? slice->operands[0] : value;
  };
  for (ValueId operand : node.operands) {
    slices += slice_of(graph, operand) != nullptr;
    of_same += source(operand) == source(node.operands[0]);
  }
  const bool all_slices = slices == node.operands.size();
  const bool parts_of_one = slices > 0 && of_same == node.operands.size();
  return all_slices || parts_of_one ? FactorKind::Permutation : FactorKind::NeedReplication;
}
OpShardingRule concatenate_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.result_type(node).shape;
  const int64_t dim = node.attrs.get_int("dimension");
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool joined = static_cast<int64_t>(d) == dim;
    builder.same_dim(int(d), shape[d],
                     joined ? concatenate_kind(graph, node) : FactorKind::PassThrough);
  }
  return builder.build();
}
// Nothing propagates along the dimension in which the operands are joined.
void conservative_concatenate(const Graph&, const Node& node, OpShardingRule& rule) {
  const auto dim = static_cast<size_t>(node.attrs.get_int("dimension"));
  dissolve_factor(rule, rule.results[0][dim][0]);
  drop_unused_factors(rule);
}
PartialTransfer concatenate_partial(const Graph& graph, const Node& node) {
  PartialTransfer rows = view_partial(graph, node);
  if (node.operands.size() > 1)
    for (size_t i = 0; i < node.operands.size(); ++i)
      append(rows, rows_of_operand(node, i, kIdempotentReduceOps));
  return rows;
}
std::vector<Array> eval_concatenate(EvalContext&, const Node& node, std::span<const Array> in) {
  return {concatenate(in, node.attrs.get_int("dimension"))};
}

// ---- optimization_barrier ----

std::vector<Array> eval_barrier(EvalContext&, const Node&, std::span<const Array> in) {
  return {in.begin(), in.end()};
}

}  // namespace

void register_shape_ops(OpRegistry& r) {
  r.add({.name = "stablehlo.constant",
         .traits = kPure | kConstantLike,
         .infer = infer_constant,
         .cost = moved_cost,
         .eval = eval_constant});
  r.add({.name = "stablehlo.iota",
         .traits = kPure | kConstantLike,
         .infer = infer_iota,
         .eval = eval_iota});
  r.add({.name = "stablehlo.reshape",
         .traits = kPure | kViewLike | kKeepsConstants | kRelabels,
         .infer = infer_reshape,
         .rule = reshape_rule,
         .partial = view_partial,
         .cost = no_cost,
         .eval = eval_reshape,
         .propagation_class = always<PropagationClass::PassThrough>});
  r.add({.name = "stablehlo.transpose",
         .traits = kPure | kViewLike | kRelabels,
         .infer = infer_transpose,
         .rule = transpose_rule,
         .partial = view_partial,
         .cost = transpose_cost,
         .eval = eval_transpose,
         .propagation_class = always<PropagationClass::PassThrough>});
  r.add({.name = "stablehlo.broadcast_in_dim",
         .traits = kPure | kViewLike | kKeepsConstants | kRepeats,
         .infer = infer_broadcast_in_dim,
         .rule = broadcast_in_dim_rule,
         .partial = view_partial,
         .cost = no_cost,
         .eval = eval_broadcast_in_dim,
         .propagation_class = always<PropagationClass::Broadcast>});
  r.add({.name = "stablehlo.broadcast",
         .traits = kPure | kViewLike | kRepeats,
         .infer = infer_broadcast,
         .rule = broadcast_op_rule,
         .partial = view_partial,
         .cost = no_cost,
         .eval = eval_broadcast});
  r.add({.name = "stablehlo.slice",
         .traits = kPure | kViewLike | kKeepsConstants | kWindow,
         .infer = infer_slice,
         .rule = slice_rule,
         .partial = view_partial,
         .eval = eval_slice});
  r.add({.name = "stablehlo.reverse",
         .traits = kPure | kViewLike,
         .infer = infer_reverse,
         .rule = reverse_rule,
         .partial = view_partial,
         .eval = eval_reverse});
  r.add({.name = "stablehlo.pad",
         .traits = kPure | kAssembles,
         .infer = infer_pad,
         .rule = slice_rule,
         .partial = pad_partial,
         .eval = eval_pad});
  r.add({.name = "stablehlo.concatenate",
         .traits = kPure | kAssembles,
         .infer = infer_concatenate,
         .rule = concatenate_rule,
         .partial = concatenate_partial,
         .eval = eval_concatenate,
         .conservative = conservative_concatenate});
  r.add({.name = "stablehlo.optimization_barrier",
         .traits = kDataFlow,
         .flow = Flow::Barrier,
         .infer = infer_identity,
         .eval = eval_barrier});
}

}  // namespace cleave
