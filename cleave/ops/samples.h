#pragma once

#include "cleave/graph/op_def.h"

// Calls that discovery tries, family by family. A sample is a function in MLIR's syntax that holds
// the op, and before it the constants that it needs as operands (discover/op_call.h). Elementwise
// ops need none: calls of them are made from their number of operands.
namespace cleave {

inline void set_samples(OpRegistry& registry, std::string_view op, const char* functions) {
  registry.extend(op, [&](OpDef& def) { def.samples = functions; });
}
// An op that has none, and why.
inline void set_no_sample(OpRegistry& registry, std::string_view op, const char* why) {
  registry.extend(op, [&](OpDef& def) { def.why_no_sample = why; });
}

void add_shape_samples(OpRegistry& registry);
void add_elementwise_samples(OpRegistry& registry);
void add_dynamic_shape_samples(OpRegistry& registry);
void add_dot_samples(OpRegistry& registry);
void add_convolution_samples(OpRegistry& registry);
void add_reduction_samples(OpRegistry& registry);
void add_gather_scatter_samples(OpRegistry& registry);
void add_linalg_samples(OpRegistry& registry);
void add_chlo_samples(OpRegistry& registry);
void add_random_samples(OpRegistry& registry);
void add_custom_call_samples(OpRegistry& registry);
void add_normalize_samples(OpRegistry& registry);
void add_quantized_samples(OpRegistry& registry);

}  // namespace cleave
