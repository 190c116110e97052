#pragma once

#include <initializer_list>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"
#include "cleave/graph/rule_builder.h"

// Rules and partial transfers that many ops share. Each is a RuleFn or PartialFn, or builds one.
namespace cleave {

// Every reduction that a value can be partial under.
inline constexpr std::initializer_list<ReduceOp> kAllReduceOps = {
    ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::Prod,
    ReduceOp::And, ReduceOp::Or,  ReduceOp::Avg};

// Those under which equal parts reduce to themselves, so that a complete value is also one with
// every part equal to it.
inline constexpr std::initializer_list<ReduceOp> kIdempotentReduceOps = {
    ReduceOp::Max, ReduceOp::Min, ReduceOp::And, ReduceOp::Or, ReduceOp::Avg};

// add: ([i, j],[i, j])->([i, j]). Scalars beside tensors take no part.
OpShardingRule pointwise_rule(const Graph& graph, const Node& node);
// Pointwise in dimensions in which the sizes of the first operand and the result agree; a factor of
// `kind` in the others.
//   slice 8x4 -> 8x2: ([i, j])->([i, j]) {i=8, j=4} permutation={j}
OpShardingRule pointwise_rule_with_mismatch(const Graph& graph, const Node& node, FactorKind kind,
                                            bool blocked);
// Nothing corresponds and nothing propagates.
OpShardingRule no_rule(const Graph& graph, const Node& node);

// Changes of a rule, for OpDef::conservative.

// Gives every dimension that a factor alone makes up a factor of its own, of size 1, so that
// nothing propagates along it.
void dissolve_factor(OpShardingRule& rule, FactorIndex factor);
// Drops the factors that no dimension has any more, and numbers the others anew.
void drop_unused_factors(OpShardingRule& rule);

// All operands marked, the same reduction out: one row for each.
PartialTransfer rows_all_operands(const Node& node, std::initializer_list<ReduceOp> ops);
// Operand `i` alone.
PartialTransfer rows_of_operand(const Node& node, size_t i, std::initializer_list<ReduceOp> ops);
void append(PartialTransfer& rows, PartialTransfer more);

// Elements are moved, not computed: all operands partial under any reduction, and so is the result.
PartialTransfer view_partial(const Graph& graph, const Node& node);
// The same for operand 0 alone; the rest are indices, which must be complete.
PartialTransfer view_partial_of_first(const Graph& graph, const Node& node);
// f(x + y) = f(x) + f(y) in all operands together: add, negate, real.
PartialTransfer linear_partial(const Graph& graph, const Node& node);
// Linear in each operand when the other is complete: multiply, dot_general.
PartialTransfer bilinear_partial(const Graph& graph, const Node& node);

}  // namespace cleave
