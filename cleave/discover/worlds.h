#pragma once

#include <vector>

#include "cleave/discover/engine.h"

namespace cleave {

// The numbers of devices that a call is tried on: those asked for; for every size that all of them
// divide, one that does not divide it; and for every size that they leave in large or alike shards,
// one that leaves it in small ones. Rows of placements without a shard need only the first.
std::vector<int> worlds_of(const Operator& op, const Sample& sample,
                           const DiscoverOptions& options);

}  // namespace cleave
