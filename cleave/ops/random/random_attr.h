#pragma once

#include "cleave/graph/graph.h"
#include "cleave/kernels/random.h"

namespace cleave {

// What the attributes of random ops say: rng_algorithm, and which part of the whole tensor a result
// of the given shape is. Throws UserError if the algorithm is unknown.
RandomAlgorithm random_algorithm(const Node& node);
RandomBox random_box(const Node& node, const Shape& size);

}  // namespace cleave
