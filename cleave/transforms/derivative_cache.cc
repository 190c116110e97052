#include "cleave/transforms/derivative_cache.h"

#include <list>

#include "cleave/runtime/signature.h"
#include "cleave/runtime/trace_scope.h"

namespace cleave {
namespace {

constexpr size_t kMostEntries = 64;
// Of one function: arguments of as many layouts.
constexpr size_t kMostPlans = 4;

struct Entry {
  uint64_t hash;
  std::string kind;
  std::vector<size_t> numbers;
  Graph source;
  DerivedFunction derived;
  std::list<ReplayPlan> plans;
};

struct Cache {
  std::list<Entry> entries;  // the last that was used first
  DerivativeCacheStats stats;
};

Cache& cache() {
  thread_local Cache cache;
  return cache;
}

}  // namespace

DerivedFunction derived(std::string_view kind, const std::vector<size_t>& numbers, Graph graph,
                        const std::function<std::string(Graph&)>& derive) {
  std::list<Entry>& entries = cache().entries;
  const uint64_t hash = structure_hash(graph);
  for (auto it = entries.begin(); it != entries.end(); ++it) {
    if (it->hash != hash || it->kind != kind || it->numbers != numbers ||
        !same_structure(graph, it->source))
      continue;
    ++cache().stats.hits;
    entries.splice(entries.begin(), entries, it);
    return it->derived;
  }
  ++cache().stats.misses;
  Graph source = graph;
  DerivedFunction made;
  made.name = derive(graph);
  made.graph = std::make_shared<const Graph>(std::move(graph));
  entries.push_front({hash, std::string(kind), numbers, std::move(source), made, {}});
  if (entries.size() > kMostEntries) entries.pop_back();
  return made;
}

std::vector<Tensor> record_derived(const DerivedFunction& derived,
                                   const std::vector<Tensor>& args) {
  for (Entry& entry : cache().entries) {
    if (entry.derived.graph != derived.graph) continue;
    for (const ReplayPlan& plan : entry.plans)
      if (plan.fits(args)) return plan.run(args);
    ReplayPlan plan;
    std::vector<Tensor> results = replay(*derived.graph, derived.function(), args, plan);
    if (plan.valid) entry.plans.push_front(std::move(plan));
    if (entry.plans.size() > kMostPlans) entry.plans.pop_back();
    return results;
  }
  return replay(*derived.graph, derived.function(), args);
}

DerivativeCacheStats derivative_cache_stats() { return cache().stats; }

}  // namespace cleave
