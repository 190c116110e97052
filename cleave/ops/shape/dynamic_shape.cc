#include <algorithm>

#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/shape.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/shape/dynamic_shape_check.h"
#include "cleave/ops/shape/family.h"
#include "cleave/ops/shape/shape_util.h"

// Shape ops whose positions or sizes are operands.
namespace cleave {
namespace {

// Operands [first, end) are scalars of one integer type, one per dimension: start indices.
void require_start_indices(const Graph& graph, const Node& node, size_t first, size_t rank) {
  require(node.operands.size() == first + rank, node, "takes {} start indices, got {}", rank,
          node.operands.size() - std::min(first, node.operands.size()));
  for (size_t i = first; i < node.operands.size(); ++i) {
    const Type& type = tensor_operand(graph, node, i);
    require(type.rank() == 0 && is_integer(type.dtype), node,
            "start indices must be integer scalars, got {}", operand_types_text(graph, node));
    require(type.dtype == graph.operand_type(node, first).dtype, node,
            "start indices must have one element type, got {}", operand_types_text(graph, node));
  }
}
// An operand of rank 1 with one integer per dimension of something of the given rank.
void require_integers(const Graph& graph, const Node& node, size_t i, size_t rank) {
  const Type& type = tensor_operand(graph, node, i);
  require(type.rank() == 1 && !is_float(type.dtype) && !is_complex(type.dtype) &&
              compatible(type.shape[0], static_cast<int64_t>(rank)),
          node, "operand {} must hold {} integers, got {}", i, rank, to_string(type));
}
Shape starts_of(std::span<const Array> indices) {
  Shape start;
  for (const Array& index : indices) start.push_back(integers_of(index)[0]);
  return start;
}

// ---- dynamic_slice, dynamic_update_slice ----

std::vector<Type> infer_dynamic_slice(const Graph& graph, const Node& node) {
  Type type = tensor_operand(graph, node, 0);
  const std::vector<int64_t> sizes = node.attrs.get_ints("slice_sizes");
  require_start_indices(graph, node, 1, type.rank());
  require(sizes.size() == type.rank(), node,
          "slice_sizes {} must have one entry per dimension of {}", ints_text(sizes),
          to_string(type));
  for (size_t d = 0; d < sizes.size(); ++d)
    require(sizes[d] >= 0 && (is_dynamic(type.shape[d]) || sizes[d] <= type.shape[d]), node,
            "slice_sizes {} don't fit {}", ints_text(sizes), to_string(type));
  type.shape = sizes;
  type.encoding.clear();
  return {type};
}
OpShardingRule dynamic_slice_rule(const Graph& graph, const Node& node) {
  return pointwise_rule_with_mismatch(graph, node, FactorKind::NeedReplication, true);
}
std::vector<Array> eval_dynamic_slice(EvalContext&, const Node& node, std::span<const Array> in) {
  return {dynamic_slice(in[0], starts_of(in.subspan(1)), node.attrs.get_ints("slice_sizes"))};
}
// A view, wherever it begins.
std::vector<Array> alias_dynamic_slice(const Graph& graph, const Node& node,
                                       std::span<const Array> in) {
  return {in[0].slice(Shape(in[0].rank(), 0), graph.result_type(node).shape)};
}

std::vector<Type> infer_dynamic_update_slice(const Graph& graph, const Node& node) {
  const Type& type = tensor_operand(graph, node, 0);
  const Type& update = tensor_operand(graph, node, 1);
  require_start_indices(graph, node, 2, type.rank());
  bool fits = update.dtype == type.dtype && update.rank() == type.rank();
  for (size_t d = 0; fits && d < type.rank(); ++d)
    fits = is_dynamic(update.shape[d]) || is_dynamic(type.shape[d]) ||
           update.shape[d] <= type.shape[d];
  require(fits, node, "the update {} does not fit {}", to_string(update), to_string(type));
  return {type};
}
// An updated dimension stays sharded in the operand: each device writes what falls into its part.
// The update is needed whole there, unless all starts are constants.
OpShardingRule dynamic_update_slice_rule(const Graph& graph, const Node& node) {
  const Shape& whole = graph.operand_type(node, 0).shape;
  const Shape& update = graph.operand_type(node, 1).shape;
  const bool constant_starts =
      std::all_of(node.operands.begin() + 2, node.operands.end(), [&](ValueId index) {
        const NodeId producer = graph.value(index).producer;
        return producer.valid() && graph.node(producer).def->has(kConstantLike);
      });
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < whole.size(); ++d) {
    const int dim = static_cast<int>(d);
    if (whole[d] == update[d]) {
      builder.same_dim(dim, whole[d]);
      continue;
    }
    std::vector<int> dims(node.operands.size(), kNoDim);
    dims[0] = dim;
    builder.factor(dims, {dim}, whole[d]);
    std::swap(dims[0], dims[1]);
    builder.factor(dims, {kNoDim}, update[d],
                   constant_starts ? FactorKind::PassThrough : FactorKind::NeedReplication);
  }
  return builder.build();
}
PartialTransfer dynamic_update_slice_partial(const Graph&, const Node& node) {
  PartialTransfer rows;
  auto add = [&](ReduceOp op, bool operand, bool update) {
    PartialRow row{op, std::vector<bool>(node.operands.size(), false), op};
    row.operands[0] = operand;
    row.operands[1] = update;
    rows.push_back(std::move(row));
  };
  for (ReduceOp op : kAllReduceOps) add(op, true, true);
  for (ReduceOp op : kIdempotentReduceOps) {
    add(op, true, false);
    add(op, false, true);
  }
  return rows;
}
OpCost dynamic_update_slice_cost(const Graph& graph, const Node& node) {
  const auto update = static_cast<double>(graph.operand_type(node, 1).byte_count());
  return {.flops = 0, .bytes_read = update, .bytes_written = update};
}
std::vector<Array> eval_dynamic_update_slice(EvalContext& context, const Node&,
                                             std::span<const Array> in) {
  const bool in_place = in[0].is_contiguous() && context.may_overwrite(in[0]);
  return {dynamic_update_slice(in[0], in[1], starts_of(in.subspan(2)), in_place)};
}

// ---- the size of a dimension ----

int64_t dimension_of(const Graph& graph, const Node& node) {
  const int64_t dim = node.attrs.get_int("dimension");
  const size_t rank = tensor_operand(graph, node, 0).rank();
  require(dim >= 0 && dim < static_cast<int64_t>(rank), node, "dimension {} must lie in [0, {})",
          dim, rank);
  return dim;
}
std::vector<Type> infer_get_dimension_size(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  dimension_of(graph, node);
  return {Type::tensor(DType::I32, {})};
}
std::vector<Array> eval_get_dimension_size(EvalContext&, const Node& node,
                                           std::span<const Array> in) {
  const int64_t size = in[0].shape()[node.attrs.get_int("dimension")];
  return {Array::scalar<int32_t>(DType::I32, static_cast<int32_t>(size))};
}
OpShardingRule get_dimension_size_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d)
    builder.factor({int(d)}, {kNoDim}, shape[d], FactorKind::NeedReplication, true);
  return builder.build();
}

