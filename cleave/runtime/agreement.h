#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"
#include "cleave/runtime/world.h"

namespace cleave {

// Ranks that run one program together must have been given the same program and arguments:
// otherwise every device computes its part of something else, and the result is nonsense. Each of
// these functions is called by all ranks, compares what they have, and throws the same UserError on
// all of them:
//
//   the ranks were given different arguments: argument 1 differs between rank 0 and rank 2
//   the ranks run different modules: op 3, stablehlo.constant, is
//     {value = dense<1.0> ...} on rank 0 and {value = dense<2.0> ...} on rank 2

// Something that has a name and must be the same text everywhere: "the option --shard".
struct RankFact {
  std::string name, value;
};
void require_same_facts(World& world, const std::vector<RankFact>& facts);

// Ops, types and attributes, constants included. `what`: "modules", "programs".
void require_same_graph(World& world, const Graph& graph, std::string_view what);

void require_same_arguments(World& world, std::span<const Array> arguments);

}  // namespace cleave
