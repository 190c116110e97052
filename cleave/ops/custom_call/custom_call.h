#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/graph/rule_builder.h"
#include "cleave/kernels/array.h"

namespace cleave {

class EvalContext;

// Marks on values, for compilers: the result is the operand.
bool is_identity_call(std::string_view target);

// A layout of XLA: the dimensions from minor to major, dense<[1, 0]> : tensor<2xindex>.
Attribute layout_attr(std::span<const int64_t> order);
// Of a call of @LayoutConstraint, by which XLA keeps the dimensions of an array in order, whatever
// layout its neighbours want.
AttrDict dimensions_in_order(size_t rank);

// Whether the rule or the kernel of a target is known here, so that nothing else may be registered
// for it.
bool is_builtin_call(std::string_view target);

// LAPACK as JAX calls it on CPU: "lapack_spotrf_ffi", "lapack_zheevd_ffi", ...; and the names under
// which it calls the same things on GPU: "cusolver_potrf_ffi", "hipsolver_syevd_ffi", ...; and on
// TPU: "Qr", "Eigh", "LuDecomposition", ...
bool is_linalg_call(std::string_view target);
// "lapack_spotrf_ffi" and "cusolver_potrf_ffi" -> "potrf"; complex names are those of the real
// routines: "lapack_cunmqr_ffi" -> "ormqr".
std::string_view linalg_routine(std::string_view target);
// Throws UserError if operands or results are not those of the routine.
void verify_linalg_call(const Graph& graph, const Node& node, std::string_view target);
std::vector<Array> eval_linalg_call(const Graph& graph, const Node& node, std::string_view target,
                                    std::span<const Array> operands);

// Whether a dimension of an operand or result (operands first) stands before the matrices or counts
// right-hand sides, each of which is solved on its own.
bool is_linalg_batch_dim(const Graph& graph, const Node& node, size_t tensor, size_t dim);

// How many dimensions of operand 0 are not batches: 2, or 1 of bands and pivots.
size_t linalg_matrix_dims(std::string_view target);
// For the attribute sdy.sharding_rule of such a call: the first `batch` dimensions are the same in
// all operands and results, and nothing else is split.
OpShardingRule matrix_call_rule(const std::vector<Shape>& operands,
                                const std::vector<Shape>& results, size_t batch);

}  // namespace cleave
