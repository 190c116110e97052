#include "cleave/ops/sort/local_rounds.h"

#include <algorithm>

#include "cleave/ops/reduce/local_windows.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/reduce/window_attr.h"
#include "cleave/ops/sort/family.h"

namespace cleave {
namespace {

// Whether a reduction's body gives, for each value, one of the two that it gets. Such a one may see
// an element, or its initial value, any number of times: argmax, maximum with a payload.
bool selects(const Graph& graph, RegionId region) {
  const std::vector<ValueId>& args = graph.region(region).args;
  const size_t n = args.size() / 2;
  const Node& end = graph.node(graph.terminator(region));
  for (size_t i = 0; i < end.operands.size(); ++i) {
    const NodeId maker = graph.value(end.operands[i]).producer;
    if (!maker.valid()) return false;
    const Node& node = graph.node(maker);
    const bool chooses = node.name() == "stablehlo.select";
    if (!chooses && node.name() != "stablehlo.maximum" && node.name() != "stablehlo.minimum")
      return false;
    const ValueId a = node.operands[chooses ? 1 : 0], b = node.operands[chooses ? 2 : 1];
    if (!(a == args[i] && b == args[n + i]) && !(b == args[i] && a == args[n + i])) return false;
  }
  return !end.operands.empty();
}

// {...} as {1, ...}
ValueId in_front(LocalOp& op, ValueId value) {
  Type type = op.type(value);
  type.shape.insert(type.shape.begin(), 1);
  return op.emit("stablehlo.reshape", {value}, std::move(type));
}

AttrDict without_parts(LocalOp& op) {
  AttrDict attrs = op.attrs();
  attrs.erase("cleave.parts");
  for (ShardSlice& box : op.result_boxes) {
    box.offset.erase(box.offset.begin());
    box.size.erase(box.size.begin());
  }
  return attrs;
}

// The largest of this device's part. Where it has fewer than k, the last ones are less than
// anything that others have, and come after them: they are never taken.
std::vector<ValueId> local_top_k(LocalOp& op) {
  if (!op.attrs().has("cleave.parts")) return op.emit_self(op.attrs());
  AttrDict attrs = without_parts(op);
  const ShardSlice& box = op.operand_boxes[0];
  const int64_t k = attrs.get_int("k"), held = std::min(k, box.size.back());
  const Type values = op.result_type(0), indices = op.result_type(1);
  const Type scalar = Type::tensor(values.dtype, {}), index = Type::tensor(indices.dtype, {});
  const ReduceOp lowest = is_float(values.dtype) ? ReduceOp::And : ReduceOp::Max;  // all bits: -NaN
  if (held == 0)
    return {in_front(op, op.identity(lowest, values)), in_front(op, op.splat(indices, 0))};
  attrs.set("k", int_attr(held));
  for (ShardSlice& result : op.result_boxes) result.size.back() = held;
  std::vector<ValueId> found = op.emit_self(std::move(attrs));
  if (box.offset.back() != 0 || op.alike)
    found[1] =
        op.emit("stablehlo.add",
                {found[1], op.splat(op.type(found[1]), static_cast<double>(box.offset.back()))},
                op.type(found[1]));
  if (held < k) {
    AttrDict pad;
    std::vector<int64_t> none(values.rank(), 0), high = none;
    high.back() = k - held;
    pad.set("edge_padding_low", ints_attr(none));
    pad.set("edge_padding_high", ints_attr(high));
    pad.set("interior_padding", ints_attr(none));
    found[0] = op.emit("stablehlo.pad", {found[0], op.identity(lowest, scalar)}, values, pad);
    found[1] = op.emit("stablehlo.pad", {found[1], op.splat(index, 0)}, indices, std::move(pad));
  }
  return {in_front(op, found[0]), in_front(op, found[1])};
}

std::vector<Type> infer_first(const Graph& graph, const Node& node) {
  return {graph.operand_type(node, 0)};
}

std::vector<ValueId> local_running_join(LocalOp& op) {
  const int64_t dim = op.attrs().get_int("dimension");
  const bool reverse = op.attrs().get_int("reverse") != 0;
  const ShardSlice& box = op.result_boxes[0];
  Shape size = op.operand_boxes[1].size, start(size.size());
  const int64_t devices = size[0], whole = op.result_shape()[static_cast<size_t>(dim)];
  const int64_t self = box.offset[static_cast<size_t>(dim)] / ((whole + devices - 1) / devices);
  start[0] = reverse ? self + 1 : self - 1;
  const bool is_alone = start[0] < 0 || start[0] >= devices;
  if (is_alone && !op.alike) return {op.operands[0]};
  if (is_alone) start[0] = self;  // any row: it is not taken
  size[0] = 1;
  const ValueId before = op.slice(op.operands[1], start, size);
  Type row = op.type(before);
  row.shape.erase(row.shape.begin());
  std::vector<int64_t> dims;
  for (int64_t d = 0; d <= static_cast<int64_t>(row.shape.size()); ++d)
    if (d != dim) dims.push_back(d);
  AttrDict spread;
  spread.set("broadcast_dimensions", ints_attr(dims));
  const ValueId rows =
      op.emit("stablehlo.broadcast_in_dim", {op.emit("stablehlo.reshape", {before}, row)},
              op.result_type(), std::move(spread));
  const std::string name(op.attrs().get_string("op"));
  const ValueId joined = reverse ? op.emit(name, {op.operands[0], rows}, op.result_type())
                                 : op.emit(name, {rows, op.operands[0]}, op.result_type());
  if (!op.alike) return {joined};
  const ValueId alone = op.splat(Type::tensor(DType::Bool, {}), is_alone ? 1 : 0);
  return {op.emit("stablehlo.select", {alone, op.operands[0], joined}, op.result_type())};
}

}  // namespace

std::optional<RunningForm> running_form(const Graph& graph, const Node& node) {
  if (node.name() != "stablehlo.reduce_window" || node.operands.size() != 2) return std::nullopt;
  const Type& type = graph.operand_type(node, 0);
  const Window window = window_of(node, type.rank());
  std::optional<RunningForm> form;
  for (size_t d = 0; d < type.rank(); ++d) {
    const Window::Dim& along = window.dims[d];
    if (is_trivial(along)) continue;
    const int64_t others = type.shape[d] - 1;
    const bool reverse = along.low == 0;
    const Window::Dim running{
        .size = type.shape[d], .low = reverse ? 0 : others, .high = reverse ? others : 0};
    if (form || !(along == running)) return std::nullopt;
    form = {static_cast<int64_t>(d), reverse, {}};
  }
  const auto reducers = recognise_reducers(graph, node.regions[0]);
  // Sums of 16-bit floats are kept in 32 bits, and rounded once.
  if (!form || !reducers || (is_float(type.dtype) && byte_size(type.dtype) == 2) ||
      graph.result_type(node) != type || body_dtype(graph, node, 0) != type.dtype ||
      !is_identity_constant(graph, node.operands[1], (*reducers)[0]))
    return std::nullopt;
  const Node& end = graph.node(graph.terminator(node.regions[0]));
  form->op = graph.node(graph.value(end.operands[0]).producer).name();
  return form;
}

std::vector<ValueId> local_running_round(LocalOp& op) {
  const RunningForm form = *running_form(op.whole(), op.node());
  const auto d = static_cast<size_t>(form.dim);
  const int64_t size = op.operand_boxes[0].size[d];
  std::vector<int64_t> window(op.operand_shape(0).size(), 1), padding(2 * window.size(), 0);
  window[d] = size;
  padding[2 * d + form.reverse] = size - 1;
  AttrDict attrs = op.attrs();
  attrs.erase("cleave.parts");
  attrs.set("window_dimensions", ints_attr(window));
  attrs.set("padding", padding_attr(padding));
  return op.emit_self(std::move(attrs));
}

std::vector<ValueId> local_reduce_round(LocalOp& op) {
  AttrDict attrs = without_parts(op);
  std::vector<ValueId> results = op.emit_self(std::move(attrs));
  for (ValueId& result : results) result = in_front(op, result);
  return results;
}

std::optional<RoundsForm> rounds_form(const Graph& graph, const Node& node, int64_t parts) {
  if (node.name() == "chlo.top_k") {
    const Type& row = graph.operand_type(node, 0);
    const int64_t n = row.shape.back(), k = graph.result_type(node).shape.back();
    const int64_t value = byte_size(row.dtype), index = byte_size(graph.result_type(node, 1).dtype);
    if (k == 0 || parts * k * (value + index) >= n * value) return std::nullopt;
    return RoundsForm{1, static_cast<int64_t>(row.rank()) - 1};
  }
  if (node.name() == "stablehlo.reduce") {
    const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
    if (dims.empty() || common_reduce_op(graph, node.regions[0]) ||
        !selects(graph, node.regions[0]))
      return std::nullopt;
    const int64_t first = *std::min_element(dims.begin(), dims.end());
    if (parts >= graph.operand_type(node, 0).shape[first]) return std::nullopt;
    return RoundsForm{node.operands.size() / 2, first};
  }
  return std::nullopt;
}

void add_local_round_forms(OpRegistry& registry) {
  registry.extend("chlo.top_k", [](OpDef& def) { def.localize = local_top_k; });
  registry.add({.name = "cleave.running_join",
                .traits = kPure,
                .infer = infer_first,
                .localize = local_running_join});
}

}  // namespace cleave
