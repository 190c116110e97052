#include "cleave/ops/chlo/family.h"
#include "cleave/ops/elementwise/elementwise_util.h"
#include "cleave/ops/expansions.h"

// Elementwise ops that bring their operands to one shape first.
namespace cleave {
namespace {

// The op on operands of one shape: chlo.broadcast_add -> stablehlo.add.
std::string without_broadcast(std::string_view name) {
  const std::string base(name.substr(kBroadcastPrefix.size()));
  return (find_op("stablehlo." + base) ? "stablehlo." : "chlo.") + base;
}

// Operands go to the last dimensions, or where broadcast_dimensions says.
std::vector<ValueId> expand_broadcasting(GraphBuilder& b, const Node& node,
                                         std::span<const ValueId> operands, ExpandUse) {
  const Type type = b.type(node.results[0]);
  std::vector<ValueId> full;
  for (ValueId operand : operands) {
    const Shape shape = b.shape(operand);
    std::vector<int64_t> dims;
    for (size_t d = 0; d < shape.size(); ++d)
      dims.push_back(static_cast<int64_t>(type.rank() - shape.size() + d));
    if (dims.size() < type.rank() && node.attrs.has("broadcast_dimensions"))
      dims = node.attrs.get_ints("broadcast_dimensions");
    full.push_back(shape == type.shape ? operand : b.broadcast(operand, type.shape, dims));
  }
  AttrDict attrs = node.attrs;
  attrs.erase("broadcast_dimensions");
  return {b.emit_as(type, without_broadcast(node.name()), std::move(full), std::move(attrs))};
}

std::vector<ValueId> expand_constant_like(GraphBuilder& b, const Node& node,
                                          std::span<const ValueId>, ExpandUse) {
  const Attribute& value = *node.attrs.find("value");
  double number = 0;
  if (auto* real = value.as<FloatAttr>()) number = real->value;
  if (auto* integer = value.as<IntegerAttr>()) number = static_cast<double>(integer->value);
  if (auto* boolean = value.as<bool>()) number = *boolean;
  const Type type = b.type(node.results[0]);
  return {b.constant(number, type.dtype, type.shape)};
}

}  // namespace

void add_chlo_expansions(OpRegistry& r) {
  for (const char* base : kBroadcastingOps) {
    // A derivative expands the op if it can go on with what comes out. The derivatives of the
    // elementwise ops are there, because their family comes first.
    const OpDef* plain = r.find(std::string("stablehlo.") + base);
    if (!plain) plain = r.find(std::string("chlo.") + base);
    const int uses = plain->jvp ? kInPrograms | kInDerivatives : kInPrograms;
    const std::string name = std::string(kBroadcastPrefix) + base;
    set_expansion(r, name, expand_broadcasting, uses);
    r.extend(name, [&](OpDef& def) { def.no_derivative = plain->no_derivative; });
  }
  set_expansion(r, "chlo.constant_like", expand_constant_like, kInPrograms);
}

}  // namespace cleave
