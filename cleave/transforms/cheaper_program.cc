#include "cleave/transforms/cheaper_program.h"

#include <algorithm>

#include "cleave/analyze/program_cost.h"
#include "cleave/reshard/reshard.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/pipelines.h"
#include "cleave/rules/sharding_groups.h"
#include "cleave/spmd/combine_reductions.h"

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

// Of two programs that take as long as each other, up to this part of it, the one that communicates
// less is taken: prices are not more exact than that.
constexpr double kAsGood = 0.05;

struct Traffic {
  double seconds = 0, count = 0, bytes = 0;
  double with_compute = 0;  // seconds

  void add(double more_seconds, double more_count, double more_bytes) {
    if (more_bytes == 0) return;
    seconds += more_seconds;
    count += more_count;
    bytes += more_bytes;
  }
  bool is_less_than(const Traffic& other) const {
    return count <= other.count && bytes <= other.bytes &&
           (count < other.count || bytes < other.bytes);
  }
};

// Sums that are pending at the end are still to be paid for, when their values are read.
Traffic traffic_of(const Program& program, const MachineProfile& profile) {
  Traffic traffic;
  const analyze::ProgramCost cost = analyze::program_cost(program, profile);
  for (const analyze::CollectiveCostSum& sum : cost.transfers)
    traffic.add(sum.seconds, sum.executions, sum.bytes);
  Resharder resharder(profile);
  const Graph& graph = program.graph;
  for (ValueId value : graph.node(graph.terminator(program.entry_function().body)).operands) {
    const ShardingSpec& spec = program.layout(value).spec;
    if (!spec.is_partial()) continue;
    ShardingSpec complete = spec;
    complete.partial.clear();
    const Type& type = graph.type(value);
    const ReshardPlan plan = resharder.plan(spec, complete, type.shape, type.dtype);
    traffic.add(plan.seconds, 1, static_cast<double>(plan.bytes));
  }
  traffic.with_compute = cost.compute_seconds + traffic.seconds;
  return traffic;
}

bool is_better(const Traffic& a, const Traffic& b) {
  if (a.is_less_than(b)) return a.with_compute < b.with_compute * (1 + kAsGood);
  return a.seconds < b.seconds && a.with_compute < b.with_compute && !b.is_less_than(a);
}

}  // namespace

Program cheaper_program(Graph trace, const MeshPtr& mesh) {
  Graph propagated = trace;
  run_propagation_pipeline(propagated,
                           {.keep_uneven = true, .runs_along = runs_along, .verified = true});
  Program first = traced_program(propagated, mesh);
  const MachineProfile& profile = default_profile();
  const Traffic traffic = traffic_of(first, profile);
  if (traffic.count == 0 || asks_propagation(trace)) return first;
  remove_dead_ops(trace);
  Program second = traced_program(trace, mesh);
  return is_better(traffic_of(second, profile), traffic) ? std::move(second) : std::move(first);
}

}  // namespace cleave
