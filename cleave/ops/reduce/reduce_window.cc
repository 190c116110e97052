#include "cleave/kernels/reduce_window.h"

#include <cstring>

#include "cleave/kernels/elementwise.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/reduce/window_attr.h"
#include "cleave/ops/region_check.h"
#include "cleave/ops/rule_util.h"

namespace cleave {
namespace {

Shape windows_of(const Shape& shape, const Window& window) {
  Shape result;
  for (size_t d = 0; d < shape.size(); ++d)
    result.push_back(is_dynamic(shape[d]) ? kDynamicSize : num_windows(shape[d], window.dims[d]));
  return result;
}

std::vector<Type> infer_reduce_window(const Graph& graph, const Node& node) {
  require(!node.operands.empty() && node.operands.size() % 2 == 0, node,
          "takes inputs and as many init values, got {} operand(s)", node.operands.size());
  const size_t n = num_reduced(node);
  const Type& first = tensor_operand(graph, node, 0);
  if (first.unranked) return infer_declared(graph, node);
  Shape shape = first.shape;
  for (size_t i = 0; i < n; ++i) {
    const Type& input = tensor_operand(graph, node, i);
    const Type& init = tensor_operand(graph, node, n + i);
    require(compatible(shape, input.shape), node, "inputs must have one shape, got {}",
            operand_types_text(graph, node));
    shape = merge(shape, input.shape);
    require(
        init.rank() == 0 && (init.dtype == input.dtype || init.dtype == body_dtype(graph, node, i)),
        node, "init value {} must be a scalar of the input's element type, got {}", i,
        operand_types_text(graph, node));
  }
  const Shape windows = windows_of(shape, window_of(node, shape.size()));
  std::vector<Type> types;
  for (size_t i = 0; i < n; ++i) types.push_back(Type::tensor(body_dtype(graph, node, i), windows));
  return types;
}

OpShardingRule reduce_window_rule(const Graph& graph, const Node& node) {
  const Shape& out = graph.result_type(node).shape;
  const Window window = window_of(node, out.size());
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < out.size(); ++d)
    builder.same_dim(
        static_cast<int>(d), out[d],
        is_trivial(window.dims[d]) ? FactorKind::PassThrough : FactorKind::Permutation);
  return builder.build();
}

// As reduce, except that padding counts init values any number of times.
PartialTransfer reduce_window_partial(const Graph& graph, const Node& node) {
  if (node.regions.empty()) return {};
  const auto op = common_reduce_op(graph, node.regions[0]);
  if (!op) return {};
  const auto reducers = *recognise_reducers(graph, node.regions[0]);
  const size_t n = num_reduced(node);
  bool neutral = true;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = graph.operand_type(node, i).dtype;
    if (is_integer(dtype) && dtype != body_dtype(graph, node, i)) return {};
    neutral &= is_identity_constant(graph, node.operands[n + i], reducers[i]);
  }
  std::vector<bool> all(2 * n, true), inputs(2 * n, true);
  for (size_t i = 0; i < n; ++i) inputs[n + i] = false;
  const bool idempotent = *op != ReduceOp::Sum && *op != ReduceOp::Prod;
  PartialTransfer rows{{*op, all, *op}};
  if (idempotent || neutral) rows.push_back({*op, inputs, *op});
  return rows;
}

OpCost reduce_window_cost(const Graph& graph, const Node& node) {
  OpCost cost{.kernel = KernelClass::Reduction};
  double window_size = 1;
  for (const Window::Dim& dim : window_of(node, graph.operand_type(node, 0).rank()).dims)
    window_size *= static_cast<double>(dim.size);
  for (size_t i = 0; i < num_reduced(node); ++i) {
    const Type& result = graph.result_type(node, i);
    cost.flops += window_size * static_cast<double>(num_elements(result.shape));
    cost.bytes_read += static_cast<double>(graph.operand_type(node, i).byte_count());
    cost.bytes_written += static_cast<double>(result.byte_count());
  }
  return cost;
}

// Starts are taken to be the operator's identity, as they are in practice. Operands that are folded
// one after the other use the same memory.
int64_t workspace_of_reduce_window(const Graph& graph, const Node& node,
                                   std::span<const Array> operands) {
  if (!recognise_reducers(graph, node.regions[0])) return 0;
  const Window window = window_of(node, operands[0].rank());
  int64_t most = 0;
  for (size_t i = 0; i < num_reduced(node); ++i)
    most = std::max(most, reduce_window_workspace(operands[i].shape(), body_dtype(graph, node, i),
                                                  window, true));
  return most;
}

