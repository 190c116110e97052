#include <algorithm>
#include <set>

#include "cleave/machine/profile.h"
#include "cleave/ops/collective/collective_check.h"
#include "cleave/ops/collective/family.h"
#include "cleave/ops/collective/process_groups.h"
#include "cleave/ops/collective/transport.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/ops/region_check.h"
#include "cleave/ops/rule_util.h"

// StableHLO's collectives: every device runs the op, and the devices of its group meet.
namespace cleave {
namespace {

Array token() { return Array(DType::Bool, {0}); }

std::vector<int64_t> group_of(EvalContext& context, const Node& node, GroupMode mode) {
  const auto group = device_group(node, mode, context.grid(), context.device());
  require(group.has_value(), node, "device {} is in none of the replica_groups", context.device());
  return *group;
}

PartReducer reducer_of(EvalContext& context, const Node& node) {
  const RegionId body = node.regions[0];
  if (const auto op = common_reducer(context.graph(), body, false)) return {*op, {}};
  return {ReduceOp::Sum, [&context, body](const Array& a, const Array& b) {
            return context.map_region(body, std::vector<Array>{a, b})[0];
          }};
}

void verify_reducer(const Graph& graph, const Node& node) {
  require(!node.operands.empty() && node.operands.size() == node.results.size(), node,
          "has {} operands and {} results", node.operands.size(), node.results.size());
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const DType dtype = tensor_operand(graph, node, i).dtype;
    require_scalar_region(graph, node, 0, "computation", {dtype, dtype}, {dtype});
  }
}

// The body may fold quantized numbers as wider ones.
std::vector<Type> infer_all_reduce(const Graph& graph, const Node& node) {
  std::vector<Type> types = infer_identity(graph, node);
  for (Type& type : types)
    if (type.dtype == DType::Other && !node.results.empty()) type.text.clear();
  return types;
}
void verify_all_reduce(const Graph& graph, const Node& node) {
  verify_groups(node, {.filled = false});
  verify_reducer(graph, node);
}

// Bytes that leave and reach the device; the time of the way is the machine profile's business.
OpCost move_cost(const Graph& graph, const Node& node) {
  OpCost cost;
  for (ValueId operand : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(operand).byte_count());
  for (ValueId result : node.results)
    cost.bytes_written += static_cast<double>(graph.type(result).byte_count());
  return cost;
}

// Pointwise but for some dimensions, which are separate in operands and results and must be whole.
OpShardingRule rule_with_whole_dims(const Graph& graph, const Node& node,
                                    std::initializer_list<int64_t> whole) {
  RuleBuilder builder(graph, node);
  const Shape& in = graph.operand_type(node, 0).shape;
  const Shape& out = graph.result_type(node).shape;
  const std::set<int64_t> separate(whole);
  for (int d = 0; d < static_cast<int>(in.size()); ++d)
    if (!separate.contains(d)) builder.same_dim(d, in[d]);
  const size_t n = node.operands.size(), m = node.results.size();
  std::set<int64_t> done;
  for (int64_t d : whole) {
    if (!done.insert(d).second) continue;
    const int dim = static_cast<int>(d);
    builder.factor(std::vector<int>(n, dim), std::vector<int>(m, kNoDim), in[d],
                   FactorKind::NeedReplication);
    builder.factor(std::vector<int>(n, kNoDim), std::vector<int>(m, dim), out[d],
                   FactorKind::NeedReplication);
  }
  return builder.build();
}

// Every result as declared: like its operand, but for `dims`.
std::vector<Type> infer_but(const Graph& graph, const Node& node, std::set<int64_t> dims) {
  std::vector<Type> types;
  require(node.operands.size() == node.results.size() && !node.operands.empty(), node,
          "has {} operands and {} results", node.operands.size(), node.results.size());
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const Type& operand = tensor_operand(graph, node, i);
    const Type& result = declared_result(graph, node, i);
    bool fits = operand.dtype == result.dtype && operand.rank() == result.rank();
    for (int64_t d : dims)
      require(d >= 0 && d < static_cast<int64_t>(operand.rank()), node,
              "dimension {} is outside of {}", d, to_string(operand));
    for (size_t d = 0; fits && d < operand.rank(); ++d)
      fits =
          dims.contains(static_cast<int64_t>(d)) || compatible(operand.shape[d], result.shape[d]);
    require(fits, node, "gives {} from {}", to_string(result), to_string(operand));
    types.push_back(result);
  }
  return types;
}

