#include "cleave/ops/sort/family.h"

#include "cleave/ops/diff_util.h"
#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_sort_ops(registry); }

void extend_family(OpRegistry& registry) {
  add_local_round_forms(registry);
  set_no_derivative(registry, "compiler", {"cleave.running_join"});
}

}  // namespace

const OpFamily kSortFamily{define_family, extend_family};

}  // namespace cleave
