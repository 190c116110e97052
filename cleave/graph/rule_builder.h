#pragma once

#include <span>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave {

// No dimension of this tensor belongs to the factor.
inline constexpr int kNoDim = -1;

// Builds an OpShardingRule factor by factor. Dimensions that no factor names get a fresh factor of
// size 1 at the end, so that every rule is complete. A dimension that several factors name is their
// product, in the order of the calls (major first); a factor of size 1 is never a part of such a
// product.
//
//   matmul [m, k] x [k, n]:
//     RuleBuilder(graph, node)
//         .factor({0, kNoDim}, {0}, m)
//         .factor({kNoDim, 1}, {1}, n)
//         .factor({1, 0}, {kNoDim}, k, FactorKind::Reduction)
//         .build();
class RuleBuilder {
 public:
  // Takes the ranks of operands and results from the node; values that are not ranked tensors have
  // rank 0.
  RuleBuilder(const Graph& graph, const Node& node);
  RuleBuilder(std::vector<size_t> operand_ranks, std::vector<size_t> result_ranks);

  // One entry per operand and per result: the dimension, or kNoDim.
  RuleBuilder& factor(std::vector<int> operand_dims, std::vector<int> result_dims, int64_t size,
                      FactorKind kind = FactorKind::PassThrough, bool blocked = false,
                      ReduceOp reduce = ReduceOp::Sum);
  // The same dimension of every operand and result.
  RuleBuilder& same_dim(int dim, int64_t size, FactorKind kind = FactorKind::PassThrough,
                        bool blocked = false);
  // One pass-through factor per dimension of `shape`, the same in every operand and result of that
  // rank; tensors of rank 0 (scalars beside tensors) take no part.
  RuleBuilder& pointwise(const Shape& shape);

  OpShardingRule build();

 private:
  OpShardingRule rule_;
};

// One pass-through factor per dimension, the same for `operands` operands and one result: how
// values pass through data-flow edges, barriers and the results of functions.
OpShardingRule identity_rule(const Shape& shape, size_t operands = 1);

}  // namespace cleave
