#pragma once

#include <string>
#include <vector>

#include "cleave/graph/graph.h"

namespace cleave {

// Values that must have one sharding, by sdy.sharding_group ops.
struct ShardingGroups {
  std::vector<std::vector<ValueId>> members;  // by group id
  bool empty() const { return members.empty(); }
};
ShardingGroups find_sharding_groups(const Graph& graph);

// Gives all members of a group the sharding that one of them has. Where members have different
// ones, every member gets an open sharding constraint behind it, which takes its place in the group
// and all of its uses. Returns a warning for each such group.
std::vector<std::string> synchronize_sharding_groups(Graph& graph);

// Joins groups that share a value, numbers them 0, 1, ... in the order of the text, and
// drops repeated members. Throws UserError where members of a group have different shapes or stand
// in different manual computations.
void unify_sharding_groups(Graph& graph);

void remove_sharding_groups(Graph& graph);

}  // namespace cleave
