#pragma once

#include "cleave/rewrite/pass.h"

namespace cleave {

// Each function registers the passes of one family; passes.cc calls them all.
void register_basic_passes(PassRegistry& registry);
void register_propagation_passes(PassRegistry& registry);
void register_partition_passes(PassRegistry& registry);
void register_reshard_passes(PassRegistry& registry);
void register_vmap_passes(PassRegistry& registry);
void register_diff_passes(PassRegistry& registry);
void register_simplify_passes(PassRegistry& registry);
void register_fuse_passes(PassRegistry& registry);

}  // namespace cleave
