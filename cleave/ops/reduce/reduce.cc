#include "cleave/kernels/reduce.h"

#include "cleave/kernels/elementwise.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/rule_util.h"

namespace cleave {
namespace {

std::vector<Type> infer_reduce(const Graph& graph, const Node& node) {
  require(!node.operands.empty() && node.operands.size() % 2 == 0, node,
          "takes inputs and as many init values, got {} operand(s)", node.operands.size());
  const size_t n = num_reduced(node);
  const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
  Shape shape;
  bool ranked = false;
  for (size_t i = 0; i < n; ++i) {
    const Type& input = tensor_operand(graph, node, i);
    const Type& init = tensor_operand(graph, node, n + i);
    require(init.unranked || init.rank() == 0, node, "init value {} must be a scalar, got {}", i,
            to_string(init));
    require(init.dtype == input.dtype || init.dtype == body_dtype(graph, node, i), node,
            "init value {} is {} and its input {}", i, to_string(init), to_string(input));
    if (input.unranked) continue;
    require(!ranked || compatible(shape, input.shape), node, "inputs must have one shape, got {}",
            operand_types_text(graph, node));
    shape = ranked ? merge(shape, input.shape) : input.shape;
    ranked = true;
  }
  if (!ranked) return infer_declared(graph, node);
  require_distinct_dims(node, "dimensions", dims, shape.size());
  std::vector<bool> folded(shape.size());
  for (int64_t d : dims) folded[d] = true;
  Shape kept;
  for (size_t d = 0; d < shape.size(); ++d)
    if (!folded[d]) kept.push_back(shape[d]);
  std::vector<Type> types;
  for (size_t i = 0; i < n; ++i) {
    types.push_back(Type::tensor(body_dtype(graph, node, i), kept));
    types.back().text = body_text(graph, node, i);
  }
  return types;
}

OpShardingRule reduce_rule(const Graph& graph, const Node& node) {
  const size_t n = num_reduced(node);
  const Shape& shape = graph.operand_type(node, 0).shape;
  std::vector<bool> folded(shape.size());
  for (int64_t d : node.attrs.get_ints_or_empty("dimensions")) folded[d] = true;
  std::optional<ReduceOp> op;
  if (!node.regions.empty()) op = common_reduce_op(graph, node.regions[0]);
  RuleBuilder builder(graph, node);
  int out = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    std::vector<int> operand_dims(2 * n, kNoDim), result_dims(n, kNoDim);
    std::fill_n(operand_dims.begin(), n, static_cast<int>(d));
    if (!folded[d]) result_dims.assign(n, out++);
    builder.factor(operand_dims, result_dims, shape[d],
                   folded[d] ? FactorKind::Reduction : FactorKind::PassThrough, false,
                   folded[d] ? op.value_or(ReduceOp::Sum) : ReduceOp::Sum);
  }
  OpShardingRule rule = builder.build();
  for (Factor& factor : rule.factors)
    if (factor.kind == FactorKind::Reduction) factor.unknown_reduce = !op;
  return rule;
}

// Sum and Prod take init values once: they are partial as well, or one device counts them. Max,
// Min, And and Or may take them any number of times; averages take them as often as they divide.
PartialTransfer reduce_partial(const Graph& graph, const Node& node) {
  if (node.regions.empty()) return {};
  const auto op = common_reduce_op(graph, node.regions[0]);
  if (!op) return {};
  const size_t n = num_reduced(node);
  bool floating = true;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = graph.operand_type(node, i).dtype;
    // Integers that wrap before the body widens them do not add up.
    if (is_integer(dtype) && dtype != body_dtype(graph, node, i)) return {};
    floating &= is_float(dtype) || is_complex(dtype);
  }
  std::vector<bool> all(2 * n, true), inputs(2 * n, true), inits(2 * n, false);
  for (size_t i = 0; i < n; ++i) {
    inputs[n + i] = false;
    inits[n + i] = true;
  }
  const bool once = *op == ReduceOp::Sum || *op == ReduceOp::Prod;
  PartialTransfer rows{{*op, all, *op}};
  rows.push_back({*op, inputs, *op});
  if (!once) rows.push_back({*op, inits, *op});
  if (*op == ReduceOp::Sum && floating)
    for (const std::vector<bool>& operands : {all, inputs, inits})
      rows.push_back({ReduceOp::Avg, operands, ReduceOp::Avg});
  return rows;
}

