#include "cleave/transforms/cheaper_program.h"

#include <algorithm>

#include "cleave/plan/program_cost.h"
#include "cleave/rules/sharding_groups.h"
#include "cleave/rules/sharding_passes.h"
#include "cleave/spmd/combine_reductions.h"
#include "cleave/spmd/reshard.h"

namespace cleave {
namespace {

Program traced_program(const Graph& graph, const MeshPtr& mesh) {
  Program program = partition(graph, {.entry = graph.functions[0].name,
                                      .mesh = mesh,
                                      .keep_results = true,
                                      .results_are_wishes = true,
                                      .verified = true});
  combine_scalar_reductions(program);
  return program;
}

bool asks_propagation(const ShardingSpec& spec) {
  return !spec.replicated.empty() || std::ranges::any_of(spec.dims, [](const DimSpec& dim) {
    return dim.open || dim.priority.has_value();
  });
}

// Whether the function says something that only propagation takes up.
bool asks_propagation(const Graph& graph) {
  bool asks = !find_sharding_groups(graph).empty();
  graph.walk([&](NodeId id) {
    for (const NamedAttribute& attr : graph.node(id).attrs.entries()) {
      if (const auto* one = attr.value.as<ShardingAttr>()) asks |= asks_propagation(one->spec);
      if (const auto* many = attr.value.as<ShardingsAttr>())
        for (const ShardingSpec& spec : many->specs) asks |= asks_propagation(spec);
    }
  });
  return asks;
}

struct Seconds {
  double transfers = 0;
  double all = 0;
};

// What is pending at the end is still to be paid for, by whoever looks at it.
Seconds seconds_of(const Program& program, const MachineProfile& profile) {
  const plan::ProgramCost cost = plan::program_cost(program, profile);
  Seconds seconds{cost.transfer_seconds, cost.seconds};
  Resharder resharder(profile);
  const Graph& graph = program.graph;
  for (ValueId value : graph.node(graph.terminator(program.entry_function().body)).operands) {
    const ShardingSpec& spec = program.layout(value).spec;
    if (!spec.is_partial()) continue;
    ShardingSpec complete = spec;
    complete.partial.clear();
    const Type& type = graph.type(value);
    const double more = resharder.seconds(spec, complete, type.shape, type.dtype);
    seconds.transfers += more;
    seconds.all += more;
  }
  return seconds;
}

}  // namespace

Program cheaper_program(Graph trace, const MeshPtr& mesh) {
  Graph propagated = trace;
  run_propagation_pipeline(propagated,
                           {.keep_uneven = true, .runs_along = runs_along, .verified = true});
  Program first = traced_program(propagated, mesh);
  const MachineProfile& profile = default_profile();
  const Seconds cost = seconds_of(first, profile);
  if (cost.transfers == 0 || asks_propagation(trace)) return first;
  remove_dead_ops(trace);
  Program second = traced_program(trace, mesh);
  const Seconds other = seconds_of(second, profile);
  const bool cheaper = other.transfers < cost.transfers && other.all < cost.all;
  return cheaper ? std::move(second) : std::move(first);
}

}  // namespace cleave
