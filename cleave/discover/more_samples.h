#pragma once

#include <vector>

#include "cleave/discover/discover.h"
#include "cleave/discover/operator.h"

namespace cleave {

// Adds calls of other ranks and dimensions to those of an operator that is given a dimension, as
// far as it accepts them, so that conditions can tell `d > dim` from `d != dim`:
//
//   (4x7; dim=0), (4x7; dim=1)   and   (4x7x3; dim=0), (4x7x3; dim=1), (4x7x3; dim=2)
//
// For operators whose operands have one shape, and whose samples have fewer than three dimensions
// or name one of them alone.
void add_samples_of_other_ranks(Operator& op);

// Calls with sizes of one more, where it is open why an operator refuses some numbers of devices:
// because shards differ, or because some are empty. Four rows on three devices are 2, 2 and 0, so
// all numbers of devices that it takes divide the four; of five rows, 2, 2 and 1 will tell.
std::vector<Sample> samples_with_uneven_shards(const Operator& op, const Discovery& discovery);

}  // namespace cleave