std::vector<Type> infer_set_dimension_size(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  dimension_of(graph, node);
  const Type& type = tensor_operand(graph, node, 0);
  const Type& size = tensor_operand(graph, node, 1);
  require(size.rank() == 0 && is_integer(size.dtype), node,
          "the size must be an integer scalar, got {}", to_string(size));
  if (node.results.empty()) return {type};
  const Type& result = declared_result(graph, node);
  require(result.dtype == type.dtype && compatible(result.shape, type.shape), node,
          "the result {} must be like the operand {}", to_string(result), to_string(type));
  return {result};
}
std::vector<Array> eval_set_dimension_size(EvalContext&, const Node& node,
                                           std::span<const Array> in) {
  Shape size = in[0].shape();
  const int64_t dim = node.attrs.get_int("dimension"), asked = integers_of(in[1])[0];
  require(asked >= 0 && asked <= size[dim], node, "the size {} of dimension {} is not in [0, {}]",
          asked, dim, size[dim]);
  size[dim] = asked;
  return {in[0].slice(Shape(size.size(), 0), size)};
}
OpShardingRule set_dimension_size_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const int64_t dim = node.attrs.get_int("dimension");
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d)
    builder.factor(
        {int(d), kNoDim}, {int(d)}, shape[d],
        static_cast<int64_t>(d) == dim ? FactorKind::NeedReplication : FactorKind::PassThrough);
  return builder.build();
}

// ---- dynamic forms of iota, reshape, broadcast_in_dim, pad, slice ----

