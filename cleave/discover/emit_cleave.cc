#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cleave/core/sharding_rule_text.h"
#include "cleave/discover/conditions.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/rule_groups.h"
#include "cleave/discover/synthesize.h"
#include "cleave/graph/op_def.h"
#include "cleave/rules/rule_sketch.h"

namespace cleave {
namespace {

using Kind = PlacePattern::Kind;
using Group = RuleGroup;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// "d != dim and not keepdim" -> "d != dim && !keepdim"
std::string cpp_condition(std::string text, const AttrMap& attrs, const std::string& shape = "") {
  for (const auto& [name, value] : attrs) {
    if (!std::holds_alternative<std::vector<int64_t>>(value)) continue;
    // d, or the number that a rule names in its place
    for (const char* d : {"d", "0", "1", "2", "3", "4", "5", "6", "7"}) {
      const std::string count = fmt::format("std::count({0}.begin(), {0}.end(), {1})", name, d);
      text = replaced(std::move(text), fmt::format("{} not in {}", d, name), count + " == 0");
      text = replaced(std::move(text), fmt::format("{} in {}", d, name), count + " > 0");
      text = replaced(
          std::move(text), fmt::format("below({}, {})", d, name),
          fmt::format("std::ranges::count_if({}, [&](int64_t k) {{ return k < {}; }})", name, d));
    }
  }
  text = replaced(std::move(text), "size(d)", shape + "[d]");
  // "k == size(dim)"
  for (size_t at = text.find("size("); at != std::string::npos; at = text.find("size(")) {
    text[text.find(')', at)] = ']';
    text.replace(at, 5, "graph.operand_type(node, 0).shape[");
  }
  if (mentions_word(text, "rank"))
    text = replaced(std::move(text), "rank", fmt::format("static_cast<int>({}.size())", shape));
  text = replaced(std::move(text), " and ", " && ");
  text = replaced(std::move(text), " or ", " || ");
  text = replaced(std::move(text), "not ", "!");
  return replaced(std::move(text), "'", "\"");
}

std::string enum_text(ReduceOp op) {
  std::string text(name(op));
  text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return "ReduceOp::" + text;
}

// `type` is the text of the tensor's type.
std::string dim_text(const std::optional<PlacePattern>& p, const std::string& type) {
  if (!p || !Group::is_sharded(*p)) return "kNoDim";
  if (p->kind == Kind::ShardOfAttr) return fmt::format("static_cast<int>({})", p->attr);
  if (p->kind == Kind::ShardFromEnd)
    return fmt::format("static_cast<int>({}.shape.size()) - {}", type, -p->dim);
  if (p->kind == Kind::Shard) return std::to_string(p->dim);
  return p->dim == 0 ? "d" : fmt::format("d {} {}", p->dim < 0 ? "-" : "+", std::abs(p->dim));
}

std::string factor_text(const Group& group) {
  std::vector<std::string> operands, results;
  auto type = [](const char* of, size_t i) {
    return fmt::format("graph.{}_type(node, {})", of, i);
  };
  for (size_t i = 0; i < group.operands.size(); ++i)
    operands.push_back(dim_text(group.operands[i], type("operand", i)));
  for (size_t i = 0; i < group.results.size(); ++i)
    results.push_back(dim_text(group.results[i], type("result", i)));
  std::string kind;
  if (group.results[0]->kind == Kind::Partial) {
    kind = ", FactorKind::Reduction";
    if (group.results[0]->reduce != ReduceOp::Sum)
      kind += ", " + enum_text(group.results[0]->reduce);
  }
  return fmt::format("rule.factor({{{}}}, {{{}}}{});", fmt::join(operands, ", "),
                     fmt::join(results, ", "), kind);
}

std::string row_text(const PartialRow& row) {
  std::vector<std::string> mask;
  for (bool partial : row.operands) mask.emplace_back(partial ? "true" : "false");
  return fmt::format("{{{}, {{{}}}, {}}}", enum_text(row.in), fmt::join(mask, ", "),
                     enum_text(row.out));
}

// How an attribute is read from a node.
struct AttrReader {
  std::string name;
  std::string operator()(int64_t) const { return get("get_int"); }
  std::string operator()(bool) const { return get("get_bool", ", false"); }
  std::string operator()(double) const { return get("get_float"); }
  std::string operator()(const std::string&) const { return get("get_string"); }
  std::string operator()(const std::vector<int64_t>&) const { return get("get_ints"); }
  std::string get(const char* getter, const char* fallback = "") const {
    return fmt::format("node.attrs.{}(\"{}\"{})", getter, name, fallback);
  }
};
struct AttrTypeName {
  std::string operator()(int64_t) const { return "int64_t"; }
  std::string operator()(bool) const { return "bool"; }
  std::string operator()(double) const { return "double"; }
  std::string operator()(const std::string&) const { return "std::string_view"; }
  std::string operator()(const std::vector<int64_t>&) const { return "std::vector<int64_t>"; }
};

bool names_a_dim(const Discovery& discovery, const std::string& name) {
  return std::find(discovery.dim_attrs.begin(), discovery.dim_attrs.end(), name) !=
         discovery.dim_attrs.end();
}

// The attributes that conditions mention, read from the node; dimensions counted from the front.
std::string attribute_lines(const Discovery& discovery, const std::vector<Group>& groups,
                            bool partial) {
  std::string text;
  for (const auto& [name, value] : discovery.samples.front().sample.attrs) {
    if (std::none_of(groups.begin(), groups.end(), [&, &word = name](const Group& g) {
          return (partial ? g.row().has_value() : g.is_factor()) &&
                 (mentions_word(g.condition, word) || g.names(word));
        }))
      continue;
    const bool dim = names_a_dim(discovery, name);
    text += fmt::format("  {}{} {} = {};\n", dim ? "" : "const ", std::visit(AttrTypeName{}, value),
                        name, std::visit(AttrReader{name}, value));
    constexpr const char* kRank = "static_cast<int64_t>(graph.operand_type(node, 0).shape.size())";
    if (dim && std::holds_alternative<int64_t>(value))
      text += fmt::format("  if ({0} < 0) {0} += {1};\n", name, kRank);
    if (dim && std::holds_alternative<std::vector<int64_t>>(value))
      text += fmt::format("  for (int64_t& k : {0})\n    if (k < 0) k += {1};\n", name, kRank);
  }
  return text;
}

std::string general_rule(const Discovery& discovery, const std::vector<Group>& groups) {
  const AttrMap& attrs = discovery.samples.front().sample.attrs;
  std::string text =
      attribute_lines(discovery, groups, false) + "  RuleSketch rule(graph, node);\n";
  for (const Group& group : groups) {
    if (!group.is_factor()) continue;
    std::string pad = "  ", shape = "shape";
    if (group.uses_d()) {
      const auto base =
          std::find_if(group.operands.begin(), group.operands.end(),
                       [](const PlacePattern& p) { return p.kind == Kind::ShardOfD; });
      shape = fmt::format("graph.operand_type(node, {}).shape", base - group.operands.begin());
      text += fmt::format("  for (int d = 0; d < static_cast<int>({}.size()); ++d)\n", shape);
      pad += "  ";
    }
    if (!group.condition.empty()) {
      text += fmt::format("{}if ({})\n", pad, cpp_condition(group.condition, attrs, shape));
      pad += "  ";
    }
    text += fmt::format("{}{}  // {}\n", pad, factor_text(group), group.justification);
  }
  return text + "  return rule.build();\n";
}

std::string general_partial(const Discovery& discovery, const std::vector<Group>& groups) {
  const AttrMap& attrs = discovery.samples.front().sample.attrs;
  std::string text = attribute_lines(discovery, groups, true) + "  PartialTransfer rows;\n";
  for (const Group& group : groups) {
    const auto row = group.row();
    if (!row) continue;
    if (!group.condition.empty())
      text += fmt::format("  if ({})\n  ", cpp_condition(group.condition, attrs));
    text += fmt::format("  rows.push_back({});  // {}\n", row_text(*row), group.justification);
  }
  return text + "  return rows;\n";
}

// One call's rule, factor by factor.
std::string rule_of_call(const OpShardingRule& rule) {
  std::string text = "  return RuleSketch(graph, node)\n";
  auto dims = [&](const std::vector<TensorFactors>& tensors, size_t factor) {
    std::vector<std::string> list;
    for (const TensorFactors& tensor : tensors) {
      std::string dim = "kNoDim";
      for (size_t d = 0; d < tensor.size(); ++d)
        if (tensor[d].front() == static_cast<FactorIndex>(factor)) dim = std::to_string(d);
      list.push_back(std::move(dim));
    }
    return fmt::format("{{{}}}", fmt::join(list, ", "));
  };
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    const Factor& factor = rule.factors[f];
    if (factor.kind == FactorKind::NeedReplication) continue;
    text += fmt::format("      .factor({}, {}", dims(rule.operands, f), dims(rule.results, f));
    if (factor.kind == FactorKind::Reduction) text += ", FactorKind::Reduction";
    if (factor.reduce != ReduceOp::Sum) text += ", " + enum_text(factor.reduce);
    text += ")\n";
  }
  return text + "      .build();\n";
}

std::string shapes_condition(const SampleDecisions& sample) {
  std::vector<std::string> terms;
  auto shape = [](const Shape& s) { return fmt::format("Shape{{{}}}", fmt::join(s, ", ")); };
  for (size_t i = 0; i < sample.sample.operands.size(); ++i)
    terms.push_back(fmt::format("graph.operand_type(node, {}).shape == {}", i,
                                shape(sample.sample.operands[i].shape)));
  for (size_t r = 0; r < sample.result_shapes.size(); ++r)
    terms.push_back(
        fmt::format("graph.result_type(node, {}).shape == {}", r, shape(sample.result_shapes[r])));
  return fmt::format("{}", fmt::join(terms, " &&\n      "));
}

// Whether an attribute of the sweep is one that a node has under this name. Those of a registered
// op may be parts of a structured one.
bool is_readable(const Discovery& discovery, const std::string& name) {
  return discovery.op.find('.') == std::string::npos || name.starts_with("dimension");
}

// The values of the attributes that the rules depend on.
std::string attrs_condition(const Discovery& discovery, const SampleDecisions& sample) {
  std::string text;
  for (const std::string& name : discovery.attributes) {
    const auto it = sample.sample.attrs.find(name);
    if (it == sample.sample.attrs.end() || !is_readable(discovery, name)) continue;
    std::string value = to_string(it->second);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&it->second))
      value = fmt::format("std::vector<int64_t>{{{}}}", fmt::join(*list, ", "));
    if (const auto* word = std::get_if<std::string>(&it->second)) value = '"' + *word + '"';
    text += fmt::format(" &&\n      {} == {}", std::visit(AttrReader{name}, it->second), value);
  }
  return text;
}

