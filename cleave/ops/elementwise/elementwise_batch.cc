#include "cleave/ops/batch_util.h"
#include "cleave/ops/elementwise/elementwise_util.h"
#include "cleave/ops/elementwise/family.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

std::vector<Batched> batch_select(const BatchContext& c) { return batch_with_scalars(c, {0}); }
std::vector<Batched> batch_clamp(const BatchContext& c) { return batch_with_scalars(c, {0, 2}); }

std::vector<Batched> batch_map(const BatchContext& c) {
  AttrDict attrs = c.node.attrs;
  attrs.set("dimensions", ints_attr(counting(0, result_type(c).rank() + 1)));
  return emit_self(c, all_at_front(c), std::move(attrs));
}

// ---- chlo.broadcast_*: the op without broadcasts, on operands of the result's shape ----

ValueId broadcast_operand(const BatchContext& c, size_t i) {
  const size_t rank = operand_type(c, i).rank(), out_rank = result_type(c).rank();
  std::vector<int64_t> places = counting(static_cast<int64_t>(out_rank - rank), rank);
  if (rank < out_rank && c.node.attrs.has("broadcast_dimensions"))
    places = c.node.attrs.get_ints("broadcast_dimensions");
  require(result_type(c).has_static_shape(), c.node, "batching needs static shapes, got {}",
          to_string(result_type(c)));
  places = shifted(std::move(places));
  ValueId value = c.operands[i].value;
  if (c.operands[i].batched()) {
    value = at_front(c, c.operands[i]);
    places = prepended(0, std::move(places));
  }
  return c.b.broadcast(value, with_dim(result_type(c), 0, c.size).shape, std::move(places));
}

std::vector<Batched> batch_broadcasting(const BatchContext& c) {
  const std::string base = c.node.name().substr(std::string_view("chlo.broadcast_").size());
  const std::string name = (find_op("stablehlo." + base) ? "stablehlo." : "chlo.") + base;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.operands.size(); ++i) operands.push_back(broadcast_operand(c, i));
  AttrDict attrs = c.node.attrs;
  attrs.erase("broadcast_dimensions");
  attrs.erase("sdy.sharding");
  return {{c.b.emit(name, std::move(operands), std::move(attrs)), 0}};
}

// ---- checks ----

std::vector<Batched> batch_check_const(const BatchContext& c) {
  const Literal& literal = c.node.attrs.get_literal("value");
  AttrDict constant;
  constant.set("value", literal_attr(literal));
  const ValueId expected = c.b.emit_as(literal.type, "stablehlo.constant", {}, constant);
  AttrDict attrs = c.node.attrs;
  attrs.erase("value");
  std::string name = c.node.name();
  name.resize(name.size() - std::string_view("_const").size());
  c.b.graph().append(c.b.region(), c.b.graph().add_node(
                                       name, {at_front(c, c.operands[0]), at_front(c, {expected})},
                                       {}, std::move(attrs)));
  return {};
}

}  // namespace

void add_elementwise_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.select", batch_select);
  add("stablehlo.clamp", batch_clamp);
  add("stablehlo.map", batch_map);
  add("stablehlo.bitcast_convert", batch_in_front);
  add("chlo.constant_like", batch_elementwise);
  for (const char* base : kBroadcastingOps)
    add((std::string(kBroadcastPrefix) + base).c_str(), batch_broadcasting);
  for (const char* name : {"check.expect_eq", "check.expect_almost_eq", "check.expect_close"})
    add(name, batch_in_front);
  for (const char* name : {"check.expect_eq_const", "check.expect_almost_eq_const"})
    add(name, batch_check_const);
  add("interpreter.print", batch_in_front);
  add("interpreter.probe", batch_identity);
}

}  // namespace cleave
