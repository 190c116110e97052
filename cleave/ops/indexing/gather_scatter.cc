#include "cleave/kernels/gather_scatter.h"

#include <algorithm>
#include <numeric>

#include "cleave/core/kernel_classes.h"
#include "cleave/kernels/shape.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/indexing/family.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/ops/region_check.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/shape/dynamic_shape_check.h"

namespace cleave {
namespace {

bool contains(const std::vector<int64_t>& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// What gather and scatter ask of their dimension numbers alike.
void check_map(const Node& node, const WindowMap& map, const Type& operand, const Type& indices,
               size_t slices_rank) {
  const auto indices_rank = static_cast<int64_t>(indices.rank());
  require_distinct_dims(node, "window dimensions", map.window_dims, slices_rank);
  require(std::is_sorted(map.window_dims.begin(), map.window_dims.end()), node,
          "the window dimensions {} are not in order", ints_text(map.window_dims));
  for (const auto* dims : {&map.collapsed_dims, &map.operand_batching_dims})
    require(std::is_sorted(dims->begin(), dims->end()), node,
            "the collapsed or batching dimensions {} are not in order", ints_text(*dims));
  std::vector<int64_t> absent = map.collapsed_dims;
  absent.insert(absent.end(), map.operand_batching_dims.begin(), map.operand_batching_dims.end());
  require_distinct_dims(node, "collapsed and batching dimensions", absent, operand.rank());
  require(map.window_dims.size() + absent.size() == operand.rank(), node,
          "{} window, {} collapsed and {} batching dimensions do not make up the rank of {}",
          map.window_dims.size(), map.collapsed_dims.size(), map.operand_batching_dims.size(),
          to_string(operand));
  require(map.index_vector_dim >= 0 && map.index_vector_dim <= indices_rank, node,
          "index_vector_dim {} is outside of the indices {}", map.index_vector_dim,
          to_string(indices));
  const int64_t components =
      map.index_vector_dim < indices_rank ? indices.shape[map.index_vector_dim] : 1;
  require(compatible(components, static_cast<int64_t>(map.index_map.size())), node,
          "indices {} have {} components, and {} dimensions are indexed", to_string(indices),
          components, map.index_map.size());
  require_distinct_dims(node, "indexed dimensions", map.index_map, operand.rank());
  for (int64_t d : map.operand_batching_dims)
    require(!contains(map.index_map, d), node, "dimension {} is a batching dimension and indexed",
            d);
  require(!contains(map.indices_batching_dims, map.index_vector_dim), node,
          "dimension {} of the indices is a batching dimension and the index vector",
          map.index_vector_dim);
  require(map.operand_batching_dims.size() == map.indices_batching_dims.size(), node,
          "{} batching dimensions of the operand, {} of the indices",
          map.operand_batching_dims.size(), map.indices_batching_dims.size());
  require_distinct_dims(node, "batching dimensions of the indices", map.indices_batching_dims,
                        indices.rank());
  for (size_t i = 0; i < map.operand_batching_dims.size(); ++i) {
    const int64_t a = operand.shape[map.operand_batching_dims[i]];
    const int64_t b = indices.shape[map.indices_batching_dims[i]];
    require(compatible(a, b), node, "batching dimensions of sizes {} and {} differ", a, b);
  }
  require(is_integer(indices.dtype), node, "the indices {} are no integers", to_string(indices));
}

// Sizes of the indices without the index vector.
Shape batch_sizes(const WindowMap& map, const Type& indices) {
  Shape sizes = indices.shape;
  if (map.index_vector_dim < 0) return sizes;  // check_map refuses it
  if (map.index_vector_dim < static_cast<int64_t>(sizes.size()))
    sizes.erase(sizes.begin() + map.index_vector_dim);
  return sizes;
}

// ---- rules ----

// The factors of gather and scatter, in the order of the dimensions of slices. `add` gets a
// dimension of the operand, of the indices and of the slices, or kNoDim.
template <typename Add>
void add_window_factors(const WindowMap& map, const Shape& operand, const Shape& indices,
                        const Shape& slices, bool is_scatter, std::optional<ReduceOp> reducer,
                        Add add) {
  const std::vector<int64_t> window_dims = map.window_operand_dims(operand.size());
  size_t window = 0;
  int64_t batch = 0;
  for (int s = 0; s < static_cast<int>(slices.size()); ++s) {
    if (contains(map.window_dims, s)) {
      const int d = static_cast<int>(window_dims[window++]);
      if (operand[d] == slices[s]) {
        add(d, kNoDim, s, operand[d], FactorKind::PassThrough, false);
      } else if (is_scatter) {
        add(d, kNoDim, kNoDim, operand[d], FactorKind::NeedReplication, false);
        add(kNoDim, kNoDim, s, slices[s], FactorKind::NeedReplication, false);
      } else if (slices[s] == 1) {
        // A window of one element: each shard gives its own or zero.
        add(d, kNoDim, kNoDim, operand[d], FactorKind::Reduction, false);
        add(kNoDim, kNoDim, s, slices[s], FactorKind::NeedReplication, false);
      } else {
        add(d, kNoDim, s, operand[d], FactorKind::NeedReplication, true);
      }
      continue;
    }
    const int i = static_cast<int>(batch < map.index_vector_dim ? batch : batch + 1);
    ++batch;
    const auto it =
        std::find(map.indices_batching_dims.begin(), map.indices_batching_dims.end(), i);
    if (it != map.indices_batching_dims.end()) {
      const auto d = map.operand_batching_dims[it - map.indices_batching_dims.begin()];
      add(static_cast<int>(d), i, s, slices[s], FactorKind::PassThrough, false);
    } else if (is_scatter) {
      add(kNoDim, i, s, slices[s], reducer ? FactorKind::Reduction : FactorKind::NeedReplication,
          false);
    } else {
      add(kNoDim, i, s, slices[s], FactorKind::PassThrough, false);
    }
  }
  for (int64_t d : map.collapsed_dims) {
    FactorKind kind = FactorKind::PassThrough;
    if (!is_scatter) kind = operand[d] == 1 ? FactorKind::NeedReplication : FactorKind::Reduction;
    add(static_cast<int>(d), kNoDim, kNoDim, operand[d], kind, false);
  }
  if (map.index_vector_dim < static_cast<int64_t>(indices.size()))
    add(kNoDim, static_cast<int>(map.index_vector_dim), kNoDim, indices[map.index_vector_dim],
        FactorKind::NeedReplication, false);
}

OpShardingRule gather_rule(const Graph& graph, const Node& node) {
  RuleBuilder builder(graph, node);
  std::vector<int> rest(node.operands.size() - 2, kNoDim);  // slice sizes of a dynamic_gather
  add_window_factors(gather_map(node), graph.operand_type(node, 0).shape,
                     graph.operand_type(node, 1).shape, graph.result_type(node).shape, false,
                     std::nullopt,
                     [&](int d, int i, int s, int64_t size, FactorKind kind, bool blocked) {
                       std::vector<int> operands{d, i};
                       operands.insert(operands.end(), rest.begin(), rest.end());
                       builder.factor(operands, {s}, size, kind, blocked);
                     });
  return builder.build();
}

OpShardingRule scatter_rule(const Graph& graph, const Node& node) {
  RuleBuilder builder(graph, node);
  const size_t n = node.results.size();
  const std::optional<ReduceOp> reducer = common_reducer(graph, node.regions[0]);
  add_window_factors(scatter_map(node), graph.operand_type(node, 0).shape,
                     graph.operand_type(node, n).shape, graph.operand_type(node, n + 1).shape, true,
                     reducer,
                     [&](int d, int i, int s, int64_t size, FactorKind kind, bool blocked) {
                       std::vector<int> operands(n, d);
                       operands.push_back(i);
                       operands.insert(operands.end(), n, s);
                       builder.factor(operands, std::vector<int>(n, d), size, kind, blocked,
                                      reducer.value_or(ReduceOp::Sum));
                     });
  return builder.build();
}

// Throws unless windows of these sizes fit into the operand.
void require_windows(const Node& node, const WindowMap& map, const Type& operand,
                     const Shape& window) {
  require(window.size() == operand.rank(), node, "{} slice sizes for the operand {}", window.size(),
          to_string(operand));
  for (size_t d = 0; d < window.size(); ++d) {
    const int64_t size = operand.shape[d];
    require(window[d] >= 0 && (is_dynamic(size) || window[d] <= size), node,
            "slice size {} does not fit in dimension {} of {}", window[d], d, to_string(operand));
    if (contains(map.collapsed_dims, d) || contains(map.operand_batching_dims, d))
      require(window[d] == 1, node,
              "dimension {} is collapsed or batching, its slice size is {} and must be 1", d,
              window[d]);
  }
}

// ---- gather ----

std::vector<Type> infer_gather(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& indices = tensor_operand(graph, node, 1);
  const WindowMap map = gather_map(node);
  const Shape window = node.attrs.get_ints("slice_sizes");
  const Shape batch = batch_sizes(map, indices);
  const size_t rank = batch.size() + map.window_dims.size();
  check_map(node, map, operand, indices, rank);
  require_windows(node, map, operand, window);
  Type result = Type::tensor(operand.dtype, Shape(rank));
  const std::vector<int64_t> dims = map.window_operand_dims(operand.rank());
  size_t next_window = 0, next_batch = 0;
  for (size_t d = 0; d < rank; ++d)
    result.shape[d] =
        contains(map.window_dims, d) ? window[dims[next_window++]] : batch[next_batch++];
  return {result};
}

std::vector<Array> eval_gather(EvalContext&, const Node& node, std::span<const Array> args) {
  const WindowMap map = gather_map(node);
  const Shape window = node.attrs.get_ints("slice_sizes");
  const Shape batch = batch_sizes(map, Type::tensor(args[1].dtype(), args[1].shape()));
  Shape shape(batch.size() + map.window_dims.size());
  const std::vector<int64_t> dims = map.window_operand_dims(args[0].rank());
  size_t next_window = 0, next_batch = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    shape[d] = contains(map.window_dims, d) ? window[dims[next_window++]] : batch[next_batch++];
  return {gather_windows(args[0], args[1], map, window, shape)};
}

OpCost gather_cost(const Graph& graph, const Node& node) {
  const auto moved = static_cast<double>(graph.result_type(node).byte_count());
  const auto indices = static_cast<double>(graph.operand_type(node, 1).byte_count());
  return {0, moved + indices, moved, kIndexingClass};
}

// ---- dynamic_gather ----

std::vector<Type> infer_dynamic_gather(const Graph& graph, const Node& node) {
  require_operands(node, 3);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& indices = tensor_operand(graph, node, 1);
  const WindowMap map = gather_map(node);
  const Shape batch = batch_sizes(map, indices);
  Type result =
      Type::tensor(operand.dtype, Shape(batch.size() + map.window_dims.size(), kDynamicSize));
  check_map(node, map, operand, indices, result.rank());
  const Type& sizes = tensor_operand(graph, node, 2);
  require(sizes.rank() == 1 && (is_integer(sizes.dtype) || sizes.dtype == DType::Index) &&
              compatible(sizes.shape[0], static_cast<int64_t>(operand.rank())),
          node, "the slice sizes must be {} integers, got {}", operand.rank(), to_string(sizes));
  if (const auto window = constant_operand(graph, node, 2))
    require_windows(node, map, operand, *window);
  size_t next = 0;
  for (size_t d = 0; d < result.rank(); ++d)
    if (!contains(map.window_dims, d)) result.shape[d] = batch[next++];
  const Type& declared = declared_result(graph, node);
  require(compatible(declared, result), node, "the result is {}, and {} is declared",
          to_string(result), to_string(declared));
  return {declared};
}

std::vector<Array> eval_dynamic_gather(EvalContext& context, const Node& node,
                                       std::span<const Array> args) {
  Node fixed;
  fixed.def = node.def;
  fixed.attrs = node.attrs;
  Shape window = integers_of(args[2]);
  require_windows(node, gather_map(node), Type::tensor(args[0].dtype(), args[0].shape()), window);
  fixed.attrs.set("slice_sizes", ints_attr(std::move(window)));
  return eval_gather(context, fixed, args.first(2));
}

// ---- scatter ----

std::vector<Type> infer_scatter(const Graph& graph, const Node& node) {
  require(node.operands.size() >= 3 && node.operands.size() % 2 == 1, node,
          "takes n inputs, the indices and n updates, not {} operands", node.operands.size());
  const size_t n = node.operands.size() / 2;
  const Type& input = tensor_operand(graph, node, 0);
  const Type& indices = tensor_operand(graph, node, n);
  const Type& updates = tensor_operand(graph, node, n + 1);
  const WindowMap map = scatter_map(node);
  check_map(node, map, input, indices, updates.rank());
  std::vector<Type> results;
  for (size_t i = 0; i < n; ++i) {
    require(compatible(tensor_operand(graph, node, i).shape, input.shape), node,
            "the inputs {} and {} differ in shape", to_string(input),
            to_string(graph.operand_type(node, i)));
    require(compatible(tensor_operand(graph, node, n + 1 + i).shape, updates.shape), node,
            "the updates {} and {} differ in shape", to_string(updates),
            to_string(graph.operand_type(node, n + 1 + i)));
    results.push_back(graph.operand_type(node, i));
    // The body may fold quantized numbers as wider ones.
    if (input.dtype == DType::Other && !node.results.empty()) results.back().text.clear();
  }
  const Shape batch = batch_sizes(map, indices);
  const std::vector<int64_t> dims = map.window_operand_dims(input.rank());
  require(batch.size() + map.window_dims.size() == updates.rank(), node,
          "{} batch and {} window dimensions do not make up the rank of the updates {}",
          batch.size(), map.window_dims.size(), to_string(updates));
  size_t next_window = 0, next_batch = 0;
  for (size_t d = 0; d < updates.rank(); ++d) {
    const int64_t size = updates.shape[d];
    if (contains(map.window_dims, d)) {
      const int64_t limit = input.shape[dims[next_window++]];
      require(is_dynamic(size) || is_dynamic(limit) || size <= limit, node,
              "dimension {} of the updates {} does not fit in the input {}", d, to_string(updates),
              to_string(input));
    } else {
      require(compatible(size, batch[next_batch++]), node,
              "dimension {} of the updates {} does not match the indices {}", d, to_string(updates),
              to_string(indices));
    }
  }
  return results;
}

void verify_scatter(const Graph& graph, const Node& node) {
  const size_t n = node.operands.size() / 2;
  std::vector<DType> args, results;
  for (size_t i = 0; i < n; ++i) results.push_back(graph.operand_type(node, i).dtype);
  args = results;
  for (size_t i = 0; i < n; ++i) args.push_back(graph.operand_type(node, n + 1 + i).dtype);
  require_scalar_region(graph, node, 0, "update computation", args, results);
}

// Window by window: no element of the inputs appears twice in one.
void scatter_by_region(EvalContext& context, const Node& node, const WindowMap& map,
                       std::vector<Array>& inputs, const Array& indices,
                       std::span<const Array> updates) {
  const std::vector<int64_t> dims = map.window_operand_dims(inputs[0].rank());
  for_each_window(
      inputs[0].shape(), indices, updates[0].shape(), map, [&](const WindowPlace& place) {
        Shape window;
        for (int64_t d : dims) window.push_back(place.operand_size[d]);
        std::vector<Array> args, targets;
        for (const Array& input : inputs)
          targets.push_back(input.slice(place.operand_start, place.operand_size));
        for (const Array& target : targets) args.push_back(target.copy().reshape(window));
        for (const Array& update : updates)
          args.push_back(
              update.slice(place.slices_start, place.slices_size).copy().reshape(window));
        const std::vector<Array> results = context.map_region(node.regions[0], args);
        for (size_t i = 0; i < targets.size(); ++i)
          copy_elements(results[i].reshape(targets[i].shape()), targets[i]);
      });
}

std::vector<Array> eval_scatter(EvalContext& context, const Node& node,
                                std::span<const Array> args) {
  const size_t n = args.size() / 2;
  const WindowMap map = scatter_map(node);
  std::vector<Array> inputs;
  for (const Array& input : args.first(n)) inputs.push_back(input.copy());
  const Array& indices = args[n];
  const std::span<const Array> updates = args.subspan(n + 1);
  const Graph& graph = context.graph();
  const bool overwrite = returns_second_half(graph, node.regions[0]);
  const std::optional<ReduceOp> op =
      overwrite ? std::nullopt : common_reducer(graph, node.regions[0], false);
  bool done = overwrite || op;
  for (size_t i = 0; i < n; ++i) done &= inputs[i].dtype() == updates[i].dtype();
  for (size_t i = 0; done && i < n; ++i)
    done = scatter_windows(inputs[i], indices, updates[i], map, op);
  if (!done) scatter_by_region(context, node, map, inputs, indices, updates);
  return inputs;
}

// Inputs and updates together under the reduction of the body; a body that overwrites passes any.
// Max, min, and, or may also be pending on one side alone: applying a complete operand twice
// changes nothing. Updates of a sum may be pending alone: one device counts the inputs.
PartialTransfer scatter_partial(const Graph& graph, const Node& node) {
  const size_t n = node.operands.size() / 2;
  auto marked = [&](bool inputs, bool updates) {
    std::vector<bool> marks(n, inputs);
    marks.push_back(false);
    marks.insert(marks.end(), n, updates);
    return marks;
  };
  PartialTransfer rows;
  if (returns_second_half(graph, node.regions[0])) {
    for (ReduceOp op : kAllReduceOps) rows.push_back({op, marked(true, true), op});
    return rows;
  }
  const std::optional<ReduceOp> op = common_reducer(graph, node.regions[0]);
  if (!op) return rows;
  rows.push_back({*op, marked(true, true), *op});
  if (*op != ReduceOp::Sum && *op != ReduceOp::Prod) {
    rows.push_back({*op, marked(true, false), *op});
    rows.push_back({*op, marked(false, true), *op});
  } else if (*op == ReduceOp::Sum) {
    rows.push_back({*op, marked(false, true), *op});
  }
  return rows;
}

OpCost scatter_cost(const Graph& graph, const Node& node) {
  const size_t n = node.operands.size() / 2;
  OpCost cost{.kernel = kIndexingClass};
  for (size_t i = 0; i < node.operands.size(); ++i)
    cost.bytes_read += static_cast<double>(graph.operand_type(node, i).byte_count());
  for (size_t i = 0; i < n; ++i) {
    cost.bytes_written += static_cast<double>(graph.result_type(node, i).byte_count());
    const Type& updates = graph.operand_type(node, n + 1 + i);
    if (updates.has_static_shape()) cost.flops += static_cast<double>(num_elements(updates.shape));
  }
  return cost;
}

// ---- torch_index_select ----

// result[b..., p..., i..., q...] = operand[b..., p..., index[b..., i...], q...]
WindowMap index_select_map(const Node& node, size_t operand_rank, size_t index_rank) {
  const int64_t dim = node.attrs.get_int("dim"), batch = node.attrs.get_int("batch_dims");
  WindowMap map;
  map.collapsed_dims = {dim};
  map.index_map = {dim};
  map.index_vector_dim = static_cast<int64_t>(index_rank);
  for (int64_t d = 0; d < batch; ++d) {
    map.operand_batching_dims.push_back(d);
    map.indices_batching_dims.push_back(d);
  }
  const auto width = static_cast<int64_t>(index_rank) - batch;
  for (int64_t d = batch; d < static_cast<int64_t>(operand_rank); ++d)
    if (d != dim) map.window_dims.push_back(d < dim ? d : d - 1 + width);
  return map;
}

std::vector<Type> infer_index_select(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  const Type& operand = tensor_operand(graph, node, 0);
  const Type& index = tensor_operand(graph, node, 1);
  const int64_t dim = node.attrs.get_int("dim"), batch = node.attrs.get_int("batch_dims");
  require(batch >= 0 && batch <= dim && dim < static_cast<int64_t>(operand.rank()) &&
              batch <= static_cast<int64_t>(index.rank()),
          node, "dim {} and batch_dims {} do not fit the operands {}", dim, batch,
          operand_types_text(graph, node));
  require(is_integer(index.dtype), node, "the index {} has no integers", to_string(index));
  Shape shape(operand.shape.begin(), operand.shape.begin() + dim);
  shape.insert(shape.end(), index.shape.begin() + batch, index.shape.end());
  shape.insert(shape.end(), operand.shape.begin() + dim + 1, operand.shape.end());
  return {Type::tensor(operand.dtype, shape)};
}

std::vector<Array> eval_index_select(EvalContext&, const Node& node, std::span<const Array> args) {
  const WindowMap map = index_select_map(node, args[0].rank(), args[1].rank());
  const Shape &operand = args[0].shape(), &index = args[1].shape();
  const int64_t dim = node.attrs.get_int("dim"), batch = node.attrs.get_int("batch_dims");
  Shape window = operand;
  window[dim] = 1;
  for (int64_t d : map.operand_batching_dims) window[d] = 1;
  // The sizes at hand: those of the type may be dynamic.
  Shape shape(operand.begin(), operand.begin() + dim);
  shape.insert(shape.end(), index.begin() + batch, index.end());
  shape.insert(shape.end(), operand.begin() + dim + 1, operand.end());
  return {gather_windows(args[0], args[1], map, window, shape)};
}

OpShardingRule index_select_rule(const Graph& graph, const Node& node) {
  RuleBuilder builder(graph, node);
  const Shape& operand = graph.operand_type(node, 0).shape;
  const Shape& index = graph.operand_type(node, 1).shape;
  add_window_factors(index_select_map(node, operand.size(), index.size()), operand, index,
                     graph.result_type(node).shape, false, std::nullopt,
                     [&](int d, int i, int s, int64_t size, FactorKind kind, bool blocked) {
                       builder.factor({d, i}, {s}, size, kind, blocked);
                     });
  return builder.build();
}

}  // namespace

void register_gather_scatter_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.gather",
                .traits = kPure,
                .infer = infer_gather,
                .rule = gather_rule,
                .partial = view_partial_of_first,
                .cost = gather_cost,
                .eval = eval_gather,
                .workspace = strided_operands_workspace});
  registry.add({.name = "stablehlo.dynamic_gather",
                .traits = kPure,
                .infer = infer_dynamic_gather,
                .rule = gather_rule,
                .partial = view_partial_of_first,
                .cost = gather_cost,
                .eval = eval_dynamic_gather});
  registry.add({.name = "stablehlo.scatter",
                .traits = kPure,
                .infer = infer_scatter,
                .verify = verify_scatter,
                .rule = scatter_rule,
                .partial = scatter_partial,
                .cost = scatter_cost,
                .eval = eval_scatter,
                .workspace = strided_operands_workspace});
  registry.add({.name = "stablehlo.torch_index_select",
                .traits = kPure,
                .infer = infer_index_select,
                .rule = index_select_rule,
                .partial = view_partial_of_first,
                .cost = gather_cost,
                .eval = eval_index_select});
}

}  // namespace cleave
