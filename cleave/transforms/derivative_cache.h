#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/runtime/replay_plan.h"

namespace cleave {

// A function that was derived from a traced one.
struct DerivedFunction {
  std::shared_ptr<const Graph> graph;
  std::string name;

  const Function& function() const { return *graph->find_function(name); }
};

// Derivatives of traces, so that a training step that calls grad(f) again derives nothing. f itself
// is traced at every call, because it may do something else; if its graph is the same as that of a
// former call (every op, constant, type and layout), so is what was derived from it. A thread has
// its own, the 64 that were used last.
//
// `kind` names the transform, `numbers` are its other arguments, and `derive` adds the new function
// to the graph and gives its name.
DerivedFunction derived(std::string_view kind, const std::vector<size_t>& numbers, Graph graph,
                        const std::function<std::string(Graph&)>& derive);
// Records it on arguments.
std::vector<Tensor> record_derived(const DerivedFunction& derived, const std::vector<Tensor>& args);

// What the cache of this thread did so far.
struct DerivativeCacheStats {
  int64_t hits = 0, misses = 0;
};
DerivativeCacheStats derivative_cache_stats();

}  // namespace cleave
