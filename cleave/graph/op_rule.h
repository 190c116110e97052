#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/core/sharding_rule.h"
#include "cleave/graph/graph.h"

namespace cleave {

// A mark on a node: it runs as its sdy.sharding_rule says, and not as its op allows. Discovery sets
// it to try whether the text is right.
inline constexpr std::string_view kStatedRuleAttr = "cleave.stated_rule";

// The rule of one node, asked for two reasons that need not have one answer:
//
//   a custom call with sdy.sharding_rule      propagates as the text says; runs as its op allows
//   concatenate, conservative                 propagates along all dimensions but its own; runs
//                                             along all
//
// Usually both are one rule, that of the op (OpDef::rule), which is worked out once.
struct OpRule {
  // How shardings spread through the node: its own sdy.sharding_rule, or its op's rule. Null if
  // there is none.
  std::shared_ptr<const OpShardingRule> propagation;
  // Along which factors the node may run in parts: the rule of its op, which for a custom call may
  // be that of its attribute. Null if the op has none, or if a shape is not known. Which of the
  // factors a device can run split is for FactorChooser to say (spmd/factor_axes.h).
  std::shared_ptr<const OpShardingRule> execution;

  // The rule to run `node` by, if it speaks of all its operands and results; null otherwise, and
  // the node needs them whole.
  const OpShardingRule* to_run(const Node& node) const;
};

// If `conservative`, factors along which elements move between shards do not propagate.
OpRule op_rule(const Graph& graph, const Node& node, bool conservative = false);

// The rules of a graph that does not change, each worked out when it is first asked for.
class OpRules {
 public:
  explicit OpRules(const Graph& graph) : graph_(graph), rules_(graph.num_nodes()) {}
  const OpRule& of(NodeId id);

 private:
  const Graph& graph_;
  std::vector<std::optional<OpRule>> rules_;  // by node
};

}  // namespace cleave
