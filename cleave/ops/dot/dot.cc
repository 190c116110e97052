#include "cleave/kernels/dot.h"

#include <algorithm>
#include <string>

#include "cleave/kernels/reduce.h"
#include "cleave/kernels/workspace.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/dot/family.h"
#include "cleave/ops/dot/precision.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"

namespace cleave {
namespace {

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::ranges::find(list, value) != list.end();
}

// The declared element type of a result that need not be that of the operands (i8 x i8 -> i32).
DType result_dtype(const Graph& graph, const Node& node, DType fallback) {
  return node.results.empty() ? fallback : graph.result_type(node).dtype;
}

double matmul_flops(DType dtype) { return is_complex(dtype) ? 8 : 2; }

// `shared`: elements of the dimensions that both operands and the result have.
OpCost::Products products_of(const Graph& graph, const Node& node, double shared,
                             double contracted) {
  auto rows = [&](size_t operand) {
    const auto elements =
        static_cast<double>(num_elements(graph.operand_type(node, operand).shape));
    return shared * contracted > 0 ? elements / (shared * contracted) : 0;
  };
  return {.count = shared,
          .m = rows(0),
          .k = contracted,
          .n = rows(1),
          .is_exact = asks_for_precision(node)};
}

OpCost dot_cost(const Graph& graph, const Node& node, double contracted) {
  const Type& result = graph.result_type(node);
  OpCost cost{.kernel = KernelClass::Matmul};
  for (ValueId operand : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(operand).byte_count());
  cost.bytes_written = static_cast<double>(result.byte_count());
  cost.flops =
      matmul_flops(result.dtype) * static_cast<double>(num_elements(result.shape)) * contracted;
  return cost;
}

ReduceOp sum_op(DType dtype) { return dtype == DType::Bool ? ReduceOp::Or : ReduceOp::Sum; }

// A product of sums is a sum of products, in each operand. Sums of integers that wrap before they
// are widened are not.
PartialTransfer dot_partial(const Graph& graph, const Node& node) {
  const DType operand = graph.operand_type(node, 0).dtype, result = graph.result_type(node).dtype;
  if (is_integer(operand) && bit_width(result) > bit_width(operand)) return {};
  PartialTransfer rows;
  for (size_t i = 0; i < 2; ++i) {
    const bool averages = is_float(operand) || is_complex(operand);
    for (ReduceOp op : {sum_op(operand), ReduceOp::Avg}) {
      if (op == ReduceOp::Avg && !averages) continue;
      for (PartialRow& row : rows_of_operand(node, i, {op})) rows.push_back(std::move(row));
    }
  }
  return rows;
}

// ---- dot_general

void require_paired(const Graph& graph, const Node& node, const char* what,
                    const std::vector<int64_t>& lhs_dims, const std::vector<int64_t>& rhs_dims) {
  require(lhs_dims.size() == rhs_dims.size(), node, "{} dimensions {} x {} must be pairs", what,
          ints_text(lhs_dims), ints_text(rhs_dims));
  for (size_t i = 0; i < lhs_dims.size(); ++i) {
    const int64_t l = graph.operand_type(node, 0).shape[lhs_dims[i]];
    const int64_t r = graph.operand_type(node, 1).shape[rhs_dims[i]];
    require(compatible(l, r), node,
            "{} dimension {} of lhs has {} elements and {} of rhs has {}, in {}", what, lhs_dims[i],
            l, rhs_dims[i], r, operand_types_text(graph, node));
  }
}

void require_disjoint(const Node& node, const char* side, const std::vector<int64_t>& batch,
                      const std::vector<int64_t>& contract, size_t rank) {
  std::vector<int64_t> all = batch;
  all.insert(all.end(), contract.begin(), contract.end());
  require_distinct_dims(node, side, all, rank);
}

std::vector<Type> infer_dot_general(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  const Type& lhs = tensor_operand(graph, node, 0);
  const Type& rhs = tensor_operand(graph, node, 1);
  if (lhs.unranked || rhs.unranked) return infer_declared(graph, node);
  const DotDims dims = dot_dims(node);
  require_disjoint(node, "batching and contracting dimensions of lhs", dims.lhs_batch,
                   dims.lhs_contract, lhs.rank());
  require_disjoint(node, "batching and contracting dimensions of rhs", dims.rhs_batch,
                   dims.rhs_contract, rhs.rank());
  require_paired(graph, node, "batching", dims.lhs_batch, dims.rhs_batch);
  require_paired(graph, node, "contracting", dims.lhs_contract, dims.rhs_contract);
  Shape shape;
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i) {
    const int64_t size = lhs.shape[dims.lhs_batch[i]];
    shape.push_back(is_dynamic(size) ? rhs.shape[dims.rhs_batch[i]] : size);
  }
  for (size_t d = 0; d < lhs.rank(); ++d)
    if (!contains(dims.lhs_batch, d) && !contains(dims.lhs_contract, d))
      shape.push_back(lhs.shape[d]);
  for (size_t d = 0; d < rhs.rank(); ++d)
    if (!contains(dims.rhs_batch, d) && !contains(dims.rhs_contract, d))
      shape.push_back(rhs.shape[d]);
  return {Type::tensor(result_dtype(graph, node, lhs.dtype), std::move(shape))};
}

