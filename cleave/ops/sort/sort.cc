#include "cleave/kernels/sort.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "cleave/kernels/elementwise.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/region_check.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/sort/comparator.h"
#include "cleave/ops/sort/family.h"
#include "cleave/ops/sort/sort_by_comparator.h"

namespace cleave {
namespace {

// The sorted dimension, counted from the end where negative; the last one by default.
int64_t sort_dim(const Node& node, size_t rank) {
  int64_t dim = node.attrs.get_int("dimension", -1);
  if (dim < 0) dim += static_cast<int64_t>(rank);
  return dim;
}

std::vector<Type> infer_sort(const Graph& graph, const Node& node) {
  require(!node.operands.empty(), node, "takes at least one operand");
  Shape shape;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Type& type = tensor_operand(graph, node, i);
    if (type.unranked) return infer_declared(graph, node);
    require(i == 0 || compatible(shape, type.shape), node, "operands must have one shape, got {}",
            operand_types_text(graph, node));
    shape = i == 0 ? type.shape : merge(shape, type.shape);
  }
  const int64_t dim = sort_dim(node, shape.size());
  require(shape.empty() || (dim >= 0 && dim < static_cast<int64_t>(shape.size())), node,
          "dimension {} is out of range for rank {}", node.attrs.get_int("dimension", -1),
          shape.size());
  std::vector<Type> types = infer_identity(graph, node);
  for (Type& type : types) type.shape = shape;
  return types;
}

void verify_sort(const Graph& graph, const Node& node) {
  std::vector<DType> pairs;
  for (ValueId operand : node.operands) pairs.insert(pairs.end(), 2, graph.type(operand).dtype);
  require_scalar_region(graph, node, 0, "comparator", pairs, {DType::Bool});
}

OpShardingRule sort_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const int64_t sorted = sort_dim(node, shape.size());
  bool alone = true;
  for (size_t d = 0; d < shape.size(); ++d)
    alone &= static_cast<int64_t>(d) == sorted || shape[d] == 1;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool is_sorted = static_cast<int64_t>(d) == sorted;
    builder.same_dim(static_cast<int>(d), shape[d],
                     is_sorted ? FactorKind::NeedReplication : FactorKind::PassThrough,
                     is_sorted && alone);
  }
  return builder.build();
}

OpCost sort_cost(const Graph& graph, const Node& node) {
  OpCost cost;
  const Shape& shape = graph.operand_type(node, 0).shape;
  const int64_t n = shape.empty() ? 1 : shape[sort_dim(node, shape.size())];
  cost.flops = static_cast<double>(num_elements(shape)) *
               static_cast<double>(std::bit_width(static_cast<uint64_t>(n)));
  for (ValueId operand : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(operand).byte_count());
  cost.bytes_written = cost.bytes_read;
  return cost;
}

// One pass over the rows, with a heap of k.
OpCost top_k_cost(const Graph& graph, const Node& node) {
  const Type& operand = graph.operand_type(node, 0);
  const Shape& result = graph.result_type(node).shape;
  const int64_t k = result.empty() ? 1 : result.back();
  OpCost cost{.kernel = KernelClass::Reduction};
  cost.flops = static_cast<double>(num_elements(operand.shape)) *
               static_cast<double>(std::bit_width(static_cast<uint64_t>(k)));
  cost.bytes_read = static_cast<double>(operand.byte_count());
  for (ValueId id : node.results)
    cost.bytes_written += static_cast<double>(graph.type(id).byte_count());
  return cost;
}

Array key_part(const Array& operand, ComparatorKey::Part part) {
  if (part == ComparatorKey::Part::Whole) return operand;
  return unary(part == ComparatorKey::Part::Real ? UnaryOp::Real : UnaryOp::Imag, operand);
}

// The keys of a recognised comparator; nothing where NaNs have no place in its order.
std::optional<std::vector<Array>> comparator_keys(const std::vector<ComparatorKey>& steps,
                                                  std::span<const Array> operands) {
  std::vector<Array> keys;
  for (const ComparatorKey& step : steps) {
    const Array values = key_part(operands[step.operand], step.part);
    if (is_complex(values.dtype())) return std::nullopt;
    KeyOrder order = step.order;
    if (is_float(values.dtype()) && !step.total_order) {
      if (has_nan(values)) return std::nullopt;
      order.merge_zeros = true;
    }
    keys.push_back(sort_keys(values, order));
  }
  return keys;
}

