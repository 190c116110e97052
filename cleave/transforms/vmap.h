#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// One function over many examples at once.
//
//   f(x: tensor<3xf32>, w: tensor<3x2xf32>) -> tensor<2xf32>
//   vmap(graph, "f", {.in_dims = {0, std::nullopt}, .out_dims = {0}, .size = 8})
//   f_vmap(x: tensor<8x3xf32>, w: tensor<3x2xf32>) -> tensor<8x2xf32>
//
// Result [i] is that of f on example i, as if f had been called in a loop; but without
// a loop: every op is replaced by one that does the work of all examples, by its batching rule
// (OpDef::batch). What does not depend on the examples is computed once. The result is an ordinary
// function of the same graph: it can be batched again, differentiated, sharded, run.
struct VmapOptions {
  using Dim = std::optional<int64_t>;
  // Where the examples are in each argument: a dimension of the batched argument, counted
  // from its end if negative; nothing for an argument that all examples share.
  std::vector<Dim> in_dims = {};
  // Where they are to be in each result. Nothing: the result must not depend on the examples.
  std::vector<Dim> out_dims = {};
  int64_t size = 0;  // the number of examples
  // Shards the examples over this axis of the module's mesh: arguments, results, constraints and
  // manual computations carry it.
  std::string spmd_axis = {};
  std::string name = {};  // of the new function; empty: that of the function with "_vmap"
  bool verified = false;  // it was verified, or recorded op by op; else it is verified first
};

// The name of the new function. Throws UserError if the options do not fit the function, or
// if an op cannot be batched: the message names it, and says what to do.
std::string vmap(Graph& graph, std::string_view function, const VmapOptions& options);

}  // namespace cleave
