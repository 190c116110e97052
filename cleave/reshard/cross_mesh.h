#pragma once

#include <cstdint>
#include <vector>

#include "cleave/reshard/reshard.h"

namespace cleave {

// What lies between two meshes of different devices.
struct MeshLink {
  double sender_gbps = 0;    // that one device of the source mesh can send, to all together
  double receiver_gbps = 0;  // that one device of the target mesh can receive, from all together
  double latency_us = 0;
};

// A tensor on its way from one mesh to another: every element is sent once per device that it lands
// on, then the target mesh brings it into its final layout by itself.
//
//   [{"host"}, {}] on host=4  ->  [{}, {"model"}] on data=2,model=4
//     lands as [{"data"}, {"model"}]: each byte crosses once; then all_gather over "data"
struct CrossMeshPlan {
  ShardingSpec landing;           // on the target mesh
  std::vector<int64_t> sent;      // by position in the source mesh
  std::vector<int64_t> received;  // by position in the target mesh
  double send_seconds = 0;        // latency + the slowest sender or receiver
  ReshardPlan after;              // from `landing` to the target, within the target mesh
  double seconds = 0;             // both
  // No way is faster: what the elements of one box need to leave its replicas, and all elements to
  // enter the target mesh.
  double lower_bound = 0;
};

// The cheapest landing: the target's layout, with any of the axes along which it is replicated on
// any dimension as well. Devices that hold the same elements share the sending evenly. Neither
// layout may be partial. `profile` is that of the target mesh.
CrossMeshPlan plan_cross_mesh(const ShardingSpec& from, const ShardingSpec& to, const Shape& shape,
                              DType dtype, const MeshLink& link, const MachineProfile& profile);

// The same for one landing.
CrossMeshPlan cross_mesh_by(const ShardingSpec& landing, const ShardingSpec& from,
                            const ShardingSpec& to, const Shape& shape, DType dtype,
                            const MeshLink& link, const MachineProfile& profile);

}  // namespace cleave