// Any comparator: Batcher's merge exchange, which compares many pairs at a time and takes any
// number of elements. Elements that come before neither of each other stay in order.
std::vector<Array> sort_by_region(EvalContext& context, RegionId comparator,
                                  std::span<const Array> operands, int64_t dim) {
  const auto rank = static_cast<int64_t>(operands[0].rank());
  Shape to_rows{dim}, back(static_cast<size_t>(rank));
  for (int64_t d = 0; d < rank; ++d)
    if (d != dim) to_rows.push_back(d);
  for (int64_t d = 0; d < rank; ++d) back[to_rows[d]] = d;
  const int64_t n = operands[0].shape()[dim], width = operands[0].num_elements() / n;
  std::vector<Array> rows;  // {n, width}
  for (const Array& operand : operands)
    rows.push_back(operand.transpose(to_rows).copy().reshape({n, width}));
  std::vector<int64_t> place(static_cast<size_t>(n * width));
  for (int64_t i = 0; i < n * width; ++i) place[i] = i / width;

  auto exchange = [&](const std::vector<int64_t>& firsts, int64_t distance) {
    if (firsts.empty()) return;
    const auto count = static_cast<int64_t>(firsts.size());
    std::vector<Array> forward, backward;
    for (const Array& array : rows) {
      Array a(array.dtype(), {count, width}), b(array.dtype(), {count, width});
      for (int64_t i = 0; i < count; ++i) {
        copy_elements(array.slice({firsts[i], 0}, {1, width}), a.slice({i, 0}, {1, width}));
        copy_elements(array.slice({firsts[i] + distance, 0}, {1, width}),
                      b.slice({i, 0}, {1, width}));
      }
      forward.push_back(a);
      forward.push_back(b);
      backward.push_back(b);
      backward.push_back(a);
    }
    const Array in_order = context.map_region(comparator, forward)[0].contiguous();
    const Array reversed = context.map_region(comparator, backward)[0].contiguous();
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < width; ++j) {
        const int64_t first = firsts[i] * width + j, second = first + distance * width;
        const bool keeps = in_order.data<uint8_t>()[i * width + j];
        const bool turns = reversed.data<uint8_t>()[i * width + j];
        if (turns == keeps ? place[first] < place[second] : keeps) continue;
        std::swap(place[first], place[second]);
        for (Array& array : rows) {
          const int64_t size = byte_size(array.dtype());
          std::swap_ranges(array.raw() + first * size, array.raw() + (first + 1) * size,
                           array.raw() + second * size);
        }
      }
  };
  const int64_t top = n < 2 ? 0 : static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)) / 2);
  for (int64_t p = top; p > 0; p /= 2) {
    int64_t q = top, r = 0, distance = p;
    while (true) {
      std::vector<int64_t> firsts;
      for (int64_t i = 0; i < n - distance; ++i)
        if ((i & p) == r) firsts.push_back(i);
      exchange(firsts, distance);
      if (q == p) break;
      distance = q - p;
      q /= 2;
      r = p;
    }
  }
  std::vector<Array> results;
  for (size_t i = 0; i < rows.size(); ++i)
    results.push_back(
        rows[i].reshape(operands[i].transpose(to_rows).shape()).transpose(back).contiguous());
  return results;
}

std::vector<Array> eval_sort(EvalContext& context, const Node& node,
                             std::span<const Array> operands) {
  if (operands[0].rank() == 0) return {operands.begin(), operands.end()};
  return sort_by_comparator(context, node.regions[0], operands, sort_dim(node, operands[0].rank()));
}

// ---- chlo.top_k

std::vector<Type> infer_top_k(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& type = tensor_operand(graph, node, 0);
  if (type.unranked) return infer_declared(graph, node);
  const int64_t k = node.attrs.get_int("k");
  require(type.rank() >= 1, node, "the operand must have at least one dimension, got {}",
          to_string(type));
  require(k >= 0 && (is_dynamic(type.shape.back()) || k <= type.shape.back()), node,
          "k {} must lie in [0, {}], the size of the last dimension", k, type.shape.back());
  Type values = type;
  values.shape.back() = k;
  Type indices = Type::tensor(DType::I32, values.shape);
  return {values, indices};
}

// A last dimension that is taken whole still gets sorted.
OpShardingRule top_k_rule(const Graph& graph, const Node& node) {
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < in.size(); ++d) {
    const bool last = d + 1 == in.size();
    builder.same_dim(static_cast<int>(d), in[d],
                     last ? FactorKind::NeedReplication : FactorKind::PassThrough,
                     last && in[d] != out[d]);
  }
  return builder.build();
}

std::vector<Array> eval_top_k(EvalContext&, const Node& node, std::span<const Array> operands) {
  return top_k(operands[0], node.attrs.get_int("k"));
}

}  // namespace

std::vector<Array> sort_by_comparator(EvalContext& context, RegionId comparator,
                                      std::span<const Array> operands, int64_t dim) {
  if (operands[0].num_elements() == 0) return {operands.begin(), operands.end()};
  if (const auto steps = recognise_comparator(context.graph(), comparator))
    if (const auto keys = comparator_keys(*steps, operands))
      return sort_by_keys(operands, *keys, dim);
  return sort_by_region(context, comparator, operands, dim);
}

void register_sort_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.sort",
                .traits = kPure,
                .infer = infer_sort,
                .verify = verify_sort,
                .rule = sort_rule,
                .cost = sort_cost,
                .eval = eval_sort,
                .workspace = strided_operands_workspace});
  registry.add({.name = "chlo.top_k",
                .traits = kPure,
                .infer = infer_top_k,
                .rule = top_k_rule,
                .cost = top_k_cost,
                .eval = eval_top_k});
}

}  // namespace cleave
