#pragma once

#include <span>
#include <vector>

#include "cleave/graph/builder.h"
#include "cleave/graph/op_def.h"

// Ops that consist of others: the slot OpDef::expand. An op has one expansion, which programs (the
// pass cleave-expand) and derivatives share; expand_uses says who needs it. Programs expand all
// that is fused or planned better as its parts; derivatives expand what has no rule of its own, or
// none for that node.
namespace cleave {

// Writes a body of scalars on arrays of one shape: constants become arrays of one value. Throws
// UserError if a node of the body is neither elementwise nor a constant.
//   { (a, b): a * b + 1 }, {x, y}, 2x3   ->   x * y + broadcast(1)
std::vector<ValueId> inline_scalars(GraphBuilder& b, RegionId body, std::span<const ValueId> args,
                                    const Shape& shape);

// Families of expansions, after all other rules of a family.
void add_elementwise_expansions(OpRegistry& registry);    // select
void add_chlo_expansions(OpRegistry& registry);           // broadcast_*, constant_like
void add_reduction_expansions(OpRegistry& registry);      // map, reduce, reduce_window
void add_index_expansions(OpRegistry& registry);          // torch_index_select, scatter
void add_dynamic_shape_expansions(OpRegistry& registry);  // ops whose sizes are operands
void add_einsum_expansions(OpRegistry& registry);         // einsum, unary_einsum
void add_normalize_expansions(OpRegistry& registry);      // batch_norm_*, softmax, layer_norm
void add_collective_expansions(OpRegistry& registry);     // all_reduce, reduce_scatter
void add_custom_call_expansions(OpRegistry& registry);    // custom calls: LAPACK, erf
void add_scan_expansion(OpRegistry& registry);            // chlo.scan

inline void set_expansion(OpRegistry& registry, std::string_view name, ExpandFn expand, int uses) {
  registry.extend(name, [&](OpDef& def) {
    def.expand = expand;
    def.expand_uses = static_cast<uint8_t>(uses);
  });
}

}  // namespace cleave
