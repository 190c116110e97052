#include "cleave/ops/batch_util.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/random/family.h"

namespace cleave {
namespace {

// Bounds of their own for each example: numbers of the standard distribution for all of them, then
// moved and stretched.
std::vector<Batched> batch_rng(const BatchContext& c) {
  const Type type = result_type(c);
  require(!c.operands[2].batched() && type.has_static_shape(), c.node,
          "the shape differs between examples");
  require(is_float(type.dtype), c.node,
          "the bounds differ between examples, which works for floats alone, got {}; draw floats "
          "and convert them, or draw with stablehlo.rng_bit_generator from a key of each example",
          to_string(type));
  GraphBuilder& b = c.b;
  const Type whole = with_dim(type, 0, c.size);
  AttrDict sizes;
  Literal literal;
  literal.type = Type::tensor(DType::I64, {static_cast<int64_t>(whole.rank())});
  auto bytes = std::make_shared<std::vector<std::byte>>();
  for (int64_t size : whole.shape) {
    const auto* first = reinterpret_cast<const std::byte*>(&size);
    bytes->insert(bytes->end(), first, first + sizeof size);
  }
  literal.bytes = std::move(bytes);
  const Type sizes_type = literal.type;
  sizes.set("value", literal_attr(std::move(literal)));
  const ValueId shape = b.emit_as(sizes_type, "stablehlo.constant", {}, std::move(sizes));
  const ValueId standard =
      emit_self(c, {b.constant(0, type.dtype), b.constant(1, type.dtype), shape},
                std::vector<Type>{whole}, c.node.attrs)[0];
  const ValueId low = b.broadcast(at_front(c, c.operands[0]), whole.shape, {0});
  ValueId scale = b.broadcast(at_front(c, c.operands[1]), whole.shape, {0});
  if (c.node.attrs.get_string("rng_distribution") == "UNIFORM")
    scale = b.emit("stablehlo.subtract", {scale, low});
  return {{b.emit("stablehlo.add", {low, b.emit("stablehlo.multiply", {standard, scale})}), 0}};
}

}  // namespace

void add_random_batch_rules(OpRegistry& r) {
  r.extend("stablehlo.rng", [](OpDef& def) { def.batch = batch_rng; });
  // A key for each example: their streams have nothing in common, so one after the other.
  r.extend("stablehlo.rng_bit_generator", [](OpDef& def) { def.batch = batch_by_loop; });
}

}  // namespace cleave