OpCost reduce_cost(const Graph& graph, const Node& node) {
  OpCost cost{.kernel = KernelClass::Reduction};
  for (size_t i = 0; i < num_reduced(node); ++i) {
    const Type& input = graph.operand_type(node, i);
    cost.flops += static_cast<double>(num_elements(input.shape));
    cost.bytes_read += static_cast<double>(input.byte_count());
    cost.bytes_written += static_cast<double>(graph.result_type(node, i).byte_count());
  }
  return cost;
}

// Any body: neighbours along the folded dimensions are combined in order, half as many each time.
std::vector<Array> reduce_by_region(EvalContext& context, RegionId body, std::vector<Array> inputs,
                                    const std::vector<Array>& inits,
                                    const std::vector<int64_t>& dims) {
  const size_t rank = inputs[0].rank(), n = inputs.size();
  std::vector<bool> folded(rank);
  for (int64_t d : dims) folded[d] = true;
  Shape order, kept;
  int64_t count = 1;
  for (size_t d = 0; d < rank; ++d)
    if (folded[d]) {
      order.push_back(static_cast<int64_t>(d));
      count *= inputs[0].shape()[d];
    }
  for (size_t d = 0; d < rank; ++d)
    if (!folded[d]) {
      order.push_back(static_cast<int64_t>(d));
      kept.push_back(inputs[0].shape()[d]);
    }
  auto with_count = [&](int64_t size) {
    Shape shape{size};
    shape.insert(shape.end(), kept.begin(), kept.end());
    return shape;
  };
  const Shape begin(kept.size() + 1, 0);
  auto every_second = [&](const Array& array, int64_t start, int64_t size) {
    Shape from = begin, step(kept.size() + 1, 1);
    from[0] = start;
    step[0] = 2;
    return array.slice(from, with_count(size), step);
  };
  for (Array& input : inputs) input = input.transpose(order).reshape(with_count(count));
  while (count > 1) {
    const int64_t half = count / 2;
    std::vector<Array> args(2 * n);
    for (size_t i = 0; i < n; ++i) {
      args[i] = every_second(inputs[i], 0, half);
      args[n + i] = every_second(inputs[i], 1, half);
    }
    std::vector<Array> merged = context.map_region(body, args);
    if (count % 2 == 1)
      for (size_t i = 0; i < n; ++i) {
        Array longer(merged[i].dtype(), with_count(half + 1));
        Shape last = begin;
        last[0] = half;
        copy_elements(merged[i], longer.slice(begin, with_count(half)));
        Shape source = begin;
        source[0] = count - 1;
        copy_elements(inputs[i].slice(source, with_count(1)), longer.slice(last, with_count(1)));
        merged[i] = longer;
      }
    inputs = std::move(merged);
    count = (count + 1) / 2;
  }
  std::vector<Array> args;
  for (const Array& init : inits) args.push_back(init.broadcast(kept, {}));
  if (count == 0) return args;
  for (const Array& input : inputs) args.push_back(input.reshape(kept));
  return context.map_region(body, args);
}

std::vector<Array> eval_reduce(EvalContext& context, const Node& node,
                               std::span<const Array> operands) {
  const Graph& graph = context.graph();
  const size_t n = num_reduced(node);
  const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
  std::vector<Array> inputs, inits;
  for (size_t i = 0; i < n; ++i) {
    inputs.push_back(convert(operands[i], body_dtype(graph, node, i)));
    inits.push_back(convert(operands[n + i], body_dtype(graph, node, i)));
  }
  const auto reducers = recognise_reducers(graph, node.regions[0]);
  if (!reducers) return reduce_by_region(context, node.regions[0], std::move(inputs), inits, dims);
  std::vector<Array> results;
  for (size_t i = 0; i < n; ++i)
    results.push_back(reduce(inputs[i], dims, (*reducers)[i], inits[i]));
  return results;
}

}  // namespace

void register_reduce_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.reduce",
                .traits = kPure,
                .infer = infer_reduce,
                .verify = verify_reduction_body,
                .rule = reduce_rule,
                .partial = reduce_partial,
                .cost = reduce_cost,
                .eval = eval_reduce});
}

}  // namespace cleave