// Dimension `dim` of the whole is a multiple of that of a part.
void require_multiple(const Node& node, const Type& whole, const Type& part, size_t dim) {
  const int64_t size = part.shape[dim], all = whole.shape[dim];
  require(size != 0, node, "dimension {} of {} is empty", dim, to_string(part));
  if (is_dynamic(size) || is_dynamic(all)) return;
  require(all % size == 0, node, "dimension {} of {} is no multiple of that of {}", dim,
          to_string(whole), to_string(part));
}

// ---- all_gather ----

std::vector<Type> infer_all_gather(const Graph& graph, const Node& node) {
  return infer_but(graph, node, {node.attrs.get_int("all_gather_dim")});
}
void verify_all_gather(const Graph& graph, const Node& node) {
  verify_groups(node, {.least_channel = 0});
  const auto dim = static_cast<size_t>(node.attrs.get_int("all_gather_dim"));
  for (size_t i = 0; i < node.operands.size(); ++i)
    require_multiple(node, graph.result_type(node, i), graph.operand_type(node, i), dim);
}
OpShardingRule all_gather_rule(const Graph& graph, const Node& node) {
  return rule_with_whole_dims(graph, node, {node.attrs.get_int("all_gather_dim")});
}
std::vector<Array> eval_all_gather(EvalContext& context, const Node& node,
                                   std::span<const Array> args) {
  const std::vector<int64_t> group = group_of(context, node, global_mode(node));
  const Meeting meeting{context.device(), group, node.name()};
  std::vector<Array> results;
  for (const Array& arg : args)
    results.push_back(
        context.transport().all_gather(meeting, arg, node.attrs.get_int("all_gather_dim")));
  return results;
}

// ---- all_reduce, cross-replica-sum, collective_reduce ----

std::vector<Array> eval_all_reduce(EvalContext& context, const Node& node,
                                   std::span<const Array> args) {
  const std::vector<int64_t> group = group_of(context, node, global_mode(node));
  const PartReducer reducer = reducer_of(context, node);
  std::vector<Array> results;
  for (const Array& arg : args)
    results.push_back(
        context.transport().all_reduce({context.device(), group, node.name()}, arg, reducer));
  return results;
}

std::vector<Array> eval_cross_replica_sum(EvalContext& context, const Node& node,
                                          std::span<const Array> args) {
  const std::vector<int64_t> group = group_of(context, node, GroupMode::CrossReplica);
  return {context.transport().all_reduce({context.device(), group, node.name()}, args[0], {})};
}

// The first of the group gets the reduction, the others zeros.
std::vector<Array> eval_collective_reduce(EvalContext& context, const Node& node,
                                          std::span<const Array> args) {
  const auto group = device_group(node, channel_mode(node), context.grid(), context.device());
  std::vector<Array> results;
  for (const Array& arg : args) {
    Array reduced;
    if (group)
      reduced = context.transport().all_reduce({context.device(), *group, node.name()}, arg,
                                               reducer_of(context, node));
    const bool root = group && group->front() == context.device();
    results.push_back(root ? reduced : Array::zeros(arg.dtype(), arg.shape()));
  }
  return results;
}

// ---- reduce_scatter ----

