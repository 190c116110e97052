#include "cleave/ops/control/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) {
  register_control_flow_ops(registry);
  register_fusion_ops(registry);
}

void extend_family(OpRegistry& registry) {
  add_control_flow_batch_rules(registry);
  set_no_derivative(registry, "compiler", {"cleave.fusion"});
}

}  // namespace

const OpFamily kControlFamily{define_family, extend_family};

}  // namespace cleave
