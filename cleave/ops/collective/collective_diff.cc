#include <algorithm>
#include <cstring>

#include "cleave/ops/collective/family.h"
#include "cleave/ops/collective/process_groups.h"
#include "cleave/ops/diff_util.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/reducer.h"

// Collectives inside a manual computation. Every device's value is a variable of its own, and the
// derivative is that of the sum over all devices: the transpose of all_reduce(sum) is itself, that
// of all_gather is reduce_scatter, and so on.
namespace cleave {
namespace {

Expr emit_with_sum(Expr x, const char* op, Type result, AttrDict attrs) {
  GraphBuilder& b = *x.b;
  Graph& graph = b.graph();
  const NodeId node = graph.add_node(op, {x.id}, {std::move(result)}, std::move(attrs));
  add_scalar_body(graph, node, "stablehlo.add", x.dtype());
  graph.append(b.region(), node);
  return {&b, graph.node(node).results[0]};
}
Expr all_sum(const DiffContext& c, Expr x) {
  return emit_with_sum(x, "stablehlo.all_reduce", c.b.type(x.id), meeting_attrs(c.node));
}

// ---- all_reduce

ReduceOp reducer_of(const DiffContext& c) {
  const auto op = common_reducer(c.b.graph(), c.node.regions[0], false);
  require(op && (*op == ReduceOp::Sum || *op == ReduceOp::Max || *op == ReduceOp::Min), c.node,
          "has a derivative for sums, maxima and minima alone");
  return *op;
}
// The devices that hold the extremum share it.
Expr shares(const DiffContext& c, size_t i) {
  const Expr x = operand_expr(c, i), y = result_expr(c, i);
  const Expr marks = convert(compare("EQ", x, y), x.dtype());
  return marks / all_sum(c, marks);
}
std::vector<ValueId> jvp_all_reduce(const DiffContext& c, std::span<const ValueId> t) {
  const ReduceOp op = reducer_of(c);
  std::vector<ValueId> results(t.size());
  for (size_t i = 0; i < t.size(); ++i) {
    if (!t[i].valid()) continue;
    const Expr g = expr(c.b, t[i]);
    results[i] = all_sum(c, op == ReduceOp::Sum ? g : g * shares(c, i));
  }
  return results;
}
std::vector<ValueId> vjp_all_reduce(const DiffContext& c, std::span<const ValueId> ct) {
  const ReduceOp op = reducer_of(c);
  std::vector<ValueId> results(ct.size());
  for (size_t i = 0; i < ct.size(); ++i) {
    if (!ct[i].valid()) continue;
    const Expr g = all_sum(c, expr(c.b, ct[i]));
    results[i] = op == ReduceOp::Sum ? g : g * shares(c, i);
  }
  return results;
}
std::vector<ValueId> diff_cross_replica_sum(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid()) return {ValueId{}};
  return reemit(c.b, c.node, {t[0]});
}

// ---- all_gather, reduce_scatter

std::vector<ValueId> jvp_each(const DiffContext& c, std::span<const ValueId> t) {
  return jvp_linear(c, t);
}
std::vector<ValueId> vjp_all_gather(const DiffContext& c, std::span<const ValueId> ct) {
  std::vector<ValueId> results(ct.size());
  for (size_t i = 0; i < ct.size(); ++i) {
    if (!ct[i].valid()) continue;
    AttrDict attrs = meeting_attrs(c.node);
    attrs.set("scatter_dimension", int_attr(c.node.attrs.get_int("all_gather_dim")));
    results[i] = emit_with_sum(expr(c.b, ct[i]), "stablehlo.reduce_scatter", c.b.type(c.operand(i)),
                               std::move(attrs));
  }
  return results;
}
std::vector<ValueId> jvp_reduce_scatter(const DiffContext& c, std::span<const ValueId> t) {
  require(reducer_of(c) == ReduceOp::Sum, c.node, "has a derivative for sums alone");
  return jvp_linear(c, t);
}
std::vector<ValueId> vjp_reduce_scatter(const DiffContext& c, std::span<const ValueId> ct) {
  require(reducer_of(c) == ReduceOp::Sum, c.node, "has a derivative for sums alone");
  AttrDict attrs = meeting_attrs(c.node);
  attrs.set("all_gather_dim", int_attr(c.node.attrs.get_int("scatter_dimension")));
  return {c.b.emit_as(c.b.type(c.operand()), "stablehlo.all_gather", {ct[0]}, std::move(attrs))};
}

// ---- moves

std::vector<ValueId> vjp_all_to_all(const DiffContext& c, std::span<const ValueId> ct) {
  AttrDict attrs = c.node.attrs;
  attrs.set("split_dimension", int_attr(c.node.attrs.get_int("concat_dimension")));
  attrs.set("concat_dimension", int_attr(c.node.attrs.get_int("split_dimension")));
  std::vector<ValueId> results(ct.size());
  for (size_t i = 0; i < ct.size(); ++i)
    if (ct[i].valid()) results[i] = c.b.emit("stablehlo.all_to_all", {ct[i]}, attrs);
  return results;
}

std::vector<ValueId> vjp_permute(const DiffContext& c, std::span<const ValueId> ct) {
  Literal pairs = c.node.attrs.get_literal("source_target_pairs");
  if (!pairs.splat) {
    std::vector<std::byte> bytes = *pairs.bytes;
    const auto size = static_cast<ptrdiff_t>(byte_size(pairs.type.dtype));
    for (auto at = bytes.begin(); at != bytes.end(); at += 2 * size)
      std::swap_ranges(at, at + size, at + size);
    pairs.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }
  AttrDict attrs = c.node.attrs;
  attrs.set("source_target_pairs", literal_attr(std::move(pairs)));
  std::vector<ValueId> results(ct.size());
  for (size_t i = 0; i < ct.size(); ++i)
    if (ct[i].valid()) results[i] = c.b.emit("stablehlo.collective_permute", {ct[i]}, attrs);
  return results;
}

// The root gets the sum of what the others got, and the other way round.
std::vector<ValueId> vjp_broadcast(const DiffContext& c, std::span<const ValueId> ct) {
  require(!c.node.attrs.has("has_dynamic_root"), c.node, "with a dynamic root has no derivative");
  std::vector<ValueId> results(c.operands.size());
  for (size_t i = 0; i < ct.size(); ++i)
    if (ct[i].valid())
      results[i] = emit_with_sum(expr(c.b, ct[i]), "stablehlo.collective_reduce",
                                 c.b.type(c.operand(i)), meeting_attrs(c.node));
  return results;
}
std::vector<ValueId> jvp_collective_reduce(const DiffContext& c, std::span<const ValueId> t) {
  require(reducer_of(c) == ReduceOp::Sum, c.node, "has a derivative for sums alone");
  return jvp_linear(c, t);
}
std::vector<ValueId> vjp_collective_reduce(const DiffContext& c, std::span<const ValueId> ct) {
  require(reducer_of(c) == ReduceOp::Sum, c.node, "has a derivative for sums alone");
  std::vector<ValueId> results(ct.size());
  for (size_t i = 0; i < ct.size(); ++i)
    if (ct[i].valid())
      results[i] = c.b.emit("stablehlo.collective_broadcast", {ct[i]}, meeting_attrs(c.node));
  return results;
}

// ---- Shardy's: the value is the operand's; a constraint holds for derivatives too

std::vector<ValueId> vjp_constraint(const DiffContext& c, std::span<const ValueId> ct) {
  return reemit(c.b, c.node, {ct[0]});
}

}  // namespace

