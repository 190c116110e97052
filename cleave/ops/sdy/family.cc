#include "cleave/ops/sdy/family.h"

#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_sdy_ops(registry); }

void extend_family(OpRegistry& registry) { add_sdy_batch_rules(registry); }

}  // namespace

const OpFamily kSdyFamily{define_family, extend_family};

}  // namespace cleave
