#include "cleave/compile/compile_instance.h"

#include <algorithm>

#include "cleave/compile/one_library_thread.h"
#include "cleave/core/error.h"
#include "cleave/graph/verify.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

void add_timings(std::vector<PassTiming>& sum, const std::vector<PassTiming>& timings) {
  for (const PassTiming& timing : timings) {
    const auto it = std::find_if(
        sum.begin(), sum.end(), [&](const PassTiming& other) { return other.name == timing.name; });
    if (it == sum.end())
      sum.push_back(timing);
    else
      it->seconds += timing.seconds;
  }
}

void mark_donated(Graph& graph, const std::string& entry, const std::vector<size_t>& arguments) {
  if (arguments.empty()) return;
  Function& function = *graph.find_function(entry);
  function.arg_attrs.resize(function.arg_types.size());
  for (size_t i : arguments) {
    if (i >= function.arg_types.size())
      throw_user("argument {} of @{} is to be donated, which takes {}", i, entry,
                 function.arg_types.size());
    function.arg_attrs[i].set("jax.buffer_donor", Attribute(true));
  }
}

}  // namespace

std::optional<DeviceCode> compile_instance(Instance instance, const std::vector<PassCall>& passes,
                                           const std::vector<size_t>& donate,
                                           const LowerOptions& options,
                                           std::vector<PassTiming>& timings) {
  mark_donated(instance.graph, instance.entry, donate);
  instance.transfers.resize(instance.graph.num_nodes());
  instance.origin.resize(instance.graph.num_nodes());
  inline_calls(instance.graph, [&](NodeId from, NodeId to) {
    const size_t size = to.index + 1;
    if (instance.transfers.size() < size) instance.transfers.resize(size);
    if (instance.origin.size() < size) instance.origin.resize(size);
    instance.transfers[to.index] = instance.transfers[from.index];
    instance.origin[to.index] = instance.origin[from.index];
  });
  if (!can_lower(instance.graph, instance.entry)) return std::nullopt;
  // Shardings have done their work.
  if (!instance.transfers.empty())
    for (uint32_t i = 0; i < instance.graph.num_nodes(); ++i)
      instance.graph.node({i}).attrs.erase("sdy.sharding");
  PassContext context;
  PipelineObserver observer;
#ifndef NDEBUG
  observer.after = [](const PassCall& call, const Graph& graph) {
    try {
      verify_graph(graph, {.shardings = false});
    } catch (const UserError& error) {
      throw_internal("after {}: {}", call.name, error.what());
    }
  };
#endif
  add_timings(timings, run_pipeline(instance.graph, passes, context, observer));
  const OneLibraryThread library;
  return lower(std::move(instance), options);
}

}  // namespace cleave
