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

// One window is written, and it may lie outside of this device's part: `indices` with all places
// inside it, and whether they were. XLA drops what is out of bounds too, but its simplifier takes
// the place for one of the tensor that the part was cut from, if it sees both (openxla/xla#49121).
struct PlaceInside {
  ValueId indices, found;
};
PlaceInside place_inside(LocalOp& op, ValueId indices, const WindowMap& map, const Shape& size) {
  const Type type = op.type(indices);
  const auto count = static_cast<int64_t>(map.index_map.size());
  const Type row = Type::tensor(DType::I64, {count}), one = Type::tensor(DType::I64, {1});
  const Type flag = Type::tensor(DType::Bool, {1});
  const ValueId flat = op.emit("stablehlo.reshape", {indices}, row);
  ValueId found;
  std::vector<ValueId> places;
  for (int64_t k = 0; k < count; ++k) {
    const ValueId place = op.slice(flat, {k}, {1});
    const int64_t d = map.index_map[static_cast<size_t>(k)];
    const auto& collapsed = map.collapsed_dims;
    if (std::find(collapsed.begin(), collapsed.end(), d) == collapsed.end()) {
      places.push_back(place);
      continue;
    }
    const double last = static_cast<double>(size[static_cast<size_t>(d)] - 1);
    places.push_back(
        op.emit("stablehlo.clamp", {op.splat(one, 0), place, op.splat(one, last)}, one));
    AttrDict equal;
    equal.set("comparison_direction", EnumAttr{"stablehlo.comparison_direction", "EQ"});
    const ValueId here =
        op.emit("stablehlo.compare", {place, places.back()}, flag, std::move(equal));
    found = found.valid() ? op.emit("stablehlo.and", {found, here}, flag) : here;
  }
  AttrDict join;
  join.set("dimension", int_attr(0));
  const ValueId joined =
      count == 1 ? places[0] : op.emit("stablehlo.concatenate", places, row, std::move(join));
  if (found.valid()) found = op.emit("stablehlo.reshape", {found}, Type::tensor(DType::Bool, {}));
  return {op.emit("stablehlo.reshape", {joined}, type), found};
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
  if (inside) return op.emit_self(op.attrs());
  op.operands[n] = shifted_indices(op, op.operands[n], map.index_vector_dim, offsets);
  const bool is_one =
      num_elements(op.type(op.operands[n]).shape) == static_cast<int64_t>(map.index_map.size());
  if (!op.alike || !is_one || indexed.empty() || num_elements(box.size) == 0)
    return op.emit_self(op.attrs());
  const PlaceInside place = place_inside(op, op.operands[n], map, box.size);
  op.operands[n] = place.indices;
  std::vector<ValueId> results = op.emit_self(op.attrs());
  for (size_t i = 0; place.found.valid() && i < n; ++i)
    results[i] =
        op.emit("stablehlo.select", {place.found, results[i], op.operands[i]}, op.type(results[i]));
  return results;
}

}  // namespace

void add_local_reduction_forms(OpRegistry& registry) {
  registry.extend("stablehlo.reduce", [](OpDef& def) { def.localize = local_reduce; });
  registry.extend("stablehlo.scatter", [](OpDef& def) { def.localize = local_scatter; });
}

}  // namespace cleave
