#include "cleave/plan/mesh_search.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

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
                                         const PlannerOptions& options,
                                         const MeshObserver& observer) {
  const PlannedModule module = prepare(graph, options.entry, *options.profile);
  std::vector<MeshCandidate> candidates;
  for (const MeshPtr& mesh : meshes) {
    if (limits.empty()) candidates.push_back({mesh, options.memory, {}});
    for (int64_t limit : limits) candidates.push_back({mesh, limit, {}});
  }
  // Each is made by one thread, so that as many as there are threads are made at a time.
  std::mutex mutex;
  std::vector<bool> is_done(candidates.size());
  size_t next = 0, done = 0;
  std::exception_ptr error;
  auto work = [&] {
    while (true) {
      std::unique_lock lock(mutex);
      if (error || next == candidates.size() || options.stop.stop_requested()) return;
      MeshCandidate& candidate = candidates[next++];
      lock.unlock();
      try {
        PlannerOptions here = options;
        here.mesh = candidate.mesh;
        here.memory = candidate.limit;
        here.threads = 1;
        candidate.result = make_plan(module, here);
        lock.lock();
        is_done[&candidate - candidates.data()] = true;
        if (observer) observer(candidate, ++done, candidates.size());
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!error) error = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int t = 1; t < options.threads; ++t) others.emplace_back(work);
    work();
  }
  if (error) std::rethrow_exception(error);
  std::vector<MeshCandidate> made;
  for (size_t i = 0; i < candidates.size(); ++i)
    if (is_done[i]) made.push_back(std::move(candidates[i]));
  share_between_limits(made);
  return made;
}

namespace {

void take_plan(MeshCandidate& candidate, const Plan& plan) {
  PlannerResult& result = candidate.result;
  PlanBound bound = plan.bound;
  // What is known of this limit: a bound of its own, or none but what any plan takes.
  bound.lower_bound = result.plan ? result.plan->bound.lower_bound : 0;
  bound.step_bound = result.plan ? result.plan->bound.step_bound : 0;
  bound.alike = result.plan ? result.plan->bound.alike : plan.bound.alike;
  bound.cut = result.plan ? result.plan->bound.cut : true;
  result.plan = plan;
  result.plan->bound = bound;
  result.plan->memory.limit = candidate.limit;
}

void update_gap(Plan& plan) {
  PlanBound& bound = plan.bound;
  const double seconds = bounded_value(plan);
  constexpr double kRounding = 1e-9;
  bound.proven = bound.lower_bound >= seconds * (1 - kRounding);
  bound.lower_bound = std::min(bound.lower_bound, seconds);
  bound.gap = bound.proven ? 0 : 1 - bound.lower_bound / std::max(1e-30, seconds);
  const double step = plan.totals.step_seconds;
  bound.step_bound = std::min(bound.step_bound, step);
  bound.step_gap = 1 - bound.step_bound / std::max(1e-30, step);
}

}  // namespace

void share_between_limits(std::vector<MeshCandidate>& candidates) {
  std::vector<MeshCandidate*> order;
  for (MeshCandidate& candidate : candidates)
    if (candidate.limit) order.push_back(&candidate);
  std::stable_sort(order.begin(), order.end(), [](const MeshCandidate* a, const MeshCandidate* b) {
    return *a->limit < *b->limit;
  });
  for (size_t i = 0; i < order.size(); ++i) {
    auto is_same_mesh = [&](size_t j) { return order[j]->mesh == order[i]->mesh; };
    std::optional<Plan>& plan = order[i]->result.plan;
    for (size_t j = 0; j < order.size(); ++j) {
      const std::optional<Plan>& other = order[j]->result.plan;
      if (j == i || !is_same_mesh(j) || !other || other->memory.peak > *order[i]->limit) continue;
      if (plan && objective_value(*plan) <= objective_value(*other)) continue;
      take_plan(*order[i], *other);
      update_gap(*plan);
    }
  }
  // A larger limit allows more: no plan within a smaller one is below its bound.
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = i + 1; j < order.size(); ++j) {
      std::optional<Plan>&tight = order[i]->result.plan, &loose = order[j]->result.plan;
      if (order[i]->mesh != order[j]->mesh || !tight || !loose) continue;
      if (loose->bound.lower_bound <= tight->bound.lower_bound) continue;
      if (tight->bound.alike != loose->bound.alike || tight->bound.proven) continue;
      tight->bound.lower_bound = loose->bound.lower_bound;
      update_gap(*tight);
    }
}

std::vector<int> fastest_by_limit(const std::vector<MeshCandidate>& candidates,
                                  const std::vector<int64_t>& limits) {
  std::vector<int> fastest;
  for (int64_t limit : limits) {
    int best = -1;
    for (size_t i = 0; i < candidates.size(); ++i) {
      const auto& plan = candidates[i].result.plan;
      if (!plan || plan->memory.peak > limit) continue;
      if (best < 0 || objective_value(*plan) < objective_value(*candidates[best].result.plan))
        best = static_cast<int>(i);
    }
    fastest.push_back(best);
  }
  return fastest;
}

}  // namespace cleave::plan
