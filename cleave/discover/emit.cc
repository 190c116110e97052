#include "cleave/discover/emit.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "cleave/core/sharding_rule_text.h"
#include "cleave/discover/synthesize.h"

namespace cleave {
namespace {

std::string kind_text(FactorKind kind) {
  switch (kind) {
    case FactorKind::Reduction:
      return "FactorKind::Reduction";
    case FactorKind::NeedReplication:
      return "FactorKind::NeedReplication";
    case FactorKind::Permutation:
      return "FactorKind::Permutation";
    default:
      return "FactorKind::PassThrough";
  }
}

std::string enum_text(ReduceOp op) {
  std::string text(name(op));
  text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return "ReduceOp::" + text;
}

// The dimension of every tensor that a factor stands in.
std::string dims_text(const std::vector<TensorFactors>& tensors, FactorIndex factor) {
  std::vector<std::string> dims;
  for (const TensorFactors& tensor : tensors) {
    std::string text = "kNoDim";
    for (size_t d = 0; d < tensor.size(); ++d)
      if (std::find(tensor[d].begin(), tensor[d].end(), factor) != tensor[d].end())
        text = std::to_string(d);
    dims.push_back(std::move(text));
  }
  return fmt::format("{{{}}}", fmt::join(dims, ", "));
}

// Where the size of a factor can be read off: operand 1, dimension 0.
std::string size_text(const OpShardingRule& rule, FactorIndex factor) {
  for (size_t i = 0; i < rule.num_tensors(); ++i)
    for (size_t d = 0; d < rule.tensor(i).size(); ++d)
      if (rule.tensor(i)[d].front() == factor)
        return i < rule.operands.size()
                   ? fmt::format("graph.operand_type(node, {}).shape[{}]", i, d)
                   : fmt::format("graph.result_type(node, {}).shape[{}]", i - rule.operands.size(),
                                 d);
  return "1";
}

std::string cpp_rule(const OpShardingRule& rule) {
  std::string text = "  return RuleBuilder(graph, node)\n";
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const auto index = static_cast<FactorIndex>(f);
    const Factor& factor = rule.factors[f];
    text += fmt::format("      .factor({}, {}, {}", dims_text(rule.operands, index),
                        dims_text(rule.results, index), size_text(rule, index));
    if (factor.kind == FactorKind::Reduction && factor.reduce != ReduceOp::Sum) {
      text += fmt::format(", {}, false, {}", kind_text(factor.kind), enum_text(factor.reduce));
    } else if (factor.kind != FactorKind::PassThrough) {
      text += ", " + kind_text(factor.kind);
    }
    text += ")\n";
  }
  return text + "      .build();\n";
}

std::string cpp_partial(const PartialTransfer& partial) {
  std::string text = "  return {";
  for (size_t i = 0; i < partial.size(); ++i) {
    std::vector<int> mask(partial[i].operands.begin(), partial[i].operands.end());
    text += fmt::format("{}{{{}, {{{}}}, {}}}", i ? ",\n          " : "", enum_text(partial[i].in),
                        fmt::join(mask, ", "), enum_text(partial[i].out));
  }
  return text + "};\n";
}

}  // namespace

std::string identifier(const std::string& op) {
  std::string text = op;
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return text;
}

std::string emit_cleave(const Discovery& discovery) {
  std::string text = fmt::format("// {}: made from {} decided combinations.\n", discovery.op,
                                 discovery.combinations);
  std::set<std::string> seen;
  for (const SampleDecisions& sample : discovery.samples) {
    const SynthesizedRule made = synthesize(sample);
    if (!seen.insert(to_short_string(made.rule) + cpp_partial(made.partial)).second) continue;
    text += fmt::format("\n// {}({})\n//   \"{}\"\n", discovery.op, to_string(sample.sample),
                        to_short_string(made.rule));
    for (const std::string& line : made.not_expressible)
      text += "//   valid, but not expressible: " + line + "\n";
    text += fmt::format("OpShardingRule {}_rule(const Graph& graph, const Node& node) {{\n{}}}\n",
                        identifier(discovery.op), cpp_rule(made.rule));
    text += fmt::format("PartialTransfer {}_partial(const Graph&, const Node&) {{\n{}}}\n",
                        identifier(discovery.op), cpp_partial(made.partial));
  }
  return text;
}

std::string emit_shardy(const Discovery& discovery) {
  std::string text;
  for (const SampleDecisions& sample : discovery.samples) {
    const SynthesizedRule made = synthesize(sample);
    text += fmt::format("// {}({})\n#sdy.op_sharding_rule<{}, custom>\n", discovery.op,
                        to_string(sample.sample), to_string(made.rule));
    for (const std::string& line : made.not_expressible)
      text += "// valid, but not expressible: " + line + "\n";
  }
  return text;
}

}  // namespace cleave
