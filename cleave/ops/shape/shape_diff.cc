#include <algorithm>

#include "cleave/ops/diff_util.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/shape/family.h"

// All of these are linear: forward, tangents take the same way; backward, cotangents go back to
// where their elements came from.
namespace cleave {
namespace {

std::vector<ValueId> vjp_reshape(const DiffContext& c, std::span<const ValueId> ct) {
  return {reshape(expr(c.b, ct[0]), operand_expr(c).shape())};
}

std::vector<ValueId> vjp_transpose(const DiffContext& c, std::span<const ValueId> ct) {
  const std::vector<int64_t> order = c.node.attrs.get_ints("permutation");
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return {transpose(expr(c.b, ct[0]), inverse)};
}

// Sums over the dimensions that broadcasting made, and over those that it stretched.
Expr unbroadcast(Expr g, const Shape& shape, const std::vector<int64_t>& dims) {
  std::vector<int64_t> made;
  for (int64_t d = 0; d < static_cast<int64_t>(g.shape().size()); ++d) {
    const auto it = std::ranges::find(dims, d);
    const bool kept = it != dims.end() && shape[it - dims.begin()] == g.shape()[d];
    if (!kept) made.push_back(d);
  }
  Expr reduced = sum(g, made);
  // What is left stands in the order of the result's dimensions.
  std::vector<int64_t> kept;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!contains_dim(made, dims[i])) kept.push_back(static_cast<int64_t>(i));
  std::vector<int64_t> order(kept.size());
  for (size_t i = 0; i < kept.size(); ++i)
    order[i] =
        std::ranges::count_if(kept, [&](int64_t other) { return dims[other] < dims[kept[i]]; });
  return reshape(transpose(reduced, order), shape);
}
std::vector<ValueId> vjp_broadcast_in_dim(const DiffContext& c, std::span<const ValueId> ct) {
  return {unbroadcast(expr(c.b, ct[0]), operand_expr(c).shape(),
                      c.node.attrs.get_ints("broadcast_dimensions"))};
}
std::vector<ValueId> vjp_broadcast(const DiffContext& c, std::span<const ValueId> ct) {
  return {sum(expr(c.b, ct[0]), all_dims(c.node.attrs.get_ints("broadcast_sizes").size()))};
}
// Sizes come as a second operand; the types are what counts.
std::vector<ValueId> vjp_dynamic_reshape(const DiffContext& c, std::span<const ValueId> ct) {
  return {vjp_reshape(c, ct)[0], ValueId{}};
}
std::vector<ValueId> vjp_dynamic_broadcast(const DiffContext& c, std::span<const ValueId> ct) {
  return {vjp_broadcast_in_dim(c, ct)[0], ValueId{}};
}

std::vector<ValueId> vjp_slice(const DiffContext& c, std::span<const ValueId> ct) {
  const Shape shape = operand_expr(c).shape();
  const std::vector<int64_t> start = c.node.attrs.get_ints("start_indices");
  std::vector<int64_t> stride = c.node.attrs.get_ints("strides");
  const Expr g = expr(c.b, ct[0]);
  const Shape sizes = g.shape();
  std::vector<int64_t> high(shape.size()), interior(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t covered = sizes[d] == 0 ? 0 : (sizes[d] - 1) * stride[d] + 1;
    high[d] = shape[d] - start[d] - covered;
    interior[d] = stride[d] - 1;
  }
  return {pad(g, 0, start, high, interior)};
}

std::vector<ValueId> vjp_reverse(const DiffContext& c, std::span<const ValueId> ct) {
  return {reverse(expr(c.b, ct[0]), c.node.attrs.get_ints("dimensions"))};
}

// The elements go back, and what the padding took is added up: everything minus the elements.
std::vector<ValueId> vjp_pad(const DiffContext& c, std::span<const ValueId> ct) {
  std::vector<int64_t> low = c.node.attrs.get_ints("edge_padding_low");
  std::vector<int64_t> high = c.node.attrs.get_ints("edge_padding_high");
  const std::vector<int64_t> interior = c.node.attrs.get_ints("interior_padding");
  const Expr g = expr(c.b, ct[0]);
  const Shape shape = operand_expr(c).shape();
  std::vector<int64_t> zero(shape.size(), 0), stride(shape.size()), back_low, back_high;
  for (size_t d = 0; d < shape.size(); ++d) {
    back_low.push_back(-low[d]);
    back_high.push_back(-high[d]);
    stride[d] = interior[d] + 1;
  }
  auto elements_of = [&](Expr whole) {
    const Expr cropped = pad(whole, 0, back_low, back_high);
    const Shape sizes = cropped.shape();
    return std::ranges::all_of(stride, [](int64_t s) { return s == 1; })
               ? cropped
               : slice(cropped, zero, sizes, stride);
  };
  const Expr elements = elements_of(g);
  ValueId fill;
  if (c.wants(1)) {
    // A mark on the elements tells them from the padding, whatever was cropped.
    const Expr marks = pad(number_like(1, elements), 0, low, high, interior);
    fill = sum_all(g * (1.0 - marks));
  }
  return {elements, fill};
}

std::vector<ValueId> vjp_concatenate(const DiffContext& c, std::span<const ValueId> ct) {
  const int64_t dim = c.node.attrs.get_int("dimension");
  const Expr g = expr(c.b, ct[0]);
  const Shape whole = g.shape();
  std::vector<int64_t> start(whole.size(), 0), limit = whole;
  std::vector<ValueId> parts;
  int64_t offset = 0;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const int64_t size = operand_expr(c, i).shape()[dim];
    start[dim] = offset;
    limit[dim] = offset + size;
    parts.push_back(c.wants(i) ? slice(g, start, limit).id : ValueId{});
    offset += size;
  }
  return parts;
}