std::vector<Type> infer_reduce_scatter(const Graph& graph, const Node& node) {
  return infer_but(graph, node, {node.attrs.get_int("scatter_dimension")});
}
void verify_reduce_scatter(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  verify_groups(node, {});
  verify_reducer(graph, node);
  const auto dim = static_cast<size_t>(node.attrs.get_int("scatter_dimension"));
  const Type &whole = graph.operand_type(node, 0), &part = graph.result_type(node);
  require(whole.shape[dim] != 0, node, "dimension {} of {} is empty", dim, to_string(whole));
  require_multiple(node, whole, part, dim);
}
OpShardingRule reduce_scatter_rule(const Graph& graph, const Node& node) {
  return rule_with_whole_dims(graph, node, {node.attrs.get_int("scatter_dimension")});
}
std::vector<Array> eval_reduce_scatter(EvalContext& context, const Node& node,
                                       std::span<const Array> args) {
  const std::vector<int64_t> group = group_of(context, node, global_mode(node));
  const int64_t dim = node.attrs.get_int("scatter_dimension");
  const int64_t size = args[0].shape()[dim];
  const auto count = static_cast<int64_t>(group.size());
  require(size % count == 0, node, "{} elements cannot be dealt evenly to {} devices", size, count);
  const std::vector<int64_t> sizes(group.size(), size / count);
  return {context.transport().reduce_scatter({context.device(), group, node.name()}, args[0], dim,
                                             sizes, reducer_of(context, node))};
}

// ---- all_to_all ----

std::vector<Type> infer_all_to_all(const Graph& graph, const Node& node) {
  require(!node.operands.empty(), node, "has no operand");
  const int64_t split = node.attrs.get_int("split_dimension");
  const int64_t concat = node.attrs.get_int("concat_dimension");
  const int64_t count = node.attrs.get_int("split_count");
  std::vector<Type> types;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    Type type = tensor_operand(graph, node, i);
    const auto rank = static_cast<int64_t>(type.rank());
    require(split >= 0 && split < rank && concat >= 0 && concat < rank, node,
            "dimensions {} and {} are not both in {}", split, concat, to_string(type));
    require(count > 0 && (is_dynamic(type.shape[split]) || type.shape[split] % count == 0), node,
            "dimension {} of {} cannot be split in {}", split, to_string(type), count);
    if (!is_dynamic(type.shape[split])) type.shape[split] /= count;
    int64_t& joined = type.shape[concat];
    require(is_dynamic(joined) || !__builtin_mul_overflow(joined, count, &joined), node,
            "split_count {} is out of range", count);
    types.push_back(std::move(type));
  }
  return types;
}
void verify_all_to_all(const Graph&, const Node& node) {
  verify_groups(node, {.size = node.attrs.get_int("split_count")});
}
OpShardingRule all_to_all_rule(const Graph& graph, const Node& node) {
  return rule_with_whole_dims(
      graph, node, {node.attrs.get_int("split_dimension"), node.attrs.get_int("concat_dimension")});
}
std::vector<Array> eval_all_to_all(EvalContext& context, const Node& node,
                                   std::span<const Array> args) {
  const std::vector<int64_t> group = group_of(context, node, channel_mode(node));
  const int64_t split = node.attrs.get_int("split_dimension");
  std::vector<Array> results;
  for (const Array& arg : args) {
    require(static_cast<int64_t>(group.size()) == node.attrs.get_int("split_count"), node,
            "the group has {} devices, and split_count is {}", group.size(),
            node.attrs.get_int("split_count"));
    const std::vector<int64_t> sizes(group.size(),
                                     arg.shape()[split] / static_cast<int64_t>(group.size()));
    results.push_back(context.transport().all_to_all({context.device(), group, node.name()}, arg,
                                                     split, node.attrs.get_int("concat_dimension"),
                                                     sizes));
  }
  return results;
}

// ---- collective_permute, collective_broadcast ----

void verify_permute(const Graph&, const Node& node) { verify_pairs(node); }

std::vector<Array> eval_permute(EvalContext& context, const Node& node,
                                std::span<const Array> args) {
  const auto pairs = device_pairs(node, channel_mode(node), context.grid(), context.device());
  std::set<int64_t> members;
  for (const auto& [source, target] : pairs) members.insert({source, target});
  const std::vector<int64_t> group(members.begin(), members.end());
  std::vector<Array> results;
  for (const Array& arg : args) {
    Array moved;
    if (members.contains(context.device()))
      moved = context.transport().permute({context.device(), group, node.name()}, arg, pairs);
    results.push_back(moved.valid() ? moved : Array::zeros(arg.dtype(), arg.shape()));
  }
  return results;
}

