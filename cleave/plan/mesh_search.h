#pragma once

#include "cleave/plan/planner.h"

namespace cleave::plan {

// All meshes of `devices` devices with at most `most_axes` axes of size two and more, in every
// order: the first axis joins devices that are far apart, the last one neighbours.
//   8, 2   ->   <["x"=8]>, <["x"=2, "y"=4]>, <["x"=4, "y"=2]>
std::vector<MeshPtr> mesh_shapes(int64_t devices, int most_axes);

struct MeshCandidate {
  MeshPtr mesh;
  std::optional<int64_t> limit;
  PlannerResult result;
};

// Hears of each candidate as soon as it is there, in any order, one at a time.
using MeshObserver = std::function<void(const MeshCandidate& candidate, size_t done, size_t all)>;

// A plan for every mesh and every limit, in the order of meshes, then limits; `options.threads` of
// them are made side by side. Limits of a mesh share what was found (share_between_limits).
// `options.mesh`, `options.memory` and pins on axes that a mesh does not have do not count. Fewer
// if `options.stop` ended it.
std::vector<MeshCandidate> search_meshes(const Graph& graph, const std::vector<MeshPtr>& meshes,
                                         const std::vector<int64_t>& limits,
                                         const PlannerOptions& options,
                                         const MeshObserver& observer = {});

// A plan serves for every limit that it fits, and a bound for a limit holds for all smaller ones:
// no limit keeps a dearer plan than one that another limit of its mesh found and that fits it.
void share_between_limits(std::vector<MeshCandidate>& candidates);

// For each limit the fastest candidate, as indices; -1 if nothing fits. The front of time
// against memory.
std::vector<int> fastest_by_limit(const std::vector<MeshCandidate>& candidates,
                                  const std::vector<int64_t>& limits);

}  // namespace cleave::plan