// Calls visit(view) for each position inside the window, in order: that element of all windows.
template <typename Visit>
void for_each_position(const Window& window, Visit visit) {
  Shape index(window.dims.size());
  while (true) {
    visit(index);
    size_t d = index.size();
    while (d-- > 0) {
      if (++index[d] < window.dims[d].size) break;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

Array at_position(const Array& windows, const Shape& position) {
  const size_t rank = position.size();
  Shape start(2 * rank, 0), size = windows.shape();
  for (size_t d = 0; d < rank; ++d) {
    start[rank + d] = position[d];
    size[rank + d] = 1;
  }
  const Array view = windows.slice(start, size);
  const int64_t offset = (view.raw() - view.buffer().get()) / byte_size(view.dtype());
  return Array(view.dtype(),
               Shape(view.shape().begin(), view.shape().begin() + static_cast<int64_t>(rank)),
               Shape(view.strides().begin(), view.strides().begin() + static_cast<int64_t>(rank)),
               offset, view.buffer());
}

std::vector<Array> eval_reduce_window(EvalContext& context, const Node& node,
                                      std::span<const Array> operands) {
  const Graph& graph = context.graph();
  const size_t n = num_reduced(node);
  const Window window = window_of(node, operands[0].rank());
  std::vector<Array> inputs, inits;
  for (size_t i = 0; i < n; ++i) {
    inputs.push_back(convert(operands[i], body_dtype(graph, node, i)));
    inits.push_back(convert(operands[n + i], body_dtype(graph, node, i)));
  }
  std::vector<Array> results;
  if (const auto reducers = recognise_reducers(graph, node.regions[0])) {
    for (size_t i = 0; i < n; ++i)
      results.push_back(reduce_window(inputs[i], window, (*reducers)[i], inits[i]));
    return results;
  }
  std::vector<Array> windows;
  for (size_t i = 0; i < n; ++i)
    windows.push_back(window_view(pad_and_dilate(inputs[i], window, inits[i]), window));
  const Shape shape = windows_of(inputs[0].shape(), window);
  for (const Array& init : inits) results.push_back(init.broadcast(shape, {}));
  if (num_elements(shape) == 0) {
    for (Array& result : results) result = result.copy();
    return results;
  }
  for_each_position(window, [&](const Shape& position) {
    std::vector<Array> args = std::move(results);
    for (const Array& view : windows) args.push_back(at_position(view, position));
    results = context.map_region(node.regions[0], args);
  });
  return results;
}

// ---- select_and_scatter

Type with_elements_of(Type type, const Type& other) {
  type.dtype = other.dtype;
  type.text = other.text;
  return type;
}

std::vector<Type> infer_select_and_scatter(const Graph& graph, const Node& node) {
  require_operands(node, 3);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& source = tensor_operand(graph, node, 1);
  const Type& init = tensor_operand(graph, node, 2);
  require(init.rank() == 0 && init.dtype == operand.dtype && source.dtype == operand.dtype, node,
          "operand, source and the scalar init value must have one element type, got {}",
          operand_types_text(graph, node));
  const Shape windows = windows_of(operand.shape, window_of(node, operand.rank()));
  require(compatible(windows, source.shape), node, "operand {} has {} windows, but source is {}",
          to_string(operand), windows.empty() ? "1" : to_string(windows), to_string(source));
  Type type = operand;
  if (node.regions.size() == 2 && !graph.region(node.regions[1]).args.empty())
    type = with_elements_of(type, graph.type(graph.region(node.regions[1]).args[0]));
  return {type};
}

void verify_select_and_scatter(const Graph& graph, const Node& node) {
  require(node.regions.size() == 2, node, "needs two regions, select and scatter");
  const DType operand = graph.operand_type(node, 0).dtype;
  const DType result = graph.result_type(node).dtype;
  require_scalar_region(graph, node, 0, "select", {operand, operand}, {DType::Bool});
  require_scalar_region(graph, node, 1, "scatter", {result, result}, {result});
  require(is_promotable(operand, result), node, "scatter adds {}, which does not hold all of {}",
          to_string(Type::scalar(result)), to_string(graph.operand_type(node, 0)));
}

OpShardingRule select_and_scatter_rule(const Graph& graph, const Node& node) {
  const Shape& out = graph.result_type(node).shape;
  const Shape& source = graph.operand_type(node, 1).shape;
  const Window window = window_of(node, out.size());
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < out.size(); ++d) {
    const int dim = static_cast<int>(d);
    if (is_trivial(window.dims[d])) {
      builder.same_dim(dim, out[d]);
    } else {
      builder.factor({kNoDim, dim, kNoDim}, {kNoDim}, source[d], FactorKind::NeedReplication);
      builder.factor({dim, kNoDim, kNoDim}, {dim}, out[d], FactorKind::Permutation);
    }
  }
  return builder.build();
}

// The positions that are selected do not depend on source and init, which are added up.
// The windows stand in the source alone, as factors of their own.
void conservative_select_and_scatter(const Graph&, const Node&, OpShardingRule& rule) {
  for (Factor& factor : rule.factors)
    if (factor.kind == FactorKind::Permutation || factor.kind == FactorKind::NeedReplication)
      factor.blocked = true;
}
PartialTransfer select_and_scatter_partial(const Graph& graph, const Node& node) {
  if (node.regions.size() != 2) return {};
  const auto op = common_reduce_op(graph, node.regions[1]);
  if (op != ReduceOp::Sum) return {};
  PartialTransfer rows{{ReduceOp::Sum, {false, true, true}, ReduceOp::Sum}};
  if (is_identity_constant(graph, node.operands[2], Reducer::Sum))
    rows.push_back({ReduceOp::Sum, {false, true, false}, ReduceOp::Sum});
  return rows;
}

OpCost select_and_scatter_cost(const Graph& graph, const Node& node) {
  OpCost cost{.kernel = KernelClass::Reduction};
  double window_size = 1;
  for (const Window::Dim& dim : window_of(node, graph.operand_type(node, 0).rank()).dims)
    window_size *= static_cast<double>(dim.size);
  const Type& source = graph.operand_type(node, 1);
  cost.flops = (window_size + 1) * static_cast<double>(num_elements(source.shape));
  cost.bytes_read =
      static_cast<double>(graph.operand_type(node, 0).byte_count() + source.byte_count());
  cost.bytes_written = static_cast<double>(graph.result_type(node).byte_count());
  return cost;
}

// For each window, the row-major position of the element that `select` prefers; -1 where the window
// holds padding alone.
std::vector<int64_t> selected_positions(EvalContext& context, RegionId select, const Array& operand,
                                        const Window& window, const Shape& windows) {
  const size_t rank = operand.rank();
  const Array packed = operand.contiguous();
  const Shape strides = row_major_strides(operand.shape());
  std::vector<int64_t> positions(static_cast<size_t>(num_elements(windows)), -1);
  Array best(operand.dtype(), windows), current(operand.dtype(), windows);
  const auto size = static_cast<size_t>(byte_size(operand.dtype()));
  std::memset(best.raw(), 0, best.num_bytes());
  std::memset(current.raw(), 0, current.num_bytes());
  for_each_position(window, [&](const Shape& offset) {
    std::vector<int64_t> here(positions.size(), -1);
    Shape index(rank);
    for (size_t i = 0; i < here.size(); ++i) {
      int64_t position = 0;
      for (size_t d = 0; d < rank && position >= 0; ++d) {
        const int64_t at = index[d] * window.dims[d].stride + offset[d] - window.dims[d].low;
        position = at < 0 || at >= operand.shape()[d] ? -1 : position + at * strides[d];
      }
      here[i] = position;
      if (position >= 0)
        std::memcpy(current.raw() + i * size, packed.raw() + static_cast<size_t>(position) * size,
                    size);
      for (size_t d = rank; d-- > 0;) {
        if (++index[d] < windows[d]) break;
        index[d] = 0;
      }
    }
    const std::vector<Array> args{best.copy(), current.copy()};
    const Array keeps = context.map_region(select, args)[0].contiguous();
    for (size_t i = 0; i < here.size(); ++i) {
      if (here[i] < 0 || (positions[i] >= 0 && keeps.data<uint8_t>()[i])) continue;
      positions[i] = here[i];
      std::memcpy(best.raw() + i * size, current.raw() + i * size, size);
    }
  });
  return positions;
}

std::vector<Array> eval_select_and_scatter(EvalContext& context, const Node& node,
                                           std::span<const Array> operands) {
  const Graph& graph = context.graph();
  const Window window = window_of(node, operands[0].rank());
  const Shape windows = windows_of(operands[0].shape(), window);
  const DType dtype = graph.result_type(node).dtype;
  const std::vector<int64_t> positions =
      selected_positions(context, node.regions[0], operands[0], window, windows);
  const Array source = convert(operands[1], dtype).contiguous();
  const Array init = convert(operands[2], dtype);
  const auto reducers = recognise_reducers(graph, node.regions[1]);
  if (reducers && (*reducers)[0] <= Reducer::Min)
    return {scatter_windows(operands[0].shape(), positions, source, (*reducers)[0], init)};
  Array result(dtype, operands[0].shape());
  copy_elements(init.broadcast(result.shape(), {}), result);
  const int64_t size = byte_size(dtype);
  for (size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] < 0) continue;
    std::byte* target = result.raw() + positions[i] * size;
    const std::vector<Array> args{
        Array::from_bytes(dtype, {}, source.raw() + static_cast<int64_t>(i) * size),
        Array::from_bytes(dtype, {}, target)};
    const Array sum = context.run_region(node.regions[1], args)[0];
    std::memcpy(target, sum.raw(), static_cast<size_t>(size));
  }
  return {result};
}

}  // namespace

void register_reduce_window_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.reduce_window",
                .traits = kPure,
                .infer = infer_reduce_window,
                .verify = verify_reduction_body,
                .rule = reduce_window_rule,
                .partial = reduce_window_partial,
                .cost = reduce_window_cost,
                .eval = eval_reduce_window,
                .workspace = workspace_of_reduce_window});
  registry.add({.name = "stablehlo.select_and_scatter",
                .traits = kPure,
                .infer = infer_select_and_scatter,
                .verify = verify_select_and_scatter,
                .rule = select_and_scatter_rule,
                .partial = select_and_scatter_partial,
                .cost = select_and_scatter_cost,
                .eval = eval_select_and_scatter,
                .conservative = conservative_select_and_scatter});
}

}  // namespace cleave
