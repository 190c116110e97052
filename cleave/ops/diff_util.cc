#include "cleave/ops/diff_util.h"

#include <algorithm>

namespace cleave {

std::vector<ValueId> jvp_linear(const DiffContext& c, std::span<const ValueId> tangents) {
  const auto valid = [](ValueId id) { return id.valid(); };
  if (std::ranges::none_of(tangents, valid)) return std::vector<ValueId>(c.node.results.size());
  std::vector<ValueId> operands;
  for (size_t i = 0; i < tangents.size(); ++i) {
    const Type& type = c.b.type(c.operand(i));
    const bool flows = type.is_tensor() && (is_float(type.dtype) || is_complex(type.dtype));
    operands.push_back(flows ? materialize(c, tangents[i], c.operand(i)).id : c.operand(i));
  }
  std::vector<ValueId> results = reemit(c.b, c.node, std::move(operands));
  for (ValueId& result : results) {
    const Type& type = c.b.type(result);
    if (!type.is_tensor() || !(is_float(type.dtype) || is_complex(type.dtype))) result = {};
  }
  return results;
}

std::vector<ValueId> jvp_bilinear(const DiffContext& c, std::span<const ValueId> t) {
  ValueId total;
  for (size_t i = 0; i < 2; ++i) {
    if (!t[i].valid()) continue;
    std::vector<ValueId> operands(c.operands.begin(), c.operands.end());
    operands[i] = t[i];
    total = add_tangents(c.b, total, reemit(c.b, c.node, std::move(operands))[0]);
  }
  return {total};
}

std::vector<ValueId> jvp_zero(const DiffContext& c, std::span<const ValueId>) {
  return std::vector<ValueId>(c.node.results.size());
}
std::vector<ValueId> vjp_zero(const DiffContext& c, std::span<const ValueId>) {
  return std::vector<ValueId>(c.node.operands.size());
}
std::vector<ValueId> diff_identity(const DiffContext&, std::span<const ValueId> tangents) {
  return {tangents.begin(), tangents.end()};
}

void set_linear(OpRegistry& registry, const char* name, VjpFn vjp) {
  registry.extend(name, [&](OpDef& def) {
    def.jvp = jvp_linear;
    def.vjp = vjp;
  });
}
void set_zero(OpRegistry& registry, const char* name) {
  registry.extend(name, [](OpDef& def) {
    def.jvp = jvp_zero;
    def.vjp = vjp_zero;
  });
}

void set_no_derivative(OpRegistry& registry, const char* why,
                       std::initializer_list<std::string_view> ops) {
  for (std::string_view name : ops)
    registry.extend(name, [&](OpDef& def) { def.no_derivative = why; });
}

}  // namespace cleave