// A function for each call, and one that picks by the shapes and attributes. Calls that differ in
// what a node does not show are left whole.
std::string rules_by_call(const Discovery& discovery) {
  const std::string name = identifier(discovery.op);
  struct Call {
    size_t sample;
    std::string condition, rule, rows;
    bool ambiguous = false;
  };
  std::vector<Call> calls;
  for (size_t s = 0; s < discovery.samples.size(); ++s) {
    const SampleDecisions& sample = discovery.samples[s];
    const SynthesizedRule made = synthesize(sample);
    std::vector<std::string> rows;
    for (const PartialRow& row : made.partial) rows.push_back(row_text(row));
    Call call{s, shapes_condition(sample) + attrs_condition(discovery, sample),
              rule_of_call(made.rule), fmt::format("{}", fmt::join(rows, ",\n            "))};
    const auto same = std::find_if(calls.begin(), calls.end(),
                                   [&](const Call& c) { return c.condition == call.condition; });
    if (same == calls.end()) {
      calls.push_back(std::move(call));
    } else if (same->rule != call.rule || same->rows != call.rows) {
      same->ambiguous = true;
    }
  }
  std::string text, rules, partials;
  for (const Call& call : calls) {
    const std::string of = to_string(discovery.samples[call.sample].sample);
    if (call.ambiguous) {
      text += fmt::format("// {}({}): whole; other calls of these shapes have other rules\n\n",
                          discovery.op, of);
      continue;
    }
    text += fmt::format(
        "// {}({})\nOpShardingRule {}_rule_{}(const Graph& graph, const Node& node) {{\n{}}}\n\n",
        discovery.op, of, name, call.sample, call.rule);
    rules += fmt::format("  if ({})\n    return {}_rule_{}(graph, node);\n", call.condition, name,
                         call.sample);
    partials += fmt::format("  if ({})\n    return {{{}}};\n", call.condition, call.rows);
  }
  text += fmt::format(
      "OpShardingRule {}_rule(const Graph& graph, const Node& node) {{\n{}  return "
      "RuleSketch(graph, node).build();  // not tried: whole\n}}\n\n",
      name, rules);
  const bool none = partials.empty();
  return text + fmt::format(
                    "PartialTransfer {}_partial(const Graph&{}, const Node&{}) {{\n{}  "
                    "return {{}};\n}}\n\n",
                    name, none ? "" : " graph", none ? "" : " node", partials);
}

