#pragma once

#include <optional>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"
#include "cleave/kernels/reduce.h"

namespace cleave {

// The reducers of a region that folds n values at once with n operators that have nothing to do
// with each other, by result; nothing where the region is anything else.
//   (a, b) { return add a, b }                            -> {Sum}
//   (a, i, b, j) { return maximum a, b; add i, j }        -> {Max, Sum}
//   (a, i, b, j) { return select (a > b), a, b; ... }     -> nothing: argmax
std::optional<std::vector<Reducer>> recognise_reducers(const Graph& graph, RegionId region);

// The reduction by which partial results are completed, where there is one. On Bool, add and
// maximum are Or, multiply and minimum And.
std::optional<ReduceOp> reduce_op(Reducer reducer, DType dtype);
// The same for all results of a region; nothing unless it is recognised and they agree.
std::optional<ReduceOp> common_reduce_op(const Graph& graph, RegionId region);

// Whether a value is a constant, all of whose elements leave others as they are under the reducer:
// the zeros of Sum, the lowest value of Max.
bool is_identity_constant(const Graph& graph, ValueId value, Reducer reducer);

}  // namespace cleave
