#pragma once

#include <string>

#include "cleave/plan/plan.h"

namespace cleave::plan {

// The module with the plan in it is `apply` (apply.h), printed. These are for who shards arguments
// and results and lets a framework do the rest.

// Python: PartitionSpecs of arguments and results, in order, to pass to jax.jit.
//
//   from jax.sharding import PartitionSpec as P
//   mesh = jax.make_mesh((8, 8), ("data", "model"))
//   in_specs = (P("data", None), P(None, ("data", "model")))
//   out_specs = (P(),)
//
// A layout by parts of axes has no such word; it is left out with a comment that says so.
std::string to_jax(const Plan& plan);

// Python: DTensor placements of arguments and results by name.
//
//   mesh = init_device_mesh("cuda", (8, 8), mesh_dim_names=("data", "model"))
//   arguments = {"arg0": [Shard(0), Replicate()], ...}
std::string to_dtensor(const Plan& plan);

}  // namespace cleave::plan
