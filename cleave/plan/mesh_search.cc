#include "cleave/plan/mesh_search.h"

#include <functional>

#include "cleave/core/error.h"

namespace cleave::plan {

std::vector<MeshPtr> mesh_shapes(int64_t devices, int most_axes) {
  if (devices < 1) throw_user("{} devices: at least one is needed", devices);
  if (most_axes < 1 || most_axes > 4) throw_user("{} axes: from 1 to 4 can be tried", most_axes);
  static constexpr const char* kNames[] = {"x", "y", "z", "w"};
  std::vector<MeshPtr> meshes;
  for (int axes = 1; axes <= most_axes; ++axes) {
    std::vector<MeshAxis> now;
    std::function<void(int64_t)> fill = [&](int64_t rest) {
      const int left = axes - static_cast<int>(now.size());
      if (left == 1) {
        if (rest == 1 && axes > 1) return;
        now.push_back({kNames[now.size()], rest});
        meshes.push_back(std::make_shared<const Mesh>(now, std::vector<int64_t>{}));
        now.pop_back();
        return;
      }
      for (int64_t size = 2; size < rest; ++size) {
        if (rest % size != 0) continue;
        now.push_back({kNames[now.size()], size});
        fill(rest / size);
        now.pop_back();
      }
    };
    fill(devices);
  }
  return meshes;
}

std::vector<MeshCandidate> search_meshes(const Graph& graph, const std::vector<MeshPtr>& meshes,
                                         const std::vector<int64_t>& limits,
                                         const PlannerOptions& options) {
  std::vector<MeshCandidate> candidates;
  for (const MeshPtr& mesh : meshes) {
    std::vector<std::optional<int64_t>> all(limits.begin(), limits.end());
    if (all.empty()) all.push_back(options.memory);
    for (const std::optional<int64_t>& limit : all) {
      if (options.stop.stop_requested()) return candidates;
      PlannerOptions here = options;
      here.mesh = mesh;
      here.memory = limit;
      candidates.push_back({mesh, limit, make_plan(graph, here)});
    }
  }
  return candidates;
}

std::vector<int> fastest_by_limit(const std::vector<MeshCandidate>& candidates,
                                  const std::vector<int64_t>& limits) {
  std::vector<int> fastest;
  for (int64_t limit : limits) {
    int best = -1;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const auto& plan = candidates[i].result.plan;
      if (!plan || plan->memory.peak > limit) continue;
      if (best < 0 || plan->totals.seconds < candidates[best].result.plan->totals.seconds)
        best = static_cast<int>(i);
    }
    fastest.push_back(best);
  }
  return fastest;
}

}  // namespace cleave::plan