void add_collective_derivatives(OpRegistry& r) {
  auto set = [&](const char* name, JvpFn jvp, VjpFn vjp) {
    r.extend(name, [&](OpDef& def) {
      def.jvp = jvp;
      def.vjp = vjp;
    });
  };
  set("stablehlo.all_reduce", jvp_all_reduce, vjp_all_reduce);
  set("stablehlo.cross-replica-sum", diff_cross_replica_sum, diff_cross_replica_sum);
  set("stablehlo.all_gather", jvp_each, vjp_all_gather);
  set("stablehlo.reduce_scatter", jvp_reduce_scatter, vjp_reduce_scatter);
  set("stablehlo.all_to_all", jvp_each, vjp_all_to_all);
  set("stablehlo.collective_permute", jvp_each, vjp_permute);
  set("stablehlo.collective_broadcast", jvp_each, vjp_broadcast);
  set("stablehlo.collective_reduce", jvp_collective_reduce, vjp_collective_reduce);
  set("sdy.sharding_constraint", jvp_each, vjp_constraint);
  for (const char* name :
       {"sdy.reshard", "sdy.propagation_barrier", "sdy.data_flow_edge", "sdy.func_data_flow_edge",
        "sdy.all_gather", "sdy.all_slice", "sdy.all_to_all", "sdy.collective_permute",
        "sdy.all_reduce", "sdy.reduce_scatter", "sdy.sharded_to_unreduced",
        "sdy.replicated_to_unreduced"})
    set(name, jvp_each, diff_identity);
}

}  // namespace cleave