std::vector<Type> infer_dynamic_iota(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& result = declared_result(graph, node);
  require_integers(graph, node, 0, result.rank());
  const int64_t dim = node.attrs.get_int("iota_dimension");
  require(dim >= 0 && dim < static_cast<int64_t>(result.rank()), node,
          "iota_dimension {} must lie in [0, {})", dim, result.rank());
  return {result};
}
std::vector<Array> eval_dynamic_iota(EvalContext& context, const Node& node,
                                     std::span<const Array> in) {
  const Type& result = context.graph().result_type(node);
  const Shape sizes = integers_of(in[0]);
  require_sizes(node, sizes, result);
  return {iota(result.dtype, sizes, node.attrs.get_int("iota_dimension"))};
}
// Sizes are needed everywhere; each dimension of the result is on its own.
OpShardingRule result_alone_rule(const Graph& graph, const Node& node) {
  const Shape& out = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < out.size(); ++d)
    builder.factor(std::vector<int>(node.operands.size(), kNoDim), {int(d)}, out[d]);
  return builder.build();
}

std::vector<Type> infer_dynamic_reshape(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& result = declared_result(graph, node);
  require_integers(graph, node, 1, result.rank());
  require(operand.dtype == result.dtype, node, "{} and {} differ in element type",
          to_string(operand), to_string(result));
  return {result};
}
OpShardingRule replicated_rule(const Graph& graph, const Node& node) {
  RuleBuilder builder(graph, node);
  auto add = [&](size_t tensor, size_t dim, int64_t size, bool operand) {
    std::vector<int> in(node.operands.size(), kNoDim), out(node.results.size(), kNoDim);
    (operand ? in : out)[tensor] = static_cast<int>(dim);
    builder.factor(in, out, size, FactorKind::NeedReplication, true);
  };
  for (size_t i = 0; i < node.operands.size(); ++i)
    for (size_t d = 0; d < graph.operand_type(node, i).rank(); ++d)
      add(i, d, graph.operand_type(node, i).shape[d], true);
  for (size_t i = 0; i < node.results.size(); ++i)
    for (size_t d = 0; d < graph.result_type(node, i).rank(); ++d)
      add(i, d, graph.result_type(node, i).shape[d], false);
  return builder.build();
}
std::vector<Array> eval_dynamic_reshape(EvalContext& context, const Node& node,
                                        std::span<const Array> in) {
  Shape sizes = resolve_shape(node, integers_of(in[1]), in[0].num_elements());
  require_sizes(node, sizes, context.graph().result_type(node));
  return {in[0].reshape(std::move(sizes))};
}

std::vector<Type> infer_dynamic_broadcast(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& result = declared_result(graph, node);
  require_integers(graph, node, 1, result.rank());
  require_broadcastable(node, operand, result, node.attrs.get_ints("broadcast_dimensions"));
  return {result};
}
OpShardingRule dynamic_broadcast_rule(const Graph& graph, const Node& node) {
  return broadcast_rule(graph, node, node.attrs.get_ints("broadcast_dimensions"));
}
std::vector<Array> eval_dynamic_broadcast(EvalContext& context, const Node& node,
                                          std::span<const Array> in) {
  const Shape shape = integers_of(in[1]);
  const std::vector<int64_t> dims = node.attrs.get_ints("broadcast_dimensions");
  const DType dtype = context.graph().result_type(node).dtype;
  require_sizes(node, shape, context.graph().result_type(node));
  require_broadcastable(node, Type::tensor(in[0].dtype(), in[0].shape()),
                        Type::tensor(dtype, shape), dims);
  return {in[0].broadcast(shape, dims)};
}

std::vector<Type> infer_dynamic_pad(const Graph& graph, const Node& node) {
  require_operands(node, 5);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& value = tensor_operand(graph, node, 1);
  const Type& result = declared_result(graph, node);
  require(value.rank() == 0 && value.dtype == operand.dtype, node,
          "the padding value must be a scalar of the operand's type, got {}",
          operand_types_text(graph, node));
  require(result.dtype == operand.dtype && result.rank() == operand.rank(), node,
          "the result {} must be like the operand {}", to_string(result), to_string(operand));
  for (size_t i = 2; i < 5; ++i) require_integers(graph, node, i, operand.rank());
  return {result};
}
// Pointwise between operand 0 and the result where sizes agree.
OpShardingRule dynamic_window_rule(const Graph& graph, const Node& node) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < in.size(); ++d) {
    std::vector<int> dims(node.operands.size(), kNoDim);
    dims[0] = static_cast<int>(d);
    const bool same = in[d] == out[d] && !is_dynamic(in[d]);
    builder.factor(dims, {int(d)}, in[d],
                   same ? FactorKind::PassThrough : FactorKind::NeedReplication, !same);
  }
  return builder.build();
}
std::vector<Array> eval_dynamic_pad(EvalContext& context, const Node& node,
                                    std::span<const Array> in) {
  const Shape low = integers_of(in[2]), high = integers_of(in[3]), interior = integers_of(in[4]);
  require_padding(node, in[0].shape(), low, high, interior);
  require_sizes(node, padded_shape(in[0].shape(), low, high, interior),
                context.graph().result_type(node));
  return {pad(in[0], in[1], low, high, interior)};
}

