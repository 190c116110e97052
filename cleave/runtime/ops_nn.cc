#include "cleave/runtime/ops_nn.h"

#include <cmath>
#include <numbers>

#include "cleave/runtime/form_util.h"
#include "cleave/runtime/record.h"

namespace cleave {
namespace {

using Values = std::vector<ValueId>;
using Params = std::span<const int64_t>;

ValueId times(GraphBuilder& b, ValueId x, double factor) {
  return b.binary("stablehlo.multiply", x, b.constant_like(factor, x));
}
ValueId plus(GraphBuilder& b, ValueId x, double term) {
  return b.binary("stablehlo.add", x, b.constant_like(term, x));
}

}  // namespace

Tensor relu(const Tensor& x) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        return {b.binary("stablehlo.maximum", b.arg(0), b.constant_like(0, b.arg(0)))};
      },
      {}, {&x, 1});
}

Tensor gelu(const Tensor& x, bool approximate) {
  const int64_t params[] = {approximate};
  return record_one(
      [](GraphBuilder& b, Params params) -> Values {
        const ValueId x = b.arg(0);
        ValueId part;
        if (params[0]) {
          const ValueId cube =
              b.binary("stablehlo.multiply", x, b.binary("stablehlo.multiply", x, x));
          const ValueId inner = b.binary("stablehlo.add", x, times(b, cube, 0.044715));
          part = b.emit("stablehlo.tanh", {times(b, inner, std::sqrt(2 / std::numbers::pi))});
        } else {
          part = b.emit("chlo.erf", {times(b, x, std::numbers::sqrt2 / 2)});
        }
        return {b.binary("stablehlo.multiply", x, times(b, plus(b, part, 1), 0.5))};
      },
      params, {&x, 1});
}

Tensor silu(const Tensor& x) {
  return record_one(
      [](GraphBuilder& b, Params) -> Values {
        return {b.binary("stablehlo.multiply", b.arg(0), b.emit("stablehlo.logistic", {b.arg(0)}))};
      },
      {}, {&x, 1});
}

}  // namespace cleave
