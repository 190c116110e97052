#pragma once

#include <functional>
#include <optional>

#include "cleave/graph/graph.h"

namespace cleave {

// A loop that counts a carried integer from a constant to a constant in constant steps, as scan and
// fori_loop do.
//
//   while(%i = 0) cond { compare LT, %i, 12 } do { add %i, 1 }    ->  begin 0, step 1, trips 12
//   while(%i = 9) cond { compare GE, %i, 0 } do { add %i, -3 }    ->  begin 9, step -3, trips 4
struct CountedLoop {
  size_t counter = 0;  // its place among the carried values
  int64_t begin = 0, step = 1, trips = 0;
};

// The value that stands for another one elsewhere in the graph; the value itself if none does.
using Counterpart = std::function<ValueId(ValueId)>;

// Nothing if the node is no such loop. A transform that writes a copy of a function gives the
// counterparts of values in it: what is an argument of a function may be a constant there.
std::optional<CountedLoop> counted_loop(const Graph& graph, const Node& loop,
                                        const Counterpart& counterpart = {});

// How often the body of a stablehlo.while runs; nothing if that is unknown.
std::optional<int64_t> trip_count(const Graph& graph, const Node& loop);

}  // namespace cleave
