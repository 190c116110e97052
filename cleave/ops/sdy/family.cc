#include "cleave/ops/sdy/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_sdy_ops(registry); }

void extend_family(OpRegistry& registry) {
  add_sdy_batch_rules(registry);
  set_no_derivative(registry, "layout", {"sdy.sharding_group"});
}

}  // namespace

const OpFamily kSdyFamily{define_family, extend_family};

}  // namespace cleave
