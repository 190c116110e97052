#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/plan/bound_plan.h"

namespace cleave::report {

// A module as its author thinks of it: a tree of blocks (layers, attention, head), and the block of
// every op and argument. What is known decides, in this order:
//
//   scopes in locations       "jit(step)/transpose(jvp(layer_3))/attn/dot_general" -> layer_3, attn
//   names of parameters       params/layers/3/attn/q, [0].layers[3].attention.q    -> layers[3],
//   ... repetition                parameters of the same types that are used in the same order
//   again
//                             and again: layer 0, layer 1, ...
//
// An op that reads a parameter is of the parameter's block; what follows an op is of its block as
// well, forward and backward, until another block's parameter is read; what leads to the update of
// a parameter alone is of that parameter's block.
struct ModelBlocks {
  struct Block {
    std::string name;
    int parent = -1;
    int like = -1;      // the first block of the same parent with like parameters and products, if
                        // this is another one
    int64_t count = 0;  // of the first: how many are alike, itself included; 0 of others
  };
  std::vector<Block> blocks;  // [0] is the whole step; parents come before their parts
  std::vector<int> ops;       // by place in Plan::ops
  std::vector<int> arguments;
};
// `roles`: of the arguments: "parameters", "optimizer state", ...
ModelBlocks model_blocks(const plan::BoundPlan& bound, const std::vector<std::string>& roles);

// The parts of a name: "params['layers'][3].q" -> params, layers, 3, q.
std::vector<std::string> path_of_name(std::string_view name);
// The scopes of a location, without those that every op has and without the op:
//   "jit(step)/jvp(layer_3)/attn/dot_general"("model.py":3:1)   ->   layer_3, attn
std::vector<std::string> scopes_of(std::string_view location);

// Where a list repeats itself: the most of it that consists of equal stretches of the least length.
//   a b c b c b c d   ->   begin 1, length 2, times 3
struct Repetition {
  size_t begin = 0, length = 0, times = 0;
};
std::optional<Repetition> find_repetition(const std::vector<int>& list);

}  // namespace cleave::report