// With `has_dynamic_root`, the last operand holds one place in the group for each of the others:
// the root that it comes from. Otherwise the root is the first of the group.
bool has_dynamic_root(const Node& node) {
  const Attribute* attribute = node.attrs.find("has_dynamic_root");
  return attribute && (attribute->as<UnitAttr>() || node.attrs.get_bool("has_dynamic_root", false));
}

std::vector<Type> infer_broadcast(const Graph& graph, const Node& node) {
  require_operands(node, has_dynamic_root(node) ? 2 : 1, SIZE_MAX);
  std::vector<Type> types;
  for (size_t i = 0; i + has_dynamic_root(node) < node.operands.size(); ++i)
    types.push_back(tensor_operand(graph, node, i));
  if (has_dynamic_root(node)) {
    const Type& roots = tensor_operand(graph, node, node.operands.size() - 1);
    require(roots.dtype == DType::I32 && roots.rank() == 1 &&
                compatible(roots.shape[0], static_cast<int64_t>(types.size())),
            node, "the roots are {}, and not a tensor<{}xi32>", to_string(roots), types.size());
  }
  return types;
}

void verify_broadcast(const Graph&, const Node& node) { verify_groups(node, {.every_id = false}); }

OpShardingRule broadcast_rule(const Graph& graph, const Node& node) {
  if (!has_dynamic_root(node)) return pointwise_rule(graph, node);
  RuleBuilder builder(graph, node);
  const Shape& shape = graph.operand_type(node, 0).shape;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    std::vector<int> operands(node.operands.size(), d);
    operands.back() = kNoDim;
    builder.factor(operands, std::vector<int>(node.results.size(), d), shape[d]);
  }
  return builder.build();
}

std::vector<Array> eval_broadcast(EvalContext& context, const Node& node,
                                  std::span<const Array> args) {
  const auto group = device_group(node, channel_mode(node), context.grid(), context.device());
  Array roots;
  if (has_dynamic_root(node)) {
    roots = args.back().contiguous();
    args = args.first(args.size() - 1);
  }
  std::vector<Array> results;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!group) {
      results.push_back(Array::zeros(args[i].dtype(), args[i].shape()));
      continue;
    }
    const int64_t place = roots.valid() ? roots.data<int32_t>()[i] : 0;
    require(place >= 0 && place < static_cast<int64_t>(group->size()), node,
            "the root {} is outside of a group of {}", place, group->size());
    results.push_back(context.transport().broadcast({context.device(), *group, node.name()},
                                                    args[i], (*group)[static_cast<size_t>(place)]));
  }
  return results;
}

// ---- places ----

std::vector<Type> infer_id(const Graph&, const Node& node) {
  require_operands(node, 0);
  return {Type::tensor(DType::U32, {})};
}
std::vector<Array> eval_replica_id(EvalContext& context, const Node&, std::span<const Array>) {
  const int64_t replica = context.device() / context.grid().partitions;
  return {Array::scalar(DType::U32, static_cast<uint32_t>(replica))};
}
std::vector<Array> eval_partition_id(EvalContext& context, const Node&, std::span<const Array>) {
  const int64_t partition = context.device() % context.grid().partitions;
  return {Array::scalar(DType::U32, static_cast<uint32_t>(partition))};
}

// ---- tokens and the host ----

std::vector<Type> infer_token(const Graph&, const Node&) { return {Type::token()}; }
std::vector<Array> eval_token(EvalContext&, const Node&, std::span<const Array>) {
  return {token()};
}

std::vector<Array> eval_infeed(EvalContext& context, const Node&, std::span<const Array>) {
  std::vector<Array> results = context.infeed();
  results.push_back(token());
  return results;
}
void verify_infeed(const Graph& graph, const Node& node) {
  verify_tensors_and_token(graph, node);
  verify_infeed_layout(node);
}
void verify_send(const Graph& graph, const Node& node) {
  verify_last_operand_is_token(graph, node);
  verify_channel_type(node, 2);
}
void verify_recv(const Graph& graph, const Node& node) {
  verify_tensors_and_token(graph, node);
  verify_channel_type(node, 3);
}
std::vector<Array> eval_outfeed(EvalContext& context, const Node&, std::span<const Array> args) {
  context.outfeed(args.first(args.size() - 1));
  return {token()};
}
std::vector<Array> eval_send(EvalContext& context, const Node& node, std::span<const Array> args) {
  context.transport().send(context.device(), channel_of(node), {args.begin(), args.end() - 1});
  return {token()};
}
std::vector<Array> eval_recv(EvalContext& context, const Node& node, std::span<const Array>) {
  std::vector<Array> results =
      context.transport().receive(context.device(), channel_of(node), node.name());
  results.push_back(token());
  return results;
}

