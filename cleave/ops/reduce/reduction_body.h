#pragma once

#include <optional>
#include <vector>

#include "cleave/core/sharding.h"
#include "cleave/graph/graph.h"
#include "cleave/kernels/reduce.h"

namespace cleave {

// What reduce and reduce_window share: operands are n inputs, then n initial values, and a body
// folds n values into n others.
size_t num_reduced(const Node& node);  // n
// The element type in which the body folds input i: that of its arguments, which may be wider.
DType body_dtype(const Graph& graph, const Node& node, size_t i);
// The same for a type that is kept as text: a quantized one may become wider as well.
std::string body_text(const Graph& graph, const Node& node, size_t i);
// Whether a body may fold values of the one type as values of the other: the kind of number
// (integer, float, complex) stays, and integers and complex numbers do not become narrower.
//   (I8, I32) -> true   (F32, BF16) -> true   (I32, I8) -> false   (I32, F32) -> false
bool is_promotable(DType from, DType to);
// Throws UserError unless the node has one region of 2n arguments and n results, of types to which
// those of the operands are promotable.
void verify_reduction_body(const Graph& graph, const Node& node);

// The reducers of a region that folds n values at once with n operators that have nothing to do
// with each other, by result; nothing if the region is anything else.
//   (a, b) { return add a, b }                            -> {Sum}
//   (a, i, b, j) { return maximum a, b; add i, j }        -> {Max, Sum}
//   (a, i, b, j) { return select (a > b), a, b; ... }     -> nothing: argmax
std::optional<std::vector<Reducer>> recognise_reducers(const Graph& graph, RegionId region);

// The reduction by which partial results are completed, if there is one. On Bool, add and maximum
// are Or, multiply and minimum And.
std::optional<ReduceOp> reduce_op(Reducer reducer, DType dtype);
// The same for all results of a region; nothing unless it is recognised and they agree.
std::optional<ReduceOp> common_reduce_op(const Graph& graph, RegionId region);

// Whether a value is a constant, all of whose elements leave others as they are under the reducer:
// the zeros of Sum, the lowest value of Max.
bool is_identity_constant(const Graph& graph, ValueId value, Reducer reducer);

}  // namespace cleave
