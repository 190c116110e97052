#include "cleave/ops/batch_util.h"
#include "cleave/ops/indexing/family.h"
#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/infer_util.h"

// Where indices differ between examples, the examples are a batching dimension of the indices, and
// of the operand where that differs as well. Where only the operand differs, they are one more
// dimension of the window.
namespace cleave {
namespace {

// ---- gather ----

std::vector<Batched> batch_gather(const BatchContext& c) {
  const bool dynamic = c.operands.size() == 3;
  require(!dynamic || !c.operands[2].batched(), c.node,
          "slice sizes differ between examples, whose results would then differ in shape");
  const Batched &x = c.operands[0], &indices = c.operands[1];
  const bool window = x.batched() && !indices.batched(), both = x.batched() && indices.batched();
  WindowMap map = gather_map(c.node);
  map.window_dims = shifted(std::move(map.window_dims));
  if (window) map.window_dims = prepended(0, std::move(map.window_dims));
  if (x.batched())
    for (auto* dims : {&map.collapsed_dims, &map.operand_batching_dims, &map.index_map})
      *dims = shifted(std::move(*dims));
  if (indices.batched()) {
    map.indices_batching_dims = shifted(std::move(map.indices_batching_dims));
    ++map.index_vector_dim;
  }
  if (both) {
    map.operand_batching_dims = prepended(0, std::move(map.operand_batching_dims));
    map.indices_batching_dims = prepended(0, std::move(map.indices_batching_dims));
  }
  AttrDict attrs = c.node.attrs;
  attrs.set(kGatherDims, gather_attr(map));
  std::vector<ValueId> operands{x.batched() ? at_front(c, x) : x.value,
                                indices.batched() ? at_front(c, indices) : indices.value};
  const int64_t size = window ? c.size : 1;
  if (dynamic) {
    operands.push_back(c.operands[2].value);
    if (x.batched()) {
      AttrDict join;
      join.set("dimension", int_attr(0));
      const ValueId first = c.b.constant(static_cast<double>(size), c.b.dtype(operands[2]), {1});
      operands[2] = c.b.emit("stablehlo.concatenate", {first, operands[2]}, std::move(join));
    }
  } else if (x.batched()) {
    attrs.set("slice_sizes", ints_attr(prepended(size, c.node.attrs.get_ints("slice_sizes"))));
  }
  return emit_self(c, std::move(operands), std::move(attrs));
}

// ---- scatter ----

std::vector<Batched> batch_scatter(const BatchContext& c) {
  const size_t n = c.operands.size() / 2;
  const Batched& indices = c.operands[n];
  WindowMap map = scatter_map(c.node);
  for (auto* dims :
       {&map.window_dims, &map.collapsed_dims, &map.operand_batching_dims, &map.index_map})
    *dims = shifted(std::move(*dims));
  if (indices.batched()) {
    map.operand_batching_dims = prepended(0, std::move(map.operand_batching_dims));
    map.indices_batching_dims = prepended(0, shifted(std::move(map.indices_batching_dims)));
    ++map.index_vector_dim;
  } else {
    map.window_dims = prepended(0, std::move(map.window_dims));
  }
  AttrDict attrs = c.node.attrs;
  attrs.set(kScatterDims, scatter_attr(map));
  std::vector<ValueId> operands = [&] {
    std::vector<ValueId> values;
    for (size_t i = 0; i < c.operands.size(); ++i)
      values.push_back(i == n && !indices.batched() ? indices.value : at_front(c, c.operands[i]));
    return values;
  }();
  return emit_self(c, std::move(operands), std::move(attrs));
}

// ---- torch_index_select: result[b..., p..., i..., q...] ----

std::vector<Batched> batch_index_select(const BatchContext& c) {
  const Batched &x = c.operands[0], &index = c.operands[1];
  const int64_t dim = c.node.attrs.get_int("dim"), batch = c.node.attrs.get_int("batch_dims");
  AttrDict attrs = c.node.attrs;
  if (!x.batched()) return emit_self(c, {x.value, batched_at(c, index, batch)}, attrs, dim);
  attrs.set("dim", int_attr(dim + 1));
  if (!index.batched()) return emit_self(c, {batched_at(c, x, batch), index.value}, attrs, batch);
  attrs.set("batch_dims", int_attr(batch + 1));
  return emit_self(c, all_at_front(c), std::move(attrs));
}

}  // namespace

void add_gather_scatter_batch_rules(OpRegistry& r) {
  auto add = [&](const char* name, BatchFn rule) {
    r.extend(name, [&](OpDef& def) { def.batch = rule; });
  };
  add("stablehlo.gather", batch_gather);
  add("stablehlo.dynamic_gather", batch_gather);
  add("stablehlo.scatter", batch_scatter);
  add("stablehlo.torch_index_select", batch_index_select);
}

}  // namespace cleave
