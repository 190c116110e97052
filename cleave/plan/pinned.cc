#include "cleave/plan/pinned.h"

#include <fmt/format.h>

#include "cleave/core/units.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/plan/formulator.h"
#include "cleave/plan/heuristic.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/import/import_passes.h"
#include "cleave/rules/propagate/propagation.h"

namespace cleave::plan {

MeshPtr named(const MeshPtr& mesh) {
  Mesh copy = *mesh;
  if (copy.name.empty()) copy.name = "mesh";
  return std::make_shared<const Mesh>(std::move(copy));
}

namespace {

// An op that says itself how its results lie: a sharding given to them would change the op.
bool states_layouts(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid()) return false;
  const Node& node = graph.node(producer);
  return flow_of(node) == Flow::Manual || !own_sharding_attr(node).empty();
}

// Whether a pin speaks of such a result: it holds for what the users see of it.
bool is_for_users(const PlannedModule& module, const Pin& pin) {
  for (uint32_t v = 0; v < module.names.values.size(); ++v)
    if (states_layouts(module.flat, {v}) &&
        applies(pin, module.names.values[v], module.flat.type({v}).rank()))
      return true;
  return false;
}

}  // namespace

void annotate(PlannedModule& module, const PlannerOptions& options, const MeshPtr& mesh) {
  Graph& flat = module.flat;
  if (!flat.find_mesh(mesh->name)) flat.meshes.push_back(mesh);
  for (uint32_t v = 0; v < module.names.values.size(); ++v)
    for (const Pin& pin : options.pins)
      if (!states_layouts(flat, {v}) &&
          applies(pin, module.names.values[v], flat.type({v}).rank())) {
        ShardingSpec spec = spec_for(pin, mesh, flat.type({v}).rank());
        spec.mesh = mesh;
        verify(spec, flat.type({v}).shape);
        set_sharding(flat, {v}, spec);
      }
}

uint32_t propagate(Graph& graph, const std::function<void(const PropagationEngine&)>& observe) {
  Graph spread = graph;
  add_data_flow_edges(spread);
  uint32_t visits = 0;
  {
    PropagationEngine engine(spread, {.keep_empty_whole = true});
    engine.run();
    if (observe) observe(engine);
    engine.write_back();
    visits = engine.visits();
  }
  sink_data_flow_edges(spread);
  close_shardings(spread);
  // Ids are the same in both. Bodies of manual computations are fitted to their own shardings.
  std::vector<NodeId> nodes;
  graph.walk([&](NodeId id) { nodes.push_back(id); });
  for (NodeId id : nodes)
    if (flow_of(graph.node(id)) != Flow::Manual) graph.node(id).attrs = spread.node(id).attrs;
  for (size_t f = 0; f < graph.functions.size(); ++f) {
    graph.functions[f].arg_attrs = spread.functions[f].arg_attrs;
    graph.functions[f].result_attrs = spread.functions[f].result_attrs;
  }
  return visits;
}

PlannerResult price_annotations(const PlannedModule& module, PlannerOptions options,
                                const MeshPtr& mesh, const char* solver) {
  std::erase_if(options.pins, [&](const Pin& pin) { return !is_for_users(module, pin); });
  options.mesh = mesh;
  PlannerResult result = make_plan(module, options);
  if (result.plan) result.plan->bound = PlanBound::none(solver);
  // That these layouts do not fit says nothing of others.
  if (!result.plan && options.memory)
    result.reason =
        fmt::format("the layouts that {} gives do not fit {}; they hold at least {} at {}", solver,
                    limit_text(*options.memory, options.memory_share, BytesStyle::Log),
                    bytes_text(result.least_memory), result.least_memory_at);
  result.proven = false;
  return result;
}

PlannerResult plan_by_propagation(const Graph& graph, const PlannerOptions& options) {
  const MeshPtr mesh = named(options.mesh);
  PlannedModule module = prepare(graph, options.entry, *options.profile);
  annotate(module, options, mesh);
  propagate(module.flat);
  return price_annotations(module, options, mesh, "propagation");
}

}  // namespace cleave::plan
