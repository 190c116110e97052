#include "cleave/ops/diff_util.h"

// Ops that need no derivative, each with the reason.
namespace cleave {
namespace {

struct Exempt {
  const char* reason;
  std::vector<const char*> ops;
};

const Exempt kExempt[] = {
    {"integers",
     {"stablehlo.and", "stablehlo.or", "stablehlo.xor", "stablehlo.not", "stablehlo.compare",
      "stablehlo.shift_left", "stablehlo.shift_right_arithmetic", "stablehlo.shift_right_logical",
      "stablehlo.popcnt", "stablehlo.count_leading_zeros", "stablehlo.rng_bit_generator",
      "chlo.mulhi"}},
    {"constant", {"stablehlo.partition_id", "stablehlo.replica_id"}},
    {"sizes",
     {"stablehlo.get_dimension_size", "stablehlo.set_dimension_size", "stablehlo.dynamic_iota"}},
    {"step", {"chlo.next_after"}},
    {"random", {"stablehlo.rng"}},
    {"token", {"stablehlo.after_all", "stablehlo.create_token"}},
    {"layout", {"sdy.sharding_group"}},
    {"quantized", {"stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"}},
    {"test",
     {"check.expect_almost_eq", "check.expect_almost_eq_const", "check.expect_close",
      "check.expect_eq", "check.expect_eq_const", "check.expect_serialized_eq", "interpreter.print",
      "interpreter.probe", "interpreter.run_parallel"}},
    {"compiler",
     {"cleave.fusion", "cleave.halo", "cleave.layer_norm", "cleave.running_join", "cleave.softmax",
      "cleave.transfer"}},
};

}  // namespace

void add_missing_derivatives(OpRegistry& registry) {
  for (const Exempt& exempt : kExempt)
    for (const char* name : exempt.ops)
      registry.extend(name, [&](OpDef& def) { def.no_derivative = exempt.reason; });
}

}  // namespace cleave
