#pragma once

#include <optional>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave {

// The axes that shard each factor of an op while it runs.
using FactorAxes = std::vector<AxisList>;

// Chooses them from what operands have and results want.
//
//   "m k, k n -> m n" with [{"x"}, {"y"}] and [{}, {"y"}]: y is asked for k (by the first operand)
//   and for n (by the second); the larger operand wins, and the other is resharded.
//
// What the tensors say counts in this order: axes that an operand holds explicitly replicated are
// taken by no factor; then lower priorities; then more shards; then more bytes that stay where they
// are; and of a proposal whose axes are taken in part, the prefix that is free.
//
//   [{}, {}], replicated={"x"} and [{}, {"x"}]: nothing is sharded, and the second is gathered
//   [{"x"}p1, {}] and [{}, {"x"}]: n gets x, whatever the sizes are
//
// A factor can be sharded if every shard is the same elements in all tensors. It cannot if it needs
// replication, is a permutation without OpDef::needs, is missing from a result (unless it is a
// reduction), or is part of a compound dimension that its shards do not divide.
//
// A factor borrows if OpDef::needs says which elements its shard takes: shards need not agree then,
// and a dimension of such factors alone takes any axes for each of them. In the gradient of a
// convolution's kernel, "(k o), k -> o" with the image and the output's gradient cut by "x", both k
// (a reduction) and o borrow; k gets "x", as it has more bytes.
class FactorChooser {
 public:
  FactorChooser(const Graph& graph, const Node& node, const OpShardingRule& rule);

  void propose(size_t tensor, const ShardingSpec& spec);  // operands first, then results
  void bar(const AxisList& axes);                         // no factor takes them
  FactorAxes choose() const;
  // The lowest priority with which the axes that a factor got were proposed; none if that is
  // without a priority.
  std::optional<int64_t> priority_of(FactorIndex factor, const AxisList& axes) const;

  bool can_shard(FactorIndex factor) const { return runs_sharded_[factor]; }
  bool borrows(FactorIndex factor) const { return borrows_[factor]; }
  // Whether it can be sharded, and no device then needs elements of others. The ways to run an op
  // that the planner considers shard such factors alone.
  bool runs_apart(FactorIndex factor) const;
  // Whether the op can run with these axes, each of a factor that can be sharded, as they are.
  bool is_aligned(const FactorAxes& axes) const;

 private:
  struct Candidate {
    FactorIndex factor;
    AxisList axes;
    double bytes;
    std::optional<int64_t> priority;
  };

  bool moves_elements(FactorIndex factor) const;
  bool is_borrowed(FactorIndex factor) const;
  bool all_borrow(const DimFactors& factors) const;
  bool runs_sharded(FactorIndex factor) const;
  void drop_misaligned(FactorAxes& axes) const;
  const Shape& shape(size_t tensor) const;

  const Graph& graph_;
  const Node& node_;
  const OpShardingRule& rule_;
  std::vector<bool> borrows_;       // by factor
  std::vector<bool> runs_sharded_;  // by factor
  std::vector<bool> in_compound_;   // by factor
  std::vector<Candidate> candidates_;
  AxisList barred_;
};

bool has_factor(const TensorFactors& tensor, FactorIndex factor);

// Writes the axes of the factors into the dimensions of a spec.
void place(const FactorAxes& axes, const TensorFactors& tensor, ShardingSpec& spec);

}  // namespace cleave
