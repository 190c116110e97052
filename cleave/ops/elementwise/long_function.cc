#include "cleave/ops/elementwise/long_function.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "cleave/graph/op_def.h"

namespace cleave {

bool is_long_function(const Node& node) {
  static constexpr std::array<std::string_view, 10> kLong = {
      "chlo.digamma",     "chlo.erf",        "chlo.erfc",      "chlo.lgamma",   "stablehlo.atan2",
      "stablehlo.cosine", "stablehlo.power", "stablehlo.sine", "stablehlo.tan", "stablehlo.tanh"};
  return std::binary_search(kLong.begin(), kLong.end(), std::string_view(node.def->name));
}

}  // namespace cleave
