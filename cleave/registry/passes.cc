#include "cleave/registry/pass_families.h"

namespace cleave {

const PassRegistry& pass_registry() {
  static const PassRegistry registry = [] {
    PassRegistry r;
    register_basic_passes(r);
    register_propagation_passes(r);
    register_partition_passes(r);
    register_reshard_passes(r);
    register_vmap_passes(r);
    register_diff_passes(r);
    register_simplify_passes(r);
    register_fuse_passes(r);
    return r;
  }();
  return registry;
}

}  // namespace cleave
