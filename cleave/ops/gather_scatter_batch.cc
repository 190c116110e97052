#include "cleave/ops/batch_rules.h"
#include "cleave/ops/batch_util.h"
#include "cleave/ops/infer_util.h"

// Where indices differ between examples, the examples are a batching dimension of the indices, and
// of the operand where that differs as well. Where only the operand differs, they are one more
// dimension of the window.
namespace cleave {
namespace {

const StructAttr& numbers_of(const BatchContext& c, const char* name) {
  const Attribute* attribute = c.node.attrs.find(name);
  const auto* numbers = attribute ? attribute->as<StructAttr>() : nullptr;
  require(numbers != nullptr, c.node, "the attribute '{}' is missing", name);
  return *numbers;
}

// ---- gather ----

std::vector<Batched> batch_gather(const BatchContext& c) {
  const bool dynamic = c.operands.size() == 3;
  require(!dynamic || !c.operands[2].batched(), c.node,
          "slice sizes differ between examples, whose results would then differ in shape");
  const Batched &x = c.operands[0], &indices = c.operands[1];
  const bool window = x.batched() && !indices.batched(), both = x.batched() && indices.batched();
  const StructAttr& numbers = numbers_of(c, "dimension_numbers");
  auto dims = [&](const char* name) { return numbers.get_ints_or_empty(name); };
  auto of_operand = [&](const char* name) {
    return x.batched() ? shifted(dims(name)) : dims(name);
  };
  auto of_indices = [&](const char* name) {
    return indices.batched() ? shifted(dims(name)) : dims(name);
  };
  std::vector<int64_t> offset = shifted(dims("offset_dims"));
  if (window) offset = prepended(0, std::move(offset));
  std::vector<int64_t> operand_batch = of_operand("operand_batching_dims");
  std::vector<int64_t> indices_batch = of_indices("start_indices_batching_dims");
  if (both) {
    operand_batch = prepended(0, std::move(operand_batch));
    indices_batch = prepended(0, std::move(indices_batch));
  }
  AttrDict attrs = c.node.attrs;
  attrs.set("dimension_numbers",
            dims_attr("stablehlo.gather",
                      {{"offset_dims", std::move(offset)},
                       {"collapsed_slice_dims", of_operand("collapsed_slice_dims")},
                       {"operand_batching_dims", std::move(operand_batch)},
                       {"start_indices_batching_dims", std::move(indices_batch)},
                       {"start_index_map", of_operand("start_index_map")}},
                      numbers.get_int("index_vector_dim", 0) + indices.batched()));
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
  const StructAttr& numbers = numbers_of(c, "scatter_dimension_numbers");
  auto dims = [&](const char* name) { return shifted(numbers.get_ints_or_empty(name)); };
  std::vector<int64_t> window = dims("update_window_dims");
  std::vector<int64_t> input_batch = dims("input_batching_dims");
  std::vector<int64_t> indices_batch = numbers.get_ints_or_empty("scatter_indices_batching_dims");
  if (indices.batched()) {
    input_batch = prepended(0, std::move(input_batch));
    indices_batch = prepended(0, shifted(std::move(indices_batch)));
  } else {
    window = prepended(0, std::move(window));
  }
  AttrDict attrs = c.node.attrs;
  attrs.set("scatter_dimension_numbers",
            dims_attr("stablehlo.scatter",
                      {{"update_window_dims", std::move(window)},
                       {"inserted_window_dims", dims("inserted_window_dims")},
                       {"input_batching_dims", std::move(input_batch)},
                       {"scatter_indices_batching_dims", std::move(indices_batch)},
                       {"scatter_dims_to_operand_dims", dims("scatter_dims_to_operand_dims")}},
                      numbers.get_int("index_vector_dim", 0) + indices.batched()));
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