// The id of a device, and what it sends to another one or to the host.
void register_messages(OpRegistry& registry) {
  registry.add({.name = "stablehlo.replica_id", .infer = infer_id, .eval = eval_replica_id});
  registry.add({.name = "stablehlo.partition_id", .infer = infer_id, .eval = eval_partition_id});
  registry.add({.name = "stablehlo.after_all", .infer = infer_token, .eval = eval_token});
  registry.add({.name = "stablehlo.create_token", .infer = infer_token, .eval = eval_token});
  registry.add({.name = "stablehlo.infeed",
                .infer = infer_declared,
                .verify = verify_infeed,
                .eval = eval_infeed});
  registry.add({.name = "stablehlo.outfeed",
                .infer = infer_token,
                .verify = verify_last_operand_is_token,
                .eval = eval_outfeed});
  registry.add({.name = "stablehlo.send",
                .traits = kCollective,
                .infer = infer_token,
                .verify = verify_send,
                .eval = eval_send});
  registry.add({.name = "stablehlo.recv",
                .traits = kCollective,
                .infer = infer_declared,
                .verify = verify_recv,
                .eval = eval_recv});
}

}  // namespace

void register_collective_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.all_gather",
                .traits = kCollective,
                .infer = infer_all_gather,
                .verify = verify_all_gather,
                .rule = all_gather_rule,
                .cost = move_cost,
                .eval = eval_all_gather,
                .collective = CollectiveKind::AllGather});
  registry.add({.name = "stablehlo.all_reduce",
                .traits = kCollective,
                .infer = infer_all_reduce,
                .verify = verify_all_reduce,
                .rule = pointwise_rule,
                .cost = move_cost,
                .eval = eval_all_reduce,
                .collective = CollectiveKind::AllReduce});
  registry.add({.name = "stablehlo.collective_reduce",
                .traits = kCollective,
                .infer = infer_all_reduce,
                .verify = verify_all_reduce,
                .rule = pointwise_rule,
                .cost = move_cost,
                .eval = eval_collective_reduce});
  registry.add({.name = "stablehlo.cross-replica-sum",
                .traits = kCollective,
                .infer = infer_identity,
                .rule = pointwise_rule,
                .partial = linear_partial,
                .cost = move_cost,
                .eval = eval_cross_replica_sum,
                .collective = CollectiveKind::AllReduce});
  registry.add({.name = "stablehlo.reduce_scatter",
                .traits = kCollective,
                .infer = infer_reduce_scatter,
                .verify = verify_reduce_scatter,
                .rule = reduce_scatter_rule,
                .cost = move_cost,
                .eval = eval_reduce_scatter,
                .collective = CollectiveKind::ReduceScatter});
  registry.add({.name = "stablehlo.all_to_all",
                .traits = kCollective,
                .infer = infer_all_to_all,
                .verify = verify_all_to_all,
                .rule = all_to_all_rule,
                .cost = move_cost,
                .eval = eval_all_to_all,
                .collective = CollectiveKind::AllToAll});
  registry.add({.name = "stablehlo.collective_permute",
                .traits = kCollective,
                .infer = infer_identity,
                .verify = verify_permute,
                .rule = pointwise_rule,
                .cost = move_cost,
                .eval = eval_permute,
                .collective = CollectiveKind::Permute});
  registry.add({.name = "stablehlo.collective_broadcast",
                .traits = kCollective,
                .infer = infer_broadcast,
                .verify = verify_broadcast,
                .rule = broadcast_rule,
                .cost = move_cost,
                .eval = eval_broadcast,
                .collective = CollectiveKind::Permute});
  register_messages(registry);
}

}  // namespace cleave
