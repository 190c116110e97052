#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/ops/batch_util.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/shape/family.h"

// Slices at positions that are operands: where these differ between examples, a slice is a gather
// and an update a scatter, with the examples as batching dimensions. Sizes that are operands must
// be the same for all examples.
namespace cleave {
namespace {

std::vector<ValueId> with_zero_start(const BatchContext& c, std::vector<ValueId> operands,
                                     std::span<const Batched> starts) {
  const DType dtype = starts.empty() ? DType::I32 : c.b.dtype(starts[0].value);
  operands.push_back(c.b.constant(0, dtype));
  for (const Batched& start : starts) operands.push_back(start.value);
  return operands;
}

// Start indices as rows: [examples, dimensions].
ValueId index_rows(const BatchContext& c, std::span<const Batched> starts) {
  std::vector<ValueId> columns;
  for (const Batched& start : starts)
    columns.push_back(c.b.reshape(at_front(c, start), {c.size, 1}));
  AttrDict attrs;
  attrs.set("dimension", int_attr(1));
  return c.b.emit("stablehlo.concatenate", std::move(columns), std::move(attrs));
}

std::vector<Batched> batch_dynamic_slice(const BatchContext& c) {
  const Batched& x = c.operands[0];
  const auto starts = c.operands.subspan(1);
  const std::vector<int64_t> sizes = c.node.attrs.get_ints("slice_sizes");
  AttrDict attrs;
  if (!any_batched(starts)) {
    attrs = c.node.attrs;
    attrs.set("slice_sizes", ints_attr(prepended(c.size, sizes)));
    return emit_self(c, with_zero_start(c, {at_front(c, x)}, starts), std::move(attrs));
  }
  const bool own = x.batched();
  const size_t rank = sizes.size();
  const std::vector<int64_t> batching = own ? std::vector<int64_t>{0} : std::vector<int64_t>{};
  attrs.set(
      kGatherDims,
      gather_attr({counting(1, rank), {}, batching, batching, counting(own ? 1 : 0, rank), 1}));
  attrs.set("slice_sizes", ints_attr(own ? prepended(1, sizes) : sizes));
  return {{c.b.emit("stablehlo.gather", {own ? at_front(c, x) : x.value, index_rows(c, starts)},
                    std::move(attrs)),
           0}};
}

// As dynamic_update_slice moves a start so that the update fits.
Batched clamped_start(const BatchContext& c, const Batched& start, int64_t limit) {
  const DType dtype = c.b.dtype(start.value);
  const int bits = bit_width(dtype) - (is_signed_integer(dtype) ? 1 : 0);
  if (bits < 62) limit = std::min(limit, (int64_t{1} << bits) - 1);
  const ValueId low = c.b.constant(0, dtype),
                high = c.b.constant(static_cast<double>(limit), dtype);
  return {c.b.emit("stablehlo.clamp", {low, start.value, high}), start.dim};
}

std::vector<Batched> batch_dynamic_update_slice(const BatchContext& c) {
  const auto starts = c.operands.subspan(2);
  const ValueId x = at_front(c, c.operands[0]), update = at_front(c, c.operands[1]);
  if (!any_batched(starts))
    return emit_self(c, with_zero_start(c, {x, update}, starts), c.node.attrs);
  const Shape& whole = operand_type(c, 0).shape;
  const Shape& part = operand_type(c, 1).shape;
  std::vector<Batched> clamped;
  for (size_t d = 0; d < starts.size(); ++d)
    clamped.push_back(clamped_start(c, starts[d], whole[d] - part[d]));
  AttrDict attrs;
  attrs.set(kScatterDims,
            scatter_attr({counting(1, whole.size()), {}, {0}, {0}, counting(1, whole.size()), 1}));
  attrs.set("indices_are_sorted", true);
  attrs.set("unique_indices", true);
  Graph& graph = c.b.graph();
  const ValueId rows = index_rows(c, clamped);
  const NodeId node =
      graph.add_node("stablehlo.scatter", {x, rows, update}, {graph.type(x)}, std::move(attrs));
  GraphBuilder body(graph, graph.add_region(node));
  const Type scalar = Type::tensor(graph.type(x).dtype, {});
  graph.add_argument(body.region(), scalar);
  body.finish({graph.add_argument(body.region(), scalar)});
  graph.append(c.b.region(), node);
  return {{graph.node(node).results[0], 0}};
}

// ---- sizes as operands ----

void require_common(const BatchContext& c, size_t first) {
  for (size_t i = first; i < c.operands.size(); ++i)
    require(!c.operands[i].batched(), c.node,
            "operand {} holds sizes and differs between examples, whose results would then differ "
            "in shape; make it the same for all of them",
            i);
}

// One more entry in front of a vector of sizes.
ValueId with_entry(const BatchContext& c, ValueId sizes, int64_t first) {
  AttrDict attrs;
  attrs.set("dimension", int_attr(0));
  const ValueId entry = c.b.constant(static_cast<double>(first), c.b.dtype(sizes), {1});
  return c.b.emit("stablehlo.concatenate", {entry, sizes}, std::move(attrs));
}

std::vector<Batched> batch_dynamic_reshape(const BatchContext& c) {
  require_common(c, 1);
  return emit_self(c, {at_front(c, c.operands[0]), with_entry(c, c.operands[1].value, c.size)},
                   c.node.attrs);
}

std::vector<Batched> batch_dynamic_broadcast(const BatchContext& c) {
  require_common(c, 1);
  AttrDict attrs = c.node.attrs;
  attrs.set("broadcast_dimensions",
            ints_attr(prepended(0, shifted(attrs.get_ints("broadcast_dimensions")))));
  for (const char* name : {"known_expanding_dimensions", "known_nonexpanding_dimensions"})
    if (attrs.has(name)) attrs.set(name, ints_attr(shifted(attrs.get_ints(name))));
  return emit_self(c, {at_front(c, c.operands[0]), with_entry(c, c.operands[1].value, c.size)},
                   std::move(attrs));
}

std::vector<Batched> batch_dynamic_pad(const BatchContext& c) {
  require_common(c, 2);
  require(!c.operands[1].batched(), c.node,
          "the padding value differs between examples; use stablehlo.pad, which takes that");
  std::vector<ValueId> operands{at_front(c, c.operands[0]), c.operands[1].value};
  for (size_t i = 2; i < 5; ++i) operands.push_back(with_entry(c, c.operands[i].value, 0));
  return emit_self(c, std::move(operands), c.node.attrs);
}

std::vector<Batched> batch_real_dynamic_slice(const BatchContext& c) {
  require_common(c, 1);
  return emit_self(
      c,
      {at_front(c, c.operands[0]), with_entry(c, c.operands[1].value, 0),
       with_entry(c, c.operands[2].value, c.size), with_entry(c, c.operands[3].value, 1)},
      c.node.attrs);
}

std::vector<Batched> batch_dynamic_iota(const BatchContext& c) {
  require_common(c, 0);
  return {};
}

AttrDict with_shifted_dimension(const BatchContext& c) {
  AttrDict attrs = c.node.attrs;
  attrs.set("dimension", int_attr(attrs.get_int("dimension") + 1));
  return attrs;
}
// The same for all examples, whatever the elements are.
std::vector<Batched> batch_get_dimension_size(const BatchContext& c) {
  const auto results = emit_self(c, all_at_front(c), {result_type(c)}, with_shifted_dimension(c));
  return {{results[0]}};
}
std::vector<Batched> batch_set_dimension_size(const BatchContext& c) {
  require_common(c, 1);
  return emit_self(c, {at_front(c, c.operands[0]), c.operands[1].value}, with_shifted_dimension(c));
}

}  // namespace

void add_dynamic_shape_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.dynamic_slice", batch_dynamic_slice);
  add("stablehlo.dynamic_update_slice", batch_dynamic_update_slice);
  add("stablehlo.dynamic_reshape", batch_dynamic_reshape);
  add("stablehlo.dynamic_broadcast_in_dim", batch_dynamic_broadcast);
  add("stablehlo.dynamic_pad", batch_dynamic_pad);
  add("stablehlo.real_dynamic_slice", batch_real_dynamic_slice);
  add("stablehlo.dynamic_iota", batch_dynamic_iota);
  add("stablehlo.get_dimension_size", batch_get_dimension_size);
  add("stablehlo.set_dimension_size", batch_set_dimension_size);
}

}  // namespace cleave
