#include "cleave/transforms/derivative_support.h"

#include "cleave/ops/batch_util.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

// Ops whose parts the transforms differentiate: regions and functions, and elements of tuples.
bool is_structural(const OpDef& def) {
  return def.flow != Flow::None || &def == &def_of<op::Tuple>() ||
         &def == &def_of<op::GetTupleElement>();
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

std::string_view reason_of(const OpDef& def) {
  if (def.no_derivative) return def.no_derivative;
  if (def.has(kConstantLike)) return "constant";
  return def.batch == batch_effect ? "effect" : std::string_view();
}

}  // namespace

bool has_derivative(const OpDef& def, DiffMode mode) {
  const bool rule = mode == DiffMode::Forward ? def.jvp != nullptr : def.vjp != nullptr;
  return rule || is_structural(def) || def.expands_in(kInDerivatives);
}

bool has_batch(const OpDef& def) {
  return (def.batch != nullptr && def.batch != batch_effect) || def.has(kElementwise);
}

std::string_view why_no_derivative(const OpDef& def) {
  if (has_derivative(def, DiffMode::Forward) && has_derivative(def, DiffMode::Reverse)) return {};
  return reason_of(def);
}

std::string_view why_no_batch(const OpDef& def) {
  return has_batch(def) ? std::string_view() : reason_of(def);
}

std::span<const Reason> reasons() { return kReasons; }

}  // namespace cleave
