#pragma once

#include <optional>

#include "cleave/graph/graph.h"

namespace cleave {

// What a collective asks of its `replica_groups`.
struct GroupsCheck {
  bool filled = true;                // no -1 that fills up a short group
  bool every_id = true;              // the ids are 0, 1, ..., n - 1
  std::optional<int64_t> size = {};  // of each group; then there must be one
  int64_t least_channel = 1;         // with use_global_device_ids
};

// Throws UserError unless `replica_groups` is a matrix of distinct ids that passes, and
// `use_global_device_ids` has a channel and groups to go with it.
//   [[0, 2], [1, 3]]      right
//   [[0, 1, 1, 3]]        names 1 twice
//   [[0, 1, 3]]           leaves out 2
void verify_groups(const Node& node, const GroupsCheck& check);

// Throws UserError unless `source_target_pairs` is an n x 2 matrix in which every device sends at
// most once and receives at most once.
void verify_pairs(const Node& node);

// The operands of infeed, outfeed, send and recv end with a token; the results of infeed and recv
// are tensors, then a token.
void verify_last_operand_is_token(const Graph& graph, const Node& node);
void verify_tensors_and_token(const Graph& graph, const Node& node);
// send and recv: the channel's type is that of the transfer; `host_type` is the type to or from
// the host.
void verify_channel_type(const Node& node, int64_t host_type);
// The layout of an infeed: a list of integers for each tensor.
void verify_infeed_layout(const Node& node);

}  // namespace cleave
