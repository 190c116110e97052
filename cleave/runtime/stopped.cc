#include "cleave/runtime/stopped.h"

#include "cleave/runtime/record.h"

namespace cleave {

Tensor stopped(const Tensor& x) {
  return record_one(
      [](GraphBuilder& b, std::span<const int64_t>) {
        AttrDict attrs;
        attrs.set(kStopGradient, UnitAttr{});
        return b.emit_all("stablehlo.optimization_barrier", {b.arg(0)}, std::move(attrs));
      },
      {}, {&x, 1});
}

}  // namespace cleave