std::string registration(const Discovery& discovery) {
  const std::string name = identifier(discovery.op);
  if (find_op(discovery.op))
    return fmt::format(
        "void register_{0}(OpRegistry& registry) {{\n  registry.extend(\"{1}\", [](OpDef& op) "
        "{{\n    op.rule = {0}_rule;\n    op.partial = {0}_partial;\n  }});\n}}\n",
        name, discovery.op);
  return fmt::format(
      "// A custom call by this target, from the moment this is called.\nvoid register_{0}() {{\n"
      "  register_rule(\"{1}\", {0}_rule, {0}_partial);\n}}\n",
      name, discovery.op);
}

}  // namespace

std::string emit_cleave(const Discovery& discovery) {
  const std::string name = identifier(discovery.op);
  std::string text = fmt::format("// {}: made from {} decided combinations. In short:\n",
                                 discovery.op, discovery.combinations);
  std::map<std::string, std::string> notations;
  for (const SampleDecisions& sample : discovery.samples) {
    const SynthesizedRule made = synthesize(sample);
    if (!notations.emplace(to_short_string(made.rule), "").second) continue;
    text +=
        fmt::format("//   \"{}\"  of ({})\n", to_short_string(made.rule), to_string(sample.sample));
    for (const std::string& line : made.not_expressible)
      text += "//     valid, but not expressible: " + line + "\n";
    for (const Decision& d : sample.decisions)
      if (!d.verdict.valid() && !d.worlds.empty())
        text += fmt::format("//     valid on {} devices: {}\n", fmt::join(d.worlds, " or "),
                            to_string(d.combination));
  }
  text +=
      "#include <algorithm>\n\n#include \"cleave/graph/op_def.h\"\n#include "
      "\"cleave/ops/custom_call/register_op.h\"\n#include \"cleave/rules/rule_sketch.h\"\n\n"
      "namespace cleave {\nnamespace {\n\n";
  const std::vector<Group> groups = rule_groups(discovery);
  if (has_general_rule(discovery, groups)) {
    const std::string partial = general_partial(discovery, groups);
    text += fmt::format("OpShardingRule {}_rule(const Graph& graph, const Node& node) {{\n{}}}\n\n",
                        name, general_rule(discovery, groups));
    text += fmt::format("PartialTransfer {}_partial(const Graph&{}, const Node&{}) {{\n{}}}\n\n",
                        name, mentions_word(partial, "graph") ? " graph" : "",
                        mentions_word(partial, "node") ? " node" : "", partial);
  } else {
    text += rules_by_call(discovery);
  }
  return text + "}  // namespace\n\n" + registration(discovery) + "\n}  // namespace cleave\n";
}

}  // namespace cleave
