#include <fmt/core.h>

#include <algorithm>

#include "cleave/discover/emit.h"

namespace cleave {
namespace {

using Kind = PlacePattern::Kind;

std::string python_placement(const PlacePattern& pattern) {
  switch (pattern.kind) {
    case Kind::Replicate:
      return "Replicate()";
    case Kind::Partial:
      return fmt::format("Partial(\"{}\")",
                         pattern.reduce == ReduceOp::Prod ? "product" : name(pattern.reduce));
    case Kind::Shard:
      return fmt::format("_ShardingPlaceholder({})", pattern.dim);
    case Kind::ShardOfD:
      return pattern.dim == 0 ? "_ShardingPlaceholder(d)"
                              : fmt::format("_ShardingPlaceholder(d {} {})",
                                            pattern.dim < 0 ? "-" : "+", std::abs(pattern.dim));
  }
  return "Replicate()";
}

bool uses_d(const DiscoveredRule& rule) {
  return rule.placement.kind == Kind::ShardOfD ||
         std::any_of(rule.operands.begin(), rule.operands.end(),
                     [](const PlacePattern& p) { return p.kind == Kind::ShardOfD; });
}

bool is_trivial(const DiscoveredRule& rule) {
  return rule.placement.kind == Kind::Replicate &&
         std::all_of(rule.operands.begin(), rule.operands.end(),
                     [](const PlacePattern& p) { return p.kind == Kind::Replicate; });
}

std::string python_condition(std::string condition) {
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = condition.find(from); at != std::string::npos;
         at = condition.find(from, at + to.size()))
      condition.replace(at, from.size(), to);
  };
  replace("size(d)", "shape[d]");
  return condition;
}

std::string row(const DiscoveredRule& rule) {
  std::string text = "[" + python_placement(rule.placement);
  for (const PlacePattern& operand : rule.operands) text += ", " + python_placement(operand);
  return text + "]";
}

// The sharded operand whose rank d runs over.
size_t base_operand(const DiscoveredRule& rule) {
  for (size_t i = 0; i < rule.operands.size(); ++i)
    if (rule.operands[i].kind == Kind::ShardOfD) return i;
  return 0;
}

std::vector<std::string> attribute_names(const Discovery& discovery) {
  std::vector<std::string> names;
  for (const auto& [name, value] : discovery.samples.front().sample.attrs) names.push_back(name);
  return names;
}

}  // namespace

std::string emit_dtensor(const Discovery& discovery) {
  const size_t n = discovery.num_operands;
  std::string schema = "";
  if (!discovery.attributes.empty())
    schema = fmt::format(", schema_info=RuntimeSchemaInfo(static_argnum={})", n);
  std::string text =
      "import torch\n"
      "from torch.distributed.tensor._op_schema import RuntimeSchemaInfo\n"
      "from torch.distributed.tensor._ops.single_dim_strategy import (\n"
      "    _ShardingPlaceholder,\n"
      "    register_single_dim_strategy,\n"
      ")\n"
      "from torch.distributed.tensor.placement_types import Partial, Replicate\n\n\n";
  text += fmt::format("@register_single_dim_strategy(torch.ops.aten.{}.default{})\n", discovery.op,
                      schema);
  text +=
      fmt::format("def {}_single_dim_strategy(op, args_schema, kwargs_schema):\n", discovery.op);
  text += fmt::format("    # {} combinations decided; each row below held in every test.\n",
                      discovery.combinations);
  size_t position = n;
  for (const std::string& name : attribute_names(discovery)) {
    const bool needed = std::find(discovery.attributes.begin(), discovery.attributes.end(), name) !=
                        discovery.attributes.end();
    if (needed)
      text += fmt::format(
          "    {0} = args_schema[{1}] if len(args_schema) > {1} else kwargs_schema[\"{0}\"]\n",
          name, position);
    ++position;
  }
  text += "    rows = []\n";
  for (const DiscoveredRule& rule : discovery.rules) {
    if (rule.implied || rule.result != 0 || is_trivial(rule)) continue;
    std::string pad = "    ";
    if (uses_d(rule)) {
      text += fmt::format(
          "    shape = args_schema[{}].shape\n    rank = len(shape)\n    for d in range(rank):\n",
          base_operand(rule));
      pad += "    ";
    }
    if (!rule.condition.empty()) {
      text += fmt::format("{}if {}:\n", pad, python_condition(rule.condition));
      pad += "    ";
    }
    text += fmt::format("{}rows.append({})  # {}\n", pad, row(rule), rule.justification);
  }
  return text + "    return rows\n";
}

}  // namespace cleave
