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
                        discovery.op, cpp_rule(made.rule));
    text += fmt::format("PartialTransfer {}_partial(const Graph&, const Node&) {{\n{}}}\n",
                        discovery.op, cpp_partial(made.partial));
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

std::string emit_dtensor_tests(const Discovery& discovery) {
  auto placement = [](const Placement& p) -> std::string {
    if (p.is_shard()) return fmt::format("Shard({})", p.dim);
    if (p.is_partial())
      return fmt::format("Partial(\"{}\")",
                         p.reduce == ReduceOp::Prod ? "product" : name(p.reduce));
    return "Replicate()";
  };
  std::string text =
      "import pytest\n"
      "import torch\n"
      "from torch.distributed.tensor import DTensor, Partial, Replicate, Shard\n"
      "from torch.distributed.tensor.debug import CommDebugMode\n\n";
  text +=
      "# (shapes, arguments, operand placements, result placement); `mesh` is a 1-D device "
      "mesh.\nCASES = [\n";
  for (const SampleDecisions& sample : discovery.samples) {
    std::vector<std::string> shapes, values;
    for (const TensorDesc& desc : sample.sample.operands) {
      std::string shape = "(";
      for (int64_t size : desc.shape) shape += std::to_string(size) + ",";
      shapes.push_back(shape + ")");
    }
    for (const auto& [name, value] : sample.sample.attrs) {
      std::string literal = to_string(value);
      if (std::holds_alternative<bool>(value)) literal = std::get<bool>(value) ? "True" : "False";
      values.push_back(fmt::format("\"{}\": {}", name, literal));
    }
    for (const Decision& d : sample.decisions) {
      if (!d.verdict.valid() || d.combination.result != 0 || d.combination.placement.is_partial())
        continue;
      std::vector<std::string> operands;
      bool partial = false;
      for (const Placement& p : d.combination.operands) {
        operands.push_back(placement(p));
        partial |= p.is_partial();
      }
      if (partial) continue;
      text += fmt::format("    ([{}], {{{}}}, [{}], {}),\n", fmt::join(shapes, ", "),
                          fmt::join(values, ", "), fmt::join(operands, ", "),
                          placement(d.combination.placement));
    }
  }
  text += fmt::format(
      "]\n\n\n"
      "@pytest.mark.parametrize(\"shapes, kwargs, placements, expected\", CASES)\n"
      "def test_{0}(mesh, shapes, kwargs, placements, expected):\n"
      "    torch.manual_seed(0)\n"
      "    full = [torch.randn(s, dtype=torch.float64) for s in shapes]\n"
      "    shards = [DTensor.from_local(t, mesh, [Replicate()]).redistribute(mesh, [p]) for t, p "
      "in zip(full, placements)]\n"
      "    with CommDebugMode() as comm:\n"
      "        result = torch.{0}(*shards, **kwargs)\n"
      "    assert comm.get_total_counts() == 0\n"
      "    assert result.placements == (expected,)\n"
      "    torch.testing.assert_close(result.full_tensor(), torch.{0}(*full, **kwargs))\n",
      discovery.op);
  return text;
}

}  // namespace cleave
