#include "cleave/transforms/derivative_support.h"

#include <algorithm>

#include "cleave/ops/batch_util.h"

namespace cleave {
namespace {

bool is_any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// By what the transforms do with regions and calls, and by what they take apart first.
bool is_structural(std::string_view name) {
  return is_any_of(name,
                   {"stablehlo.while", "stablehlo.case", "stablehlo.if", "chlo.scan", "func.call",
                    "stablehlo.composite", "sdy.manual_computation", "sdy.named_computation",
                    "stablehlo.tuple", "stablehlo.get_tuple_element"});
}
bool is_expanded(std::string_view name) {
  return is_any_of(name, {"stablehlo.map", "stablehlo.batch_norm_inference",
                          "stablehlo.batch_norm_training", "stablehlo.batch_norm_grad",
                          "stablehlo.torch_index_select", "stablehlo.unary_einsum",
                          "stablehlo.dynamic_gather", "stablehlo.dynamic_pad",
                          "stablehlo.real_dynamic_slice", "stablehlo.dynamic_conv"}) ||
         (name.starts_with("chlo.broadcast_") &&
          is_any_of(name.substr(15),
                    {"add", "atan2", "divide", "maximum", "minimum", "multiply", "polygamma",
                     "power", "remainder", "subtract", "zeta", "complex", "select"}));
}

constexpr Reason kReasons[] = {
    {"constant", "no operand: its value does not depend on anything"},
    {"integers", "integers and booleans in or out: nothing to differentiate"},
    {"sizes",
     "takes or gives sizes, which are integers, or an array whose size is known at run time alone"},
    {"step", "goes to the next number there is; JAX has none either"},
    {"random", "draws from a hidden state"},
    {"token", "orders effects; carries no numbers"},
    {"effect",
     "talks to the host or to another program, once; vmap refuses it with an error that says so"},
    {"test", "checks or prints values in tests"},
    {"layout", "says where values lie, and has no result"},
    {"quantized", "quantized types are parsed and checked, not computed with"},
    {"compiler", "made by the partitioner and the compiler, which come after the transforms"},
};

std::string_view common_reason(const OpDef& def) {
  const std::string_view name = def.name;
  if (name.starts_with("cleave.")) return "compiler";
  if (name.starts_with("check.") || name.starts_with("interpreter.")) return "test";
  if (def.has(kConstantLike) || name == "stablehlo.partition_id" || name == "stablehlo.replica_id")
    return "constant";
  if (is_any_of(name, {"stablehlo.after_all", "stablehlo.create_token"})) return "token";
  if (def.batch == batch_effect) return "effect";
  if (name == "sdy.sharding_group") return "layout";
  if (name.starts_with("stablehlo.uniform_")) return "quantized";
  return {};
}

}  // namespace

bool has_derivative(const OpDef& def, DiffMode mode) {
  const bool rule = mode == DiffMode::Forward ? def.jvp != nullptr : def.vjp != nullptr;
  return rule || is_structural(def.name) || is_expanded(def.name);
}

bool has_batch(const OpDef& def) {
  return (def.batch != nullptr && def.batch != batch_effect) || def.has(kElementwise);
}

std::string_view why_no_derivative(const OpDef& def) {
  if (has_derivative(def, DiffMode::Forward) && has_derivative(def, DiffMode::Reverse)) return {};
  if (const std::string_view reason = common_reason(def); !reason.empty()) return reason;
  std::string_view name = def.name;
  for (std::string_view prefix : {"chlo.broadcast_", "chlo.", "stablehlo."})
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      break;
    }
  if (is_any_of(name, {"and", "or", "xor", "not", "compare", "shift_left", "shift_right_arithmetic",
                       "shift_right_logical", "popcnt", "count_leading_zeros", "mulhi",
                       "rng_bit_generator"}))
    return "integers";
  if (is_any_of(name, {"get_dimension_size", "set_dimension_size", "dynamic_iota"})) return "sizes";
  if (name == "next_after") return "step";
  if (name == "rng") return "random";
  return {};
}

std::string_view why_no_batch(const OpDef& def) {
  return has_batch(def) ? std::string_view() : common_reason(def);
}

std::span<const Reason> reasons() { return kReasons; }

}  // namespace cleave
