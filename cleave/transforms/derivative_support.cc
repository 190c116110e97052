#include "cleave/transforms/derivative_support.h"

#include <algorithm>

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
                          "stablehlo.torch_index_select", "stablehlo.unary_einsum"}) ||
         (name.starts_with("chlo.broadcast_") &&
          is_any_of(name.substr(15),
                    {"add", "atan2", "divide", "maximum", "minimum", "multiply", "polygamma",
                     "power", "remainder", "subtract", "zeta", "complex", "select"}));
}

}  // namespace

bool has_derivative(const OpDef& def, DiffMode mode) {
  const bool rule = mode == DiffMode::Forward ? def.jvp != nullptr : def.vjp != nullptr;
  return rule || is_structural(def.name) || is_expanded(def.name);
}

}  // namespace cleave