OpShardingRule dot_general_rule(const Graph& graph, const Node& node) {
  const DotDims dims = dot_dims(node);
  const Shape& lhs = graph.operand_type(node, 0).shape;
  const Shape& rhs = graph.operand_type(node, 1).shape;
  RuleBuilder builder(graph, node);
  auto as_int = [](auto value) { return static_cast<int>(value); };
  int out = 0;
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i)
    builder.factor({as_int(dims.lhs_batch[i]), as_int(dims.rhs_batch[i])}, {out++},
                   lhs[dims.lhs_batch[i]]);
  for (size_t d = 0; d < lhs.size(); ++d)
    if (!contains(dims.lhs_batch, d) && !contains(dims.lhs_contract, d))
      builder.factor({as_int(d), kNoDim}, {out++}, lhs[d]);
  for (size_t d = 0; d < rhs.size(); ++d)
    if (!contains(dims.rhs_batch, d) && !contains(dims.rhs_contract, d))
      builder.factor({kNoDim, as_int(d)}, {out++}, rhs[d]);
  for (size_t i = 0; i < dims.lhs_contract.size(); ++i)
    builder.factor({as_int(dims.lhs_contract[i]), as_int(dims.rhs_contract[i])}, {kNoDim},
                   lhs[dims.lhs_contract[i]], FactorKind::Reduction, false,
                   sum_op(graph.result_type(node).dtype));
  return builder.build();
}

OpCost dot_general_cost(const Graph& graph, const Node& node) {
  double contracted = 1;
  for (int64_t d : dot_dims(node).lhs_contract)
    contracted *= static_cast<double>(graph.operand_type(node, 0).shape[d]);
  OpCost cost = dot_cost(graph, node, contracted);
  double shared = 1;
  for (int64_t d : dot_dims(node).lhs_batch)
    shared *= static_cast<double>(graph.operand_type(node, 0).shape[d]);
  cost.products = products_of(graph, node, shared, contracted);
  return cost;
}

std::vector<Array> eval_dot_general(EvalContext& context, const Node& node,
                                    std::span<const Array> operands) {
  return {dot_general(operands[0], operands[1], dot_dims(node),
                      context.graph().result_type(node).dtype)};
}

// ---- dot: vectors and matrices, the last dimension of lhs with the first of rhs

std::vector<Type> infer_dot(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  const Type& lhs = tensor_operand(graph, node, 0);
  const Type& rhs = tensor_operand(graph, node, 1);
  if (lhs.unranked || rhs.unranked) return infer_declared(graph, node);
  auto vector_or_matrix = [](const Type& type) { return type.rank() == 1 || type.rank() == 2; };
  require(vector_or_matrix(lhs) && vector_or_matrix(rhs), node,
          "operands must be vectors or matrices, got {}", operand_types_text(graph, node));
  require(compatible(lhs.shape.back(), rhs.shape.front()), node,
          "the last dimension of lhs must match the first of rhs, got {}",
          operand_types_text(graph, node));
  Shape shape;
  if (lhs.rank() == 2) shape.push_back(lhs.shape[0]);
  if (rhs.rank() == 2) shape.push_back(rhs.shape[1]);
  return {Type::tensor(result_dtype(graph, node, lhs.dtype), std::move(shape))};
}

OpShardingRule dot_rule(const Graph& graph, const Node& node) {
  const Shape& lhs = graph.operand_type(node, 0).shape;
  const Shape& rhs = graph.operand_type(node, 1).shape;
  RuleBuilder builder(graph, node);
  if (lhs.size() == 2) builder.factor({0, kNoDim}, {0}, lhs[0]);
  if (rhs.size() == 2) builder.factor({kNoDim, 1}, {lhs.size() == 2 ? 1 : 0}, rhs[1]);
  builder.factor({lhs.size() == 2 ? 1 : 0, 0}, {kNoDim}, rhs[0], FactorKind::Reduction, false,
                 sum_op(graph.result_type(node).dtype));
  return builder.build();
}

OpCost plain_dot_cost(const Graph& graph, const Node& node) {
  const auto contracted = static_cast<double>(graph.operand_type(node, 1).shape[0]);
  OpCost cost = dot_cost(graph, node, contracted);
  cost.products = products_of(graph, node, 1, contracted);
  return cost;
}

std::vector<Array> eval_dot(EvalContext& context, const Node& node,
                            std::span<const Array> operands) {
  const auto last = static_cast<int64_t>(operands[0].rank()) - 1;
  return {dot_general(operands[0], operands[1], {{}, {}, {last}, {0}},
                      context.graph().result_type(node).dtype)};
}

int64_t workspace_of_dot(const Graph& graph, const Node& node, std::span<const Array> in) {
  return dot_workspace(in[0], in[1], *dot_dims_of(graph, node), graph.result_type(node).dtype);
}

}  // namespace

void register_dot_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.dot_general",
                .traits = kPure,
                .infer = infer_dot_general,
                .verify = verify_precision,
                .rule = dot_general_rule,
                .partial = dot_partial,
                .cost = dot_general_cost,
                .eval = eval_dot_general,
                .workspace = workspace_of_dot});
  registry.add({.name = "stablehlo.dot",
                .traits = kPure,
                .infer = infer_dot,
                .verify = verify_precision,
                .rule = dot_rule,
                .partial = dot_partial,
                .cost = plain_dot_cost,
                .eval = eval_dot,
                .workspace = workspace_of_dot});
}

}  // namespace cleave