// ---- dynamic_slice, dynamic_update_slice

std::vector<ValueId> jvp_dynamic_slice(const DiffContext& c, std::span<const ValueId> t) {
  if (!t[0].valid()) return {ValueId{}};
  std::vector<ValueId> operands(c.operands.begin(), c.operands.end());
  operands[0] = t[0];
  return reemit(c.b, c.node, std::move(operands));
}
std::vector<ValueId> vjp_dynamic_slice(const DiffContext& c, std::span<const ValueId> ct) {
  std::vector<ValueId> operands{zeros_like(operand_expr(c)), ct[0]};
  operands.insert(operands.end(), c.operands.begin() + 1, c.operands.end());
  std::vector<ValueId> result(c.operands.size());
  result[0] = c.b.emit("stablehlo.dynamic_update_slice", std::move(operands));
  return result;
}
std::vector<ValueId> vjp_dynamic_update_slice(const DiffContext& c, std::span<const ValueId> ct) {
  std::vector<ValueId> result(c.operands.size());
  if (c.wants(0)) {
    std::vector<ValueId> operands(c.operands.begin(), c.operands.end());
    operands[0] = ct[0];
    operands[1] = zeros_like(operand_expr(c, 1));
    result[0] = c.b.emit("stablehlo.dynamic_update_slice", std::move(operands));
  }
  if (c.wants(1)) {
    std::vector<ValueId> operands(c.operands.begin() + 1, c.operands.end());
    operands[0] = ct[0];
    AttrDict attrs;
    attrs.set("slice_sizes", ints_attr(operand_expr(c, 1).shape()));
    result[1] = c.b.emit("stablehlo.dynamic_slice", std::move(operands), std::move(attrs));
  }
  return result;
}

// ---- optimization_barrier: tangents wait for each other as values do

std::vector<ValueId> diff_barrier(const DiffContext& c, std::span<const ValueId> tangents) {
  std::vector<ValueId> valid;
  for (ValueId t : tangents)
    if (t.valid()) valid.push_back(t);
  if (valid.empty()) return {tangents.begin(), tangents.end()};
  const std::vector<ValueId> passed = c.b.emit_all("stablehlo.optimization_barrier", valid);
  std::vector<ValueId> result;
  size_t next = 0;
  for (ValueId t : tangents) result.push_back(t.valid() ? passed[next++] : t);
  return result;
}

}  // namespace

void add_shape_derivatives(OpRegistry& r) {
  set_linear(r, "stablehlo.reshape", vjp_reshape);
  set_linear(r, "stablehlo.transpose", vjp_transpose);
  set_linear(r, "stablehlo.broadcast_in_dim", vjp_broadcast_in_dim);
  set_linear(r, "stablehlo.broadcast", vjp_broadcast);
  set_linear(r, "stablehlo.dynamic_reshape", vjp_dynamic_reshape);
  set_linear(r, "stablehlo.dynamic_broadcast_in_dim", vjp_dynamic_broadcast);
  set_linear(r, "stablehlo.slice", vjp_slice);
  set_linear(r, "stablehlo.reverse", vjp_reverse);
  set_linear(r, "stablehlo.pad", vjp_pad);
  set_linear(r, "stablehlo.concatenate", vjp_concatenate);
  set_linear(r, "stablehlo.dynamic_update_slice", vjp_dynamic_update_slice);
  r.extend("stablehlo.dynamic_slice", [](OpDef& def) {
    def.jvp = jvp_dynamic_slice;
    def.vjp = vjp_dynamic_slice;
  });
  r.extend("stablehlo.optimization_barrier", [](OpDef& def) {
    def.jvp = diff_barrier;
    def.vjp = diff_barrier;
  });
}

}  // namespace cleave
