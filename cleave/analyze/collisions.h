#pragma once

#include "cleave/graph/graph.h"

namespace cleave::analyze {

// Of the windows that a scatter adds up, how many go to the place that takes most of them. If the
// indices follow from nothing but constants and positions, as those of a table of distances do,
// they are computed and counted. Others are taken to be spread evenly. Nothing is added up by a
// scatter whose indices are unique, or that replaces what was there.
//
//   262144 updates of 32 rows, at min(|i - j| / 8, 31) for i, j < 512      69960
//   8192 updates of 30522 rows, at tokens                                  1
double updates_of_one_place(const Graph& graph, const Node& scatter);

}  // namespace cleave::analyze