std::vector<Type> infer_real_dynamic_slice(const Graph& graph, const Node& node) {
  require_operands(node, 4);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& result = declared_result(graph, node);
  require(result.dtype == operand.dtype && result.rank() == operand.rank(), node,
          "the result {} must be like the operand {}", to_string(result), to_string(operand));
  for (size_t i = 1; i < 4; ++i) require_integers(graph, node, i, operand.rank());
  return {result};
}
std::vector<Array> eval_real_dynamic_slice(EvalContext& context, const Node& node,
                                           std::span<const Array> in) {
  const Shape start = integers_of(in[1]), limit = integers_of(in[2]), step = integers_of(in[3]);
  Shape size(start.size());
  for (size_t d = 0; d < size.size(); ++d) {
    require(start[d] >= 0 && start[d] <= limit[d] && limit[d] <= in[0].shape()[d] && step[d] > 0,
            node, "[{}:{}:{}] does not fit dimension {} of {}", start[d], limit[d], step[d], d,
            to_string(in[0].shape()));
    size[d] = (limit[d] - start[d]) / step[d] + ((limit[d] - start[d]) % step[d] != 0);
  }
  require_sizes(node, size, context.graph().result_type(node));
  return {in[0].slice(start, size, step)};
}

}  // namespace

void register_dynamic_shape_ops(OpRegistry& r) {
  r.add({.name = "stablehlo.dynamic_slice",
         .traits = kPure | kWindow,
         .infer = infer_dynamic_slice,
         .rule = dynamic_slice_rule,
         .partial = view_partial_of_first,
         .cost = moved_cost,
         .eval = eval_dynamic_slice,
         .alias = alias_dynamic_slice,
         .propagation_class = always<PropagationClass::DynamicSlice>});
  r.add({.name = "stablehlo.dynamic_update_slice",
         .traits = kPure | kAssembles,
         .infer = infer_dynamic_update_slice,
         .rule = dynamic_update_slice_rule,
         .partial = dynamic_update_slice_partial,
         .cost = dynamic_update_slice_cost,
         .eval = eval_dynamic_update_slice,
         .in_place = InPlace::FirstOperand,
         .propagation_class = always<PropagationClass::DynamicSlice>});
  r.add({.name = "stablehlo.get_dimension_size",
         .traits = kPure,
         .infer = infer_get_dimension_size,
         .rule = get_dimension_size_rule,
         .cost = no_cost,
         .eval = eval_get_dimension_size});
  r.add({.name = "stablehlo.set_dimension_size",
         .traits = kPure,
         .infer = infer_set_dimension_size,
         .rule = set_dimension_size_rule,
         .partial = view_partial_of_first,
         .cost = no_cost,
         .eval = eval_set_dimension_size});
  r.add({.name = "stablehlo.dynamic_iota",
         .traits = kPure,
         .infer = infer_dynamic_iota,
         .verify = verify_dynamic_iota,
         .rule = result_alone_rule,
         .eval = eval_dynamic_iota});
  r.add({.name = "stablehlo.dynamic_reshape",
         .traits = kPure,
         .infer = infer_dynamic_reshape,
         .verify = verify_dynamic_reshape,
         .rule = replicated_rule,
         .partial = view_partial_of_first,
         .cost = no_cost,
         .eval = eval_dynamic_reshape});
  r.add({.name = "stablehlo.dynamic_broadcast_in_dim",
         .traits = kPure | kRepeats,
         .infer = infer_dynamic_broadcast,
         .verify = verify_dynamic_broadcast,
         .rule = dynamic_broadcast_rule,
         .partial = view_partial_of_first,
         .cost = no_cost,
         .eval = eval_dynamic_broadcast});
  r.add({.name = "stablehlo.dynamic_pad",
         .traits = kPure,
         .infer = infer_dynamic_pad,
         .verify = verify_dynamic_pad,
         .rule = dynamic_window_rule,
         .partial = pad_partial,
         .eval = eval_dynamic_pad});
  r.add({.name = "stablehlo.real_dynamic_slice",
         .traits = kPure | kWindow,
         .infer = infer_real_dynamic_slice,
         .verify = verify_real_dynamic_slice,
         .rule = dynamic_window_rule,
         .partial = view_partial_of_first,
         .cost = moved_cost,
         .eval = eval_real_dynamic_slice});
}

}  // namespace cleave
