#pragma once

#include "cleave/graph/op_def.h"

// Calls that discovery tries, family by family. A sample is a function in MLIR's syntax that holds
// the op, and before it the constants that it needs as operands (discover/op_call.h). Elementwise
// ops need none: calls of them are made from their number of operands.
namespace cleave {

inline void set_samples(OpRegistry& registry, std::string_view op, const char* functions) {
  registry.extend(op, [&](OpDef& def) { def.samples = functions; });
}
// States that an op has no sample, and why.
inline void set_no_sample(OpRegistry& registry, std::string_view op, const char* why) {
  registry.extend(op, [&](OpDef& def) { def.why_no_sample = why; });
}

}  // namespace cleave
