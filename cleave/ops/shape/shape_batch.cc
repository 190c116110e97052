#include "cleave/ops/batch_util.h"
#include "cleave/ops/shape/family.h"

namespace cleave {
namespace {

std::vector<Batched> batch_transpose(const BatchContext& c) {
  const Batched& x = c.operands[0];
  std::vector<int64_t> order = c.node.attrs.get_ints("permutation");
  for (int64_t& d : order) d += d >= x.dim;
  AttrDict attrs = c.node.attrs;
  attrs.set("permutation", ints_attr(prepended(x.dim, std::move(order))));
  return emit_self(c, {x.value}, std::move(attrs));
}

std::vector<Batched> batch_broadcast_in_dim(const BatchContext& c) {
  AttrDict attrs = c.node.attrs;
  attrs.set("broadcast_dimensions",
            ints_attr(prepended(0, shifted(c.node.attrs.get_ints("broadcast_dimensions")))));
  return emit_self(c, all_at_front(c), std::move(attrs));
}

// New dimensions come before those of the operand.
std::vector<Batched> batch_broadcast(const BatchContext& c) {
  const auto before = static_cast<int64_t>(c.node.attrs.get_ints("broadcast_sizes").size());
  const Batched& x = c.operands[0];
  return emit_self(c, {x.value}, c.node.attrs, before + x.dim);
}

// Lists with one entry per dimension, as they are along the batch dimension.
struct Entry {
  const char* name;
  int64_t value;
};
AttrDict with_entries(const BatchContext& c, int64_t dim, std::initializer_list<Entry> entries) {
  AttrDict attrs = c.node.attrs;
  for (const Entry& entry : entries) {
    std::vector<int64_t> list = attrs.get_ints(entry.name);
    list.insert(list.begin() + dim, entry.value);
    attrs.set(entry.name, ints_attr(std::move(list)));
  }
  return attrs;
}

std::vector<Batched> batch_slice(const BatchContext& c) {
  const Batched& x = c.operands[0];
  return emit_self(
      c, {x.value},
      with_entries(c, x.dim, {{"start_indices", 0}, {"limit_indices", c.size}, {"strides", 1}}),
      x.dim);
}

std::vector<Batched> batch_reverse(const BatchContext& c) {
  const Batched& x = c.operands[0];
  std::vector<int64_t> dims = c.node.attrs.get_ints("dimensions");
  for (int64_t& d : dims) d += d >= x.dim;
  AttrDict attrs = c.node.attrs;
  attrs.set("dimensions", ints_attr(std::move(dims)));
  return emit_self(c, {x.value}, std::move(attrs), x.dim);
}

// Where every example has a padding value of its own, it is chosen where a padded mask says so.
std::vector<Batched> batch_pad(const BatchContext& c) {
  const Batched &x = c.operands[0], &value = c.operands[1];
  const int64_t dim = x.batched() ? x.dim : 0;
  const AttrDict attrs = with_entries(
      c, dim, {{"edge_padding_low", 0}, {"edge_padding_high", 0}, {"interior_padding", 0}});
  if (!value.batched()) return emit_self(c, {x.value, value.value}, attrs, dim);
  GraphBuilder& b = c.b;
  const Type type = operand_type(c, 0);
  const ValueId fill = b.constant(0, type.dtype);
  const ValueId padded = emit_self(c, {batched_at(c, x, dim), fill}, attrs, dim)[0].value;
  AttrDict mask_attrs = c.node.attrs;
  mask_attrs.erase("sdy.sharding");
  const ValueId mask =
      b.emit("stablehlo.pad", {b.constant(1, DType::Bool, type.shape), b.constant(0, DType::Bool)},
             std::move(mask_attrs));
  const ValueId values = b.broadcast(value.value, b.shape(padded), {dim});
  return {{b.emit("stablehlo.select", {batched_at(c, {mask}, dim), padded, values}), dim}};
}

std::vector<Batched> batch_concatenate(const BatchContext& c) {
  AttrDict attrs = c.node.attrs;
  attrs.set("dimension", int_attr(c.node.attrs.get_int("dimension") + 1));
  return emit_self(c, all_at_front(c), std::move(attrs));
}

}  // namespace

void add_shape_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.reshape", batch_in_front);
  add("stablehlo.transpose", batch_transpose);
  add("stablehlo.broadcast_in_dim", batch_broadcast_in_dim);
  add("stablehlo.broadcast", batch_broadcast);
  add("stablehlo.slice", batch_slice);
  add("stablehlo.reverse", batch_reverse);
  add("stablehlo.pad", batch_pad);
  add("stablehlo.concatenate", batch_concatenate);
  add("stablehlo.optimization_barrier", batch_identity);
}

}  // namespace cleave
