#include <algorithm>
#include <iterator>

#include "cleave/kernels/dot.h"
#include "cleave/kernels/shape.h"
#include "cleave/ops/chlo/family.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"

// CHLO ops with structure: a matrix product over groups of rows, and a scan.
namespace cleave {
namespace {

// ---- ragged_dot ----
//
// The ragged dimension of lhs is split into groups of the given sizes. What it is decides the rest:
//   free      [b, m, k], [g, b, k, n] -> [b, m, n]     rows of group g meet rhs[g]
//   contract  [b, m, k], [b, k, n]    -> [g, b, m, n]  one product per group
//   batch     [b, m, k], [b, k, n]    -> [b, m, n]     an ordinary product

enum class Ragged : uint8_t { Free, Contract, Batch };

bool contains(const std::vector<int64_t>& values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

struct RaggedDims {
  DotDims dot;
  int64_t ragged;
  std::vector<int64_t> group;  // of rhs: one dimension, or none
  Ragged kind;
};

RaggedDims ragged_dims(const Node& node) {
  auto [dot, ragged, group] = ragged_dot_dims(node);
  RaggedDims dims;
  dims.dot = std::move(dot);
  require(ragged.size() == 1, node, "lhs_ragged_dimensions {} must name one dimension",
          ints_text(ragged));
  dims.ragged = ragged[0];
  dims.group = std::move(group);
  dims.kind = contains(dims.dot.lhs_contract, dims.ragged) ? Ragged::Contract
              : contains(dims.dot.lhs_batch, dims.ragged)  ? Ragged::Batch
                                                           : Ragged::Free;
  const size_t groups = dims.kind == Ragged::Free ? 1 : 0;
  require(dims.group.size() == groups, node, "rhs_group_dimensions {} must name {} dimension(s)",
          ints_text(dims.group), groups);
  return dims;
}

// The dimensions of a result, each with where it comes from.
struct ResultDim {
  int lhs = kNoDim, rhs = kNoDim, groups = kNoDim;
};
std::vector<ResultDim> result_dims(const RaggedDims& dims, size_t lhs_rank, size_t rhs_rank,
                                   size_t groups_rank) {
  std::vector<ResultDim> result;
  if (dims.kind == Ragged::Contract)
    result.push_back({.groups = static_cast<int>(groups_rank) - 1});
  for (size_t i = 0; i < dims.dot.lhs_batch.size(); ++i)
    result.push_back({.lhs = int(dims.dot.lhs_batch[i]),
                      .rhs = int(dims.dot.rhs_batch[i]),
                      .groups = i + 1 < groups_rank ? int(i) : kNoDim});
  for (int d = 0; d < static_cast<int>(lhs_rank); ++d)
    if (!contains(dims.dot.lhs_batch, d) && !contains(dims.dot.lhs_contract, d))
      result.push_back({.lhs = d});
  for (int d = 0; d < static_cast<int>(rhs_rank); ++d)
    if (!contains(dims.dot.rhs_batch, d) && !contains(dims.dot.rhs_contract, d) &&
        !contains(dims.group, d))
      result.push_back({.rhs = d});
  return result;
}

std::vector<int64_t> joined_dims(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// group_sizes is [groups], or has the sizes of the dimensions of its kind before the ragged one in
// front.
void require_group_sizes(const Node& node, const RaggedDims& dims, const Type& lhs,
                         const Type& groups) {
  if (groups.rank() == 1) return;
  const auto before = [&](const std::vector<int64_t>& list) {
    const auto end = std::find(list.begin(), list.end(), dims.ragged);
    return std::vector<int64_t>(list.begin(), end);
  };
  std::vector<int64_t> front = before(dims.dot.lhs_batch);
  if (dims.kind == Ragged::Contract) front = joined_dims(front, before(dims.dot.lhs_contract));
  for (int64_t d = 0; d < dims.ragged && dims.kind == Ragged::Free; ++d)
    if (!contains(dims.dot.lhs_batch, d) && !contains(dims.dot.lhs_contract, d)) front.push_back(d);
  Shape sizes;
  for (int64_t d : front) sizes.push_back(lhs.shape[static_cast<size_t>(d)]);
  sizes.push_back(groups.shape.back());
  require(compatible(groups.shape, sizes), node, "group_sizes {} must have the sizes {} or [{}]",
          to_string(groups), ints_text(sizes), groups.shape.back());
}

std::vector<Type> infer_ragged_dot(const Graph& graph, const Node& node) {
  require_operands(node, 3);
  const Type& lhs = tensor_operand(graph, node, 0);
  const Type& rhs = tensor_operand(graph, node, 1);
  const Type& groups = tensor_operand(graph, node, 2);
  const RaggedDims dims = ragged_dims(node);
  require(groups.rank() >= 1 && is_integer(groups.dtype), node,
          "group_sizes must be integers of rank 1 or more, got {}", to_string(groups));
  auto require_pairs = [&](const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    require(a.size() == b.size(), node, "dimensions {} and {} must pair up", ints_text(a),
            ints_text(b));
    require_distinct_dims(node, "dimensions", a, lhs.rank());
    require_distinct_dims(node, "dimensions", b, rhs.rank());
    for (size_t i = 0; i < a.size(); ++i)
      require(compatible(lhs.shape[a[i]], rhs.shape[b[i]]), node,
              "dimension {} of {} and {} of {} differ", a[i], to_string(lhs), b[i], to_string(rhs));
  };
  require_pairs(dims.dot.lhs_batch, dims.dot.rhs_batch);
  require_pairs(dims.dot.lhs_contract, dims.dot.rhs_contract);
  require_distinct_dims(node, "dimensions of lhs",
                        joined_dims(dims.dot.lhs_batch, dims.dot.lhs_contract), lhs.rank());
  require_distinct_dims(
      node, "dimensions of rhs",
      joined_dims(joined_dims(dims.dot.rhs_batch, dims.dot.rhs_contract), dims.group), rhs.rank());
  require_distinct_dims(node, "lhs_ragged_dimensions", {dims.ragged}, lhs.rank());
  require_group_sizes(node, dims, lhs, groups);
  if (dims.kind == Ragged::Free)
    require(compatible(rhs.shape[dims.group[0]], groups.shape.back()), node,
            "{} has {} groups, group_sizes {}", to_string(rhs), rhs.shape[dims.group[0]],
            to_string(groups));
  Type type = lhs;
  type.shape.clear();
  if (!node.results.empty()) type.dtype = graph.result_type(node).dtype;
  for (const ResultDim& dim : result_dims(dims, lhs.rank(), rhs.rank(), groups.rank()))
    type.shape.push_back(dim.lhs != kNoDim   ? lhs.shape[dim.lhs]
                         : dim.rhs != kNoDim ? rhs.shape[dim.rhs]
                                             : groups.shape[dim.groups]);
  return {type};
}

// Where a group begins depends on all sizes, so the ragged dimension and the groups stay whole.
OpShardingRule ragged_dot_rule(const Graph& graph, const Node& node) {
  const Type& lhs = graph.operand_type(node, 0);
  const Type& rhs = graph.operand_type(node, 1);
  const Type& groups = graph.operand_type(node, 2);
  const RaggedDims dims = ragged_dims(node);
  RuleBuilder builder(graph, node);
  const int group_dim = static_cast<int>(groups.rank()) - 1;
  int out = 0;
  for (const ResultDim& dim : result_dims(dims, lhs.rank(), rhs.rank(), groups.rank())) {
    const bool of_groups = dim.groups != kNoDim && dim.lhs == kNoDim;
    const bool whole = of_groups || (dim.lhs == dims.ragged && dims.kind == Ragged::Free);
    const int64_t size = graph.result_type(node).shape[out];
    builder.factor({dim.lhs, dim.rhs, dim.groups}, {out++}, size,
                   whole ? FactorKind::NeedReplication : FactorKind::PassThrough);
  }
  for (size_t i = 0; i < dims.dot.lhs_contract.size(); ++i) {
    const int64_t d = dims.dot.lhs_contract[i];
    builder.factor({int(d), int(dims.dot.rhs_contract[i]), kNoDim}, {kNoDim}, lhs.shape[d],
                   d == dims.ragged ? FactorKind::NeedReplication : FactorKind::Reduction);
  }
  if (dims.kind != Ragged::Contract)
    builder.factor({kNoDim, dims.group.empty() ? kNoDim : int(dims.group[0]), group_dim}, {kNoDim},
                   groups.shape.back(), FactorKind::NeedReplication);
  return builder.build();
}
PartialTransfer ragged_dot_partial(const Graph&, const Node& node) {
  PartialTransfer rows = rows_of_operand(node, 0, {ReduceOp::Sum, ReduceOp::Avg});
  append(rows, rows_of_operand(node, 1, {ReduceOp::Sum, ReduceOp::Avg}));
  return rows;
}
OpCost ragged_dot_cost(const Graph& graph, const Node& node) {
  const Type& lhs = graph.operand_type(node, 0);
  const Type& rhs = graph.operand_type(node, 1);
  const Type& result = graph.result_type(node);
  const RaggedDims dims = ragged_dims(node);
  double contracted = 2;
  for (int64_t d : dims.dot.lhs_contract) contracted *= static_cast<double>(lhs.shape[d]);
  double flops = contracted * static_cast<double>(num_elements(result.shape));
  if (dims.kind == Ragged::Contract)
    flops /= std::max<double>(1, static_cast<double>(result.shape[0]));
  return {.flops = flops,
          .bytes_read = static_cast<double>(lhs.byte_count() + rhs.byte_count()),
          .bytes_written = static_cast<double>(result.byte_count()),
          .kernel = KernelClass::Matmul};
}

// [offset, offset + size) of one dimension.
Array part(const Array& x, int64_t dim, int64_t offset, int64_t size) {
  Shape start(x.rank(), 0), sizes = x.shape();
  start[dim] = offset;
  sizes[dim] = size;
  return x.slice(start, sizes);
}
Array without_dim(const Array& x, int64_t dim) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + dim);
  return x.reshape(shape);
}

// One list of group sizes for all of lhs.
Array ragged_dot(const Array& lhs, const Array& rhs, const Shape& sizes, const RaggedDims& dims,
                 DType dtype) {
  if (dims.kind == Ragged::Batch) return dot_general(lhs, rhs, dims.dot, dtype);
  if (sizes.empty()) throw_user("chlo.ragged_dot: group_sizes are empty; give at least one group");
  std::vector<Array> products;
  int64_t begin = 0;
  const int64_t end = lhs.shape()[dims.ragged];
  DotDims dot = dims.dot;
  for (size_t g = 0; g < sizes.size(); ++g) {
    const int64_t size = std::clamp<int64_t>(sizes[g], 0, end - begin);
    const Array rows = part(lhs, dims.ragged, begin, size);
    if (dims.kind == Ragged::Free) {
      const Array matrix =
          without_dim(part(rhs, dims.group[0], static_cast<int64_t>(g), 1), dims.group[0]);
      auto shifted = [&](std::vector<int64_t> list) {
        for (int64_t& d : list) d -= d > dims.group[0];
        return list;
      };
      dot.rhs_batch = shifted(dims.dot.rhs_batch);
      dot.rhs_contract = shifted(dims.dot.rhs_contract);
      products.push_back(dot_general(rows, matrix, dot, dtype));
    } else {
      const auto at = std::find(dot.lhs_contract.begin(), dot.lhs_contract.end(), dims.ragged);
      const int64_t rhs_dim = dot.rhs_contract[at - dot.lhs_contract.begin()];
      const Array product = dot_general(rows, part(rhs, rhs_dim, begin, size), dot, dtype);
      Shape shape = product.shape();
      shape.insert(shape.begin(), 1);
      products.push_back(product.reshape(shape));
    }
    begin += size;
  }
  if (dims.kind == Ragged::Contract) return concatenate(products, 0);
  // Rows of no group are zero. In the result the ragged dimension follows the batch and earlier
  // free ones.
  int64_t dim = static_cast<int64_t>(dims.dot.lhs_batch.size());
  for (int64_t d = 0; d < dims.ragged; ++d)
    dim += !contains(dims.dot.lhs_batch, d) && !contains(dims.dot.lhs_contract, d);
  if (begin < end) {
    Shape rest = products[0].shape();
    rest[dim] = end - begin;
    products.push_back(Array::zeros(dtype, rest));
  }
  return concatenate(products, dim);
}
std::vector<Array> eval_ragged_dot(EvalContext& context, const Node& node,
                                   std::span<const Array> in) {
  const RaggedDims dims = ragged_dims(node);
  const DType dtype = context.graph().result_type(node).dtype;
  if (in[2].rank() == 1) return {ragged_dot(in[0], in[1], integers_of(in[2]), dims, dtype)};
  // Sizes of their own for each index of the first batch dimension.
  require(in[2].rank() == 2 && dims.dot.lhs_batch.size() == 1 && dims.kind != Ragged::Batch, node,
          "group_sizes of shape {} need one batch dimension", to_string(in[2].shape()));
  std::vector<Array> parts;
  for (int64_t b = 0; b < in[2].shape()[0]; ++b)
    parts.push_back(ragged_dot(part(in[0], dims.dot.lhs_batch[0], b, 1),
                               part(in[1], dims.dot.rhs_batch[0], b, 1),
                               integers_of(part(in[2], 0, b, 1)), dims, dtype));
  return {concatenate(parts, dims.kind == Ragged::Contract ? 1 : 0)};
}

// ---- scan ----
//
// body(slices of inputs, carries) -> (slices of outputs, carries), from one end of a dimension to
// the other.

size_t num_inputs(const Node& node) {
  const std::vector<int64_t> segments = node.attrs.get_ints_or_empty("operandSegmentSizes");
  return segments.size() == 2 && segments[0] >= 0 ? static_cast<size_t>(segments[0])
                                                  : node.operands.size() / 2;
}
void verify_scan(const Graph& graph, const Node& node) {
  const size_t inputs = num_inputs(node);
  require(inputs >= 1 && inputs <= node.operands.size(), node, "takes at least one input");
  const int64_t dim = node.attrs.get_int("dimension");
  for (size_t i = 0; i < inputs; ++i)
    require(dim >= 0 && dim < static_cast<int64_t>(tensor_operand(graph, node, i).rank()), node,
            "dimension {} does not fit {}", dim, operand_types_text(graph, node));
  require(
      node.regions.size() == 1 && graph.region(node.regions[0]).args.size() == node.operands.size(),
      node, "the region must take one value per operand");
  const Region& body = graph.region(node.regions[0]);
  const size_t carries = node.operands.size() - inputs;
  require(node.results.size() >= carries && !body.nodes.empty() &&
              graph.node(body.nodes.back()).operands.size() == node.results.size(),
          node, "the region must return one value per result, those that are carried last");
  const int64_t steps = graph.operand_type(node, 0).shape[static_cast<size_t>(dim)];
  const int64_t given = node.attrs.get_int("scan_dim_size", steps);
  require(compatible(steps, given), node, "scan_dim_size is {}, and there are {} steps", given,
          steps);
  // What the region sees of an input or gives of an output: one step of it.
  auto check = [&](const Type& whole, const Type& inside, bool carried) {
    Type expected = whole;
    if (!carried) {
      require(whole.is_tensor() && dim < static_cast<int64_t>(whole.rank()) &&
                  compatible(whole.shape[static_cast<size_t>(dim)], steps),
              node, "{} has no dimension {} of {} steps", to_string(whole), dim, steps);
      expected.shape.erase(expected.shape.begin() + dim);
    }
    require(compatible(expected, inside), node, "the region has {} where the op has {}",
            to_string(inside), to_string(whole));
  };
  const std::vector<ValueId>& returned = graph.node(body.nodes.back()).operands;
  const size_t outputs = node.results.size() - carries;
  for (size_t i = 0; i < node.operands.size(); ++i)
    check(graph.operand_type(node, i), graph.type(body.args[i]), i >= inputs);
  for (size_t i = 0; i < node.results.size(); ++i)
    check(graph.result_type(node, i), graph.type(returned[i]), i >= outputs);
  for (size_t i = 0; i < carries; ++i)
    require(compatible(graph.operand_type(node, inputs + i), graph.result_type(node, outputs + i)),
            node, "{} is carried in and {} out", to_string(graph.operand_type(node, inputs + i)),
            to_string(graph.result_type(node, outputs + i)));
}
// What the body does to other dimensions is not known.
OpShardingRule scan_rule(const Graph& graph, const Node& node) {
  RuleBuilder builder(graph, node);
  std::vector<int> no_operands(node.operands.size(), kNoDim),
      no_results(node.results.size(), kNoDim);
  auto add = [&](const std::vector<ValueId>& list, bool operand) {
    for (size_t i = 0; i < list.size(); ++i)
      for (size_t d = 0; d < graph.type(list[i]).rank(); ++d) {
        std::vector<int> in = no_operands, out = no_results;
        (operand ? in : out)[i] = static_cast<int>(d);
        builder.factor(in, out, graph.type(list[i]).shape[d], FactorKind::NeedReplication, true);
      }
  };
  add(node.operands, true);
  add(node.results, false);
  return builder.build();
}
std::vector<Array> eval_scan(EvalContext& context, const Node& node, std::span<const Array> in) {
  const size_t inputs = num_inputs(node), carries = in.size() - inputs;
  const size_t outputs = node.results.size() - carries;
  const int64_t dim = node.attrs.get_int("dimension");
  const int64_t steps = in[0].shape()[dim];
  const bool backwards = node.attrs.get_bool("is_reverse", false);
  std::vector<Array> carry(in.begin() + static_cast<ptrdiff_t>(inputs), in.end());
  std::vector<Array> results;
  for (size_t i = 0; i < outputs; ++i) {
    const Type& type = context.graph().result_type(node, i);
    results.emplace_back(type.dtype, type.shape);
  }
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t at = backwards ? steps - 1 - step : step;
    std::vector<Array> args;
    for (size_t i = 0; i < inputs; ++i) args.push_back(without_dim(part(in[i], dim, at, 1), dim));
    std::move(carry.begin(), carry.end(), std::back_inserter(args));
    std::vector<Array> out = context.consume_region(node.regions[0], std::move(args));
    for (size_t i = 0; i < outputs; ++i) {
      const Array place = part(results[i], dim, at, 1);
      copy_elements(out[i].reshape(place.shape()), place);
    }
    carry.assign(out.begin() + static_cast<ptrdiff_t>(outputs), out.end());
  }
  results.insert(results.end(), carry.begin(), carry.end());
  return results;
}

}  // namespace

void register_structured_chlo_ops(OpRegistry& r) {
  r.add({.name = "chlo.ragged_dot",
         .traits = kPure,
         .infer = infer_ragged_dot,
         .rule = ragged_dot_rule,
         .partial = ragged_dot_partial,
         .cost = ragged_dot_cost,
         .eval = eval_ragged_dot});
  r.add({.name = "chlo.scan",
         .traits = kIsolated,
         .flow = Flow::Scan,
         .infer = infer_declared,
         .verify = verify_scan,
         .rule = scan_rule,
         .eval = eval_scan});
}

}  // namespace cleave
