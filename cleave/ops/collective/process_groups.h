#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/ops/eval.h"

namespace cleave {

// How the numbers in `replica_groups` name devices of the grid.
//                            replica_groups [[0, 1]] on 2 replicas x 2 partitions (device = 2r + p)
enum class GroupMode {
  CrossReplica,              // replicas, for each partition:      {0, 2}, {1, 3}
  CrossPartition,            // partitions, for each replica:      {0, 1}, {2, 3}
  CrossReplicaAndPartition,  // replicas, with all partitions:     {0, 2, 1, 3}
  FlattenedIds,              // devices:                           {0, 1}
};

// The groups of devices that a collective's attributes name, in order. An empty `replica_groups` is
// one group of all.
std::vector<std::vector<int64_t>> device_groups(const Node& node, GroupMode mode, DeviceGrid grid);
// The group that the device is in, if any.
std::optional<std::vector<int64_t>> device_group(const Node& node, GroupMode mode, DeviceGrid grid,
                                                 int64_t device);
// source_target_pairs as pairs of devices, for replicas or partitions.
std::vector<std::pair<int64_t, int64_t>> device_pairs(const Node& node, GroupMode mode,
                                                      DeviceGrid grid, int64_t device);

// The number of `channel_handle`, 0 if there is none.
int64_t channel_of(const Node& node);
// all_gather, all_reduce, reduce_scatter: decided by the channel and use_global_device_ids.
GroupMode global_mode(const Node& node);
// all_to_all, collective_permute, collective_broadcast: by the channel.
GroupMode channel_mode(const Node& node);

// Groups and channel of a collective, for another one in which the same devices meet.
AttrDict meeting_attrs(const Node& node);

}  // namespace cleave
