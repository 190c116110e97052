#include "cleave/ops/families.h"

namespace cleave {

void register_elementwise_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.add", .traits = kElementwise | kPure | kCommutative});
}

}  // namespace cleave
