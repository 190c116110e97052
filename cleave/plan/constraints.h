#pragma once

#include "cleave/core/shape.h"
#include "cleave/graph/graph.h"
#include "cleave/plan/plan.h"

namespace cleave::plan {

// The module with the plan in it, in words that XLA takes: its mesh is @mesh, arguments and results
// have shardings, and an `sdy.sharding_constraint` follows every value that an op or a loop makes
// and every change of layout of the plan. XLA refuses sdy.reshard, and ignores shardings of ops.
//
// These are hints. XLA has no word for a pending sum: one is completed where it stands, before the
// next op. And XLA's partitioner chooses the collectives. So it moves the plan's bytes, or more:
// the figures are in docs/guide/planning.md. A program that XLA runs as planned is a manual one.
//
// Arguments and results in uneven shards are whole along those dimensions, as in to_jax, and
// constrained to the planned layout inside.
Graph with_constraints(const Plan& plan, const Graph& graph);

// Without the axes of dimensions that they do not divide, and without pending sums: what XLA can be
// told of an argument or a result.
ShardingSpec even_part(ShardingSpec spec, const Shape& shape);

}  // namespace cleave::plan
