#include "cleave/ops/indexing/family.h"

#include "cleave/ops/families.h"

namespace cleave {
namespace {

void define_family(OpRegistry& registry) { register_gather_scatter_ops(registry); }

void extend_family(OpRegistry& registry) {
  add_gather_scatter_batch_rules(registry);
  add_index_derivatives(registry);
  add_local_index_forms(registry);
  add_gather_scatter_samples(registry);
  add_index_expansions(registry);
}

}  // namespace

const OpFamily kIndexingFamily{define_family, extend_family};

}  // namespace cleave
