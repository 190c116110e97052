#include <cstring>

#include "cleave/graph/local_op.h"
#include "cleave/ops/batch_util.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/reduction_body.h"

namespace cleave {
namespace {

// ---- reduce ----

// Inputs folded from the neutral element, and then with the initial values, which differ between
// examples. Where the body is not known to have a neutral element, one example after the other.
std::vector<Batched> reduce_then_init(const BatchContext& c, AttrDict attrs) {
  const Graph& graph = c.b.graph();
  const size_t n = num_reduced(c.node);
  const auto reducers = recognise_reducers(graph, c.node.regions[0]);
  std::vector<ValueId> operands, neutral;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = body_dtype(graph, c.node, i);
    const auto op = reducers ? reduce_op((*reducers)[i], dtype) : std::nullopt;
    if (!op || dtype != operand_type(c, n + i).dtype || !result_type(c, i).has_static_shape())
      return batch_by_loop(c);
    operands.push_back(at_front(c, c.operands[i]));
    AttrDict value;
    Literal literal = identity_literal(*op, Type::tensor(dtype, {}));
    const Type type = literal.type;
    value.set("value", literal_attr(std::move(literal)));
    neutral.push_back(c.b.emit_as(type, "stablehlo.constant", {}, std::move(value)));
  }
  operands.insert(operands.end(), neutral.begin(), neutral.end());
  const std::vector<Batched> folded = emit_self(c, std::move(operands), std::move(attrs));
  const Shape shape = c.b.shape(folded[0].value);
  const int64_t count = num_elements(shape);
  std::vector<ValueId> args;
  for (size_t i = 0; i < n; ++i) {
    const ValueId init = at_front(c, c.operands[n + i]);
    args.push_back(c.b.reshape(c.b.broadcast(init, shape, {0}), {count}));
  }
  for (const Batched& value : folded) args.push_back(c.b.reshape(value.value, {count}));
  std::vector<Batched> results;
  for (ValueId value : c.transform.map_region(c.b, c.node.regions[0], args, count))
    results.push_back({c.b.reshape(value, shape), 0});
  return results;
}

std::vector<Batched> batch_reduce(const BatchContext& c) {
  const size_t n = num_reduced(c.node);
  AttrDict attrs = c.node.attrs;
  attrs.set("dimensions", ints_attr(shifted(attrs.get_ints_or_empty("dimensions"))));
  if (any_batched(c.operands.subspan(n))) return reduce_then_init(c, std::move(attrs));
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 2 * n; ++i)
    operands.push_back(i < n ? at_front(c, c.operands[i]) : c.operands[i].value);
  return emit_self(c, std::move(operands), std::move(attrs));
}

// ---- windows ----

// Windows of size 1 along the examples.
AttrDict window_attrs(const BatchContext& c) {
  AttrDict attrs = c.node.attrs;
  for (const char* name :
       {"window_dimensions", "window_strides", "base_dilations", "window_dilations"})
    if (attrs.has(name)) attrs.set(name, ints_attr(prepended(1, attrs.get_ints(name))));
  if (!attrs.has("padding")) return attrs;
  std::vector<int64_t> padding = attrs.get_ints("padding");
  padding.insert(padding.begin(), {0, 0});
  auto bytes = std::make_shared<std::vector<std::byte>>(padding.size() * sizeof(int64_t));
  std::memcpy(bytes->data(), padding.data(), bytes->size());
  Literal literal;
  literal.type = Type::tensor(DType::I64, {static_cast<int64_t>(padding.size()) / 2, 2});
  literal.bytes = std::move(bytes);
  attrs.set("padding", literal_attr(std::move(literal)));
  return attrs;
}

// Initial values fill the padding, any number of times: where they differ, by example.
std::vector<Batched> batch_reduce_window(const BatchContext& c) {
  const size_t n = num_reduced(c.node);
  if (any_batched(c.operands.subspan(n))) return batch_by_loop(c);
  std::vector<ValueId> operands;
  for (size_t i = 0; i < 2 * n; ++i)
    operands.push_back(i < n ? at_front(c, c.operands[i]) : c.operands[i].value);
  return emit_self(c, std::move(operands), window_attrs(c));
}

std::vector<Batched> batch_select_and_scatter(const BatchContext& c) {
  if (c.operands[2].batched()) return batch_by_loop(c);
  return emit_self(c, {at_front(c, c.operands[0]), at_front(c, c.operands[1]), c.operands[2].value},
                   window_attrs(c));
}

// ---- sort, top_k ----

std::vector<Batched> batch_sort(const BatchContext& c) {
  if (operand_type(c, 0).rank() == 0) return {c.operands.begin(), c.operands.end()};
  AttrDict attrs = c.node.attrs;
  const int64_t dim = attrs.get_int("dimension", -1);
  if (dim >= 0) attrs.set("dimension", int_attr(dim + 1));
  return emit_self(c, all_at_front(c), std::move(attrs));
}

}  // namespace

void add_reduction_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.reduce", batch_reduce);
  add("stablehlo.reduce_window", batch_reduce_window);
  add("stablehlo.select_and_scatter", batch_select_and_scatter);
  add("stablehlo.sort", batch_sort);
  add("chlo.top_k", batch_in_front);
}

}  // namespace cleave
