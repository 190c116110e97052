#include "cleave/plan/pinned.h"

#include "cleave/plan/formulator.h"
#include "cleave/plan/heuristic.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/propagation.h"
#include "cleave/rules/sharding_passes.h"
#include "cleave/rules/value_sharding.h"

namespace cleave::plan {

MeshPtr named(const MeshPtr& mesh) {
  Mesh copy = *mesh;
  if (copy.name.empty()) copy.name = "mesh";
  return std::make_shared<const Mesh>(std::move(copy));
}

Graph annotated(const Graph& graph, const PlannerOptions& options, const MeshPtr& mesh) {
  Graph flat = flatten(graph, options.entry);
  if (!flat.find_mesh(mesh->name)) flat.meshes.push_back(mesh);
  const Names names = name_everything(flat, options.entry);
  for (uint32_t v = 0; v < names.values.size(); ++v)
    for (const Pin& pin : options.pins)
      if (applies(pin, names.values[v], flat.type({v}).rank())) {
        ShardingSpec spec = spec_for(pin, mesh, flat.type({v}).rank());
        spec.mesh = mesh;
        verify(spec, flat.type({v}).shape);
        set_sharding(flat, {v}, spec);
      }
  return flat;
}

uint32_t propagate(Graph& graph) {
  add_data_flow_edges(graph);
  uint32_t visits = 0;
  {
    PropagationEngine engine(graph, {});
    engine.run();
    engine.write_back();
    visits = engine.visits();
  }
  sink_data_flow_edges(graph);
  close_shardings(graph);
  return visits;
}

PlannerResult price_annotations(const Graph& graph, PlannerOptions options, const MeshPtr& mesh,
                                const char* solver) {
  options.pins.clear();
  options.mesh = mesh;
  PlannerResult result = make_plan(graph, options);
  if (result.plan) {
    result.plan->bound.solver = solver;
    // The bound is that of the layouts given, not of all.
    result.plan->bound.proven = false;
  }
  return result;
}

PlannerResult plan_by_propagation(const Graph& graph, const PlannerOptions& options) {
  const MeshPtr mesh = named(options.mesh);
  Graph flat = annotated(graph, options, mesh);
  propagate(flat);
  return price_annotations(flat, options, mesh, "propagation");
}

}  // namespace cleave::plan
