#include <algorithm>

#include "cleave/ops/indexing/window_map.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/ops/sort/local_rounds.h"

namespace cleave {
namespace {

// Replaces operands in [first, first + count) by the identity of the op's reducer on devices that
// must not count them.
void drop_uncounted(LocalOp& op, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    if (op.alike ? op.counted_by_all[i] : op.counts[i]) continue;
    const auto reducer = common_reducer(op.whole(), op.node().regions[0], false);
    if (!reducer || *reducer == ReduceOp::Avg) continue;
    const Type type = op.type(op.operands[i]);
    if (op.alike) {
      const ValueId own = op.splat(Type::tensor(DType::Bool, {}), op.counts[i] ? 1 : 0);
      op.operands[i] =
          op.emit("stablehlo.select", {own, op.operands[i], op.identity(*reducer, type)}, type);
    } else {
      op.operands[i] = op.identity(*reducer, type);
    }
  }
}

// An initial value enters once, not once per shard.
std::vector<ValueId> local_reduce(LocalOp& op) {
  if (op.attrs().has("cleave.parts")) return local_reduce_round(op);
  const size_t n = op.operands.size() / 2;
  drop_uncounted(op, n, n);
  return op.emit_self(op.attrs());
}

// The start indices relative to this device's part of the inputs; 64 bits, so that nothing wraps.
ValueId shifted_indices(LocalOp& op, ValueId indices, int64_t vector_dim,
                        const std::vector<int64_t>& offsets) {
  Type type = op.type(indices);
  if (type.dtype != DType::I64) {
    type.dtype = DType::I64;
    indices = op.emit("stablehlo.convert", {indices}, type);
  }
  Literal shift;
  shift.type = Type::tensor(DType::I64, {static_cast<int64_t>(offsets.size())});
  const auto* data = reinterpret_cast<const std::byte*>(offsets.data());
  shift.bytes =
      std::make_shared<const std::vector<std::byte>>(data, data + offsets.size() * sizeof(int64_t));
  ValueId by = op.constant(std::move(shift));
  const bool has_vectors = vector_dim < static_cast<int64_t>(type.rank());
  if (!has_vectors) by = op.emit("stablehlo.reshape", {by}, Type::tensor(DType::I64, {}));
  AttrDict attrs;
  attrs.set("broadcast_dimensions",
            ints_attr(has_vectors ? std::vector{vector_dim} : std::vector<int64_t>{}));
  by = op.emit("stablehlo.broadcast_in_dim", {by}, type, std::move(attrs));
  return op.emit("stablehlo.subtract", {indices, by}, type);
}

// Where updates are spread over devices, the input itself counts on one of them. Where the input is
// cut along an indexed dimension, updates that fall outside of this device's part are dropped, as
// scatter drops all that is out of bounds.
std::vector<ValueId> local_scatter(LocalOp& op) {
  const size_t n = op.operands.size() / 2;
  drop_uncounted(op, 0, n);
  const WindowMap map = scatter_map(op.node());
  const std::vector<int64_t>&indexed = map.index_map, &inserted = map.collapsed_dims;
  const ShardSlice& box = op.operand_boxes[0];
  std::vector<int64_t> offsets;
  for (int64_t d : indexed) offsets.push_back(box.offset[d]);
  for (int64_t d : inserted)
    if (std::find(indexed.begin(), indexed.end(), d) == indexed.end() && box.offset[d] != 0)
      return {op.operands.begin(), op.operands.begin() + static_cast<int64_t>(n)};
  const bool is_cut = box.size != op.operand_shape(0);
  const bool inside = !(op.alike && is_cut) &&
                      std::all_of(offsets.begin(), offsets.end(), [](int64_t o) { return o == 0; });
  // Dimensions of whole windows have no index but 0.
  for (size_t k = 0; k < indexed.size(); ++k)
    if (std::find(inserted.begin(), inserted.end(), indexed[k]) == inserted.end()) offsets[k] = 0;
  if (!inside) op.operands[n] = shifted_indices(op, op.operands[n], map.index_vector_dim, offsets);
  return op.emit_self(op.attrs());
}

}  // namespace

void add_local_reduction_forms(OpRegistry& registry) {
  registry.extend("stablehlo.reduce", [](OpDef& def) { def.localize = local_reduce; });
  registry.extend("stablehlo.scatter", [](OpDef& def) { def.localize = local_scatter; });
}

}  // namespace cleave
