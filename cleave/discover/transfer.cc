#include "cleave/discover/transfer.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/spmd/factor_axes.h"

namespace cleave {
namespace {

// Where a factor stands in a tensor: the dimension whose first factor it is.
std::optional<int64_t> dim_of_factor(const TensorFactors& tensor, FactorIndex factor) {
  for (size_t d = 0; d < tensor.size(); ++d)
    if (!tensor[d].empty() && tensor[d].front() == factor) return static_cast<int64_t>(d);
  return std::nullopt;
}

std::optional<std::vector<Placement>> along_factor(const OpShardingRule& rule,
                                                   const std::vector<Placement>& operands, int w) {
  FactorIndex factor = -1;
  for (size_t i = 0; i < operands.size() && factor < 0; ++i)
    if (operands[i].is_shard()) {
      const DimFactors& dim = rule.operands[i][operands[i].dim];
      factor = dim.front();
      if (dim.size() > 1 && rule.factors[factor].size % w != 0) return std::nullopt;
    }
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::optional<int64_t> dim = dim_of_factor(rule.operands[i], factor);
    if (operands[i].is_shard() ? dim != operands[i].dim : has_factor(rule.operands[i], factor))
      return std::nullopt;
  }
  const Factor& what = rule.factors[factor];
  std::vector<Placement> results;
  for (const TensorFactors& tensor : rule.results) {
    const std::optional<int64_t> dim = dim_of_factor(tensor, factor);
    if (what.kind == FactorKind::Reduction) {
      results.push_back(Placement::partial(what.reduce));
    } else if (what.kind == FactorKind::PassThrough && dim) {
      if (tensor[*dim].size() > 1 && what.size % w != 0) return std::nullopt;
      results.push_back(Placement::shard(static_cast<int>(*dim)));
    } else {
      return std::nullopt;
    }
  }
  return results;
}

std::optional<std::vector<Placement>> through_partial(const OpShardingRule& rule,
                                                      const PartialTransfer& partial,
                                                      const std::vector<Placement>& operands) {
  std::vector<bool> mask;
  std::optional<ReduceOp> op;
  for (const Placement& placement : operands) {
    if (placement.is_shard()) return std::nullopt;
    mask.push_back(placement.is_partial());
    if (!placement.is_partial()) continue;
    if (op && *op != placement.reduce) return std::nullopt;
    op = placement.reduce;
  }
  for (const PartialRow& row : partial)
    if (row.in == *op && row.operands == mask)
      return std::vector<Placement>(rule.results.size(), Placement::partial(row.out));
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<Placement>> transfer(const OpShardingRule& rule,
                                               const PartialTransfer& partial,
                                               const std::vector<Placement>& operands, int w) {
  const bool any_partial = std::any_of(operands.begin(), operands.end(),
                                       [](const Placement& p) { return p.is_partial(); });
  const bool any_shard = std::any_of(operands.begin(), operands.end(),
                                     [](const Placement& p) { return p.is_shard(); });
  if (any_partial) return through_partial(rule, partial, operands);
  if (any_shard) return along_factor(rule, operands, w);
  return std::vector<Placement>(rule.results.size(), Placement::replicate());
}

std::optional<OpShardingRule> executed_rule(const Graph& graph, const Node& node) {
  const OpRule rules = op_rule(graph, node);
  // What the text says of an op is a claim to be tried too.
  const bool is_stated = node.attrs.has(kShardingRuleAttr) && rules.propagation;
  const auto& tried = is_stated ? rules.propagation : rules.execution;
  if (!tried) return std::nullopt;
  std::optional<OpShardingRule> rule = *tried;
  for (size_t f = 0; f < rule->factors.size(); ++f) {
    Factor& factor = rule->factors[f];
    const bool refused = node.def->shardable &&
                         !node.def->shardable(graph, node, *rule, static_cast<FactorIndex>(f));
    if (refused || (factor.kind == FactorKind::Reduction && factor.unknown_reduce))
      factor.kind = FactorKind::NeedReplication;
  }
  return rule;
}

PartialTransfer partial_of(const Graph& graph, const Node& node) {
  return node.def->partial ? node.def->partial(graph, node) : PartialTransfer{};
}

std::optional<std::vector<Placement>> transfer_through(const Graph& definition,
                                                       const std::vector<Placement>& operands,
                                                       int w) {
  const Function& main = definition.functions.front();
  const Region& body = definition.region(main.body);
  // Nothing: a splat constant, which fits wherever it is needed.
  std::vector<std::optional<Placement>> placements(definition.num_values());
  for (size_t i = 0; i < operands.size(); ++i) placements[body.args[i].index] = operands[i];
  for (NodeId id : body.nodes) {
    const Node& node = definition.node(id);
    if (node.def->has(kTerminator)) {
      std::vector<Placement> results;
      for (ValueId value : node.operands)
        results.push_back(placements[value.index].value_or(Placement::replicate()));
      return results;
    }
    const Attribute* value = node.attrs.find("value");
    if (node.operands.empty()) {
      const bool splat =
          value && value->as<ElementsAttr>() && value->as<ElementsAttr>()->literal.splat;
      if (!splat) placements[node.results[0].index] = Placement::replicate();
      continue;
    }
    const std::optional<OpShardingRule> found = executed_rule(definition, node);
    if (!found) return std::nullopt;
    const OpShardingRule& rule = *found;
    if (rule.operands.size() != node.operands.size()) return std::nullopt;
    std::vector<Placement> inputs;
    const std::optional<Placement>* sharded = nullptr;
    size_t sharded_operand = 0;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const auto& placement = placements[node.operands[i].index];
      if (placement && placement->is_shard() && !sharded) {
        sharded = &placement;
        sharded_operand = i;
      }
      inputs.push_back(placement.value_or(Placement::replicate()));
    }
    if (sharded) {
      const FactorIndex factor = rule.operands[sharded_operand][(*sharded)->dim].front();
      for (size_t i = 0; i < node.operands.size(); ++i) {
        if (placements[node.operands[i].index]) continue;
        if (auto dim = dim_of_factor(rule.operands[i], factor))
          inputs[i] = Placement::shard(static_cast<int>(*dim));
      }
    }
    const auto results = transfer(rule, partial_of(definition, node), inputs, w);
    if (!results) return std::nullopt;
    for (size_t r = 0; r < node.results.size(); ++r)
      placements[node.results[r].index] = (*results)[r];
  }
  return std::nullopt;
}

}  // namespace cleave
