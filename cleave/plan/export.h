#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// The module with the plan in it is `apply` (apply.h), printed. These are for callers that shard
// arguments and results and let a framework do the rest.

// Layouts of arguments and results as a framework can be told them: without axes that do not divide
// their dimension (`uneven` says which), on a mesh whose axes are cut where a layout is by parts of
// one (model=8 as model_1=2 and model_2=4). `graph` is the module of the plan; throws UserError if
// it is another one.
struct BorderLayout {
  std::string name;
  ShardingSpec planned;
  ShardingSpec spec;   // without axes that do not divide their dimension
  std::string uneven;  // "; dimension 0 is planned as {"x"}, 9 over 4 is uneven"; usually empty
};
struct BorderLayouts {
  MeshPtr mesh;
  std::vector<std::string> notes;  // on how axes were cut
  std::vector<BorderLayout> arguments, results;
};
BorderLayouts border_layouts(const Plan& plan, const Graph& graph);

// Python: PartitionSpecs of arguments and results, in order, to pass to jax.jit.
//
//   from jax.sharding import AxisType, PartitionSpec as P
//   mesh = jax.make_mesh((8, 8), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
//   in_specs = (P("data"), P(None, ("data", "model")))
//   out_specs = (P(),)
//
//   shardings = [NamedSharding(mesh, spec) for spec in in_specs]      # the leaves of the arguments
//
// If a layout is by parts of an axis, the mesh has those parts for axes (model=8 as model_1=2
// and model_2=4). JAX takes no arguments in uneven shards: such dimensions are left whole, with a
// comment that says so. `graph` is the module of the plan.
std::string to_jax(const Plan& plan, const Graph& graph);

// Python: DTensor placements of arguments and results by name.
//
//   mesh = init_device_mesh("cuda", (8, 8), mesh_dim_names=("data", "model"))
//   arguments = {"arg0": [Shard(0), Replicate()], ...}
std::string to_dtensor(const Plan& plan);

// A plan in any of its forms: "manual" (one manual computation, which XLA runs exactly as planned),
// "spmd" (the program of a device with its collectives), "constraints" (on every value, which XLA
// takes for hints), "sdy" (the module with shardings and reshards), "jax" and "dtensor". `profile`
// is of the plan's machine. Throws UserError that lists them.
std::string export_as(std::string_view form, const Plan& plan, const Graph& graph,
                      const MachineProfile& profile);

}  // namespace cleave::plan
