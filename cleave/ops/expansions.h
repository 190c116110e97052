#pragma once

#include <span>
#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"

// Ops that consist of others: the slot OpDef::expand. An op has one expansion, which programs (the
// pass cleave-expand) and derivatives share; expand_uses says which of the two need it. Programs
// expand all that is fused or planned better as its parts; derivatives expand what has no rule of
// its own, or none for that node.
namespace cleave {

// Writes a body of scalars on arrays of one shape: constants become arrays of one value. Throws
// UserError if a node of the body is neither elementwise nor a constant.
//   { (a, b): a * b + 1 }, {x, y}, 2x3   ->   x * y + broadcast(1)
std::vector<ValueId> inline_scalars(GraphBuilder& b, RegionId body, std::span<const ValueId> args,
                                    const Shape& shape);

inline void set_expansion(OpRegistry& registry, std::string_view name, ExpandFn expand, int uses) {
  registry.extend(name, [&](OpDef& def) {
    def.expand = expand;
    def.expand_uses = static_cast<uint8_t>(uses);
  });
}

}  // namespace cleave
