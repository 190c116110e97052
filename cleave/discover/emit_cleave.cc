#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cleave/core/sharding_rule_text.h"
#include "cleave/discover/emit.h"
#include "cleave/discover/synthesize.h"
#include "cleave/graph/op_def.h"
#include "cleave/rules/rule_sketch.h"

namespace cleave {
namespace {

using Kind = PlacePattern::Kind;

// Rules with the same operands and condition: the placements of all results.
struct Group {
  std::vector<PlacePattern> operands;
  std::vector<std::optional<PlacePattern>> results;
  std::string condition;
  std::string justification;

  size_t num_sharded() const {
    return static_cast<size_t>(std::count_if(operands.begin(), operands.end(), is_sharded));
  }
  bool has_partial() const {
    return std::any_of(operands.begin(), operands.end(),
                       [](const PlacePattern& p) { return p.kind == Kind::Partial; });
  }
  bool uses_d() const {
    return std::any_of(operands.begin(), operands.end(),
                       [](const PlacePattern& p) { return p.kind == Kind::ShardOfD; });
  }
  static bool is_sharded(const PlacePattern& p) {
    return p.kind == Kind::Shard || p.kind == Kind::ShardOfD;
  }
  // Every result is sharded or pending under one reduction, and so a factor can say it.
  bool is_factor() const {
    return num_sharded() > 0 && !has_partial() &&
           std::all_of(results.begin(), results.end(), [&](const auto& result) {
             return result && result->kind != Kind::Replicate &&
                    (result->kind == Kind::Partial) == (results[0]->kind == Kind::Partial) &&
                    (result->kind != Kind::Partial || result->reduce == results[0]->reduce);
           });
  }
  std::optional<PartialRow> row() const {
    PartialRow row{};
    std::optional<ReduceOp> in;
    if (!has_partial() || num_sharded() > 0) return std::nullopt;
    for (const PlacePattern& p : operands) {
      row.operands.push_back(p.kind == Kind::Partial);
      if (p.kind != Kind::Partial) continue;
      if (in && *in != p.reduce) return std::nullopt;
      in = p.reduce;
    }
    for (const auto& result : results)
      if (!result || result->kind != Kind::Partial || result->reduce != results[0]->reduce)
        return std::nullopt;
    row.in = *in;
    row.out = results[0]->reduce;
    return row;
  }
};

std::vector<Group> groups_of(const Discovery& discovery) {
  std::vector<Group> groups;
  for (const DiscoveredRule& rule : discovery.rules) {
    // What the number of devices decides about no rule can say.
    if (rule.implied || rule.on_world) continue;
    auto it = std::find_if(groups.begin(), groups.end(), [&](const Group& g) {
      return g.operands == rule.operands && g.condition == rule.condition;
    });
    if (it == groups.end()) {
      groups.push_back({rule.operands, {}, rule.condition, rule.justification});
      it = std::prev(groups.end());
      it->results.resize(discovery.num_results);
    }
    std::optional<PlacePattern>& result = it->results[rule.result];
    if (!result || result->kind == Kind::Replicate) result = rule.placement;
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return a.num_sharded() > b.num_sharded();
  });
  return groups;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

// Whether a word stands in a condition by itself.
bool mentions(const std::string& condition, const std::string& word) {
  auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (size_t at = condition.find(word); at != std::string::npos;
       at = condition.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_part(condition[at - 1])) &&
        (end == condition.size() || !is_part(condition[end])))
      return true;
  }
  return false;
}

// "d != dim and not keepdim" -> "d != dim && !keepdim"
std::string cpp_condition(std::string text, const AttrMap& attrs, const std::string& shape = "") {
  for (const auto& [name, value] : attrs) {
    if (!std::holds_alternative<std::vector<int64_t>>(value)) continue;
    const std::string count = fmt::format("std::count({0}.begin(), {0}.end(), d)", name);
    text = replaced(std::move(text), "d not in " + name, count + " == 0");
    text = replaced(std::move(text), "d in " + name, count + " > 0");
  }
  text = replaced(std::move(text), "size(d)", shape + "[d]");
  // "k == size(dim)"
  for (size_t at = text.find("size("); at != std::string::npos; at = text.find("size(")) {
    text[text.find(')', at)] = ']';
    text.replace(at, 5, "graph.operand_type(node, 0).shape[");
  }
  if (mentions(text, "rank"))
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

std::string dim_text(const std::optional<PlacePattern>& p) {
  if (!p || !Group::is_sharded(*p)) return "kNoDim";
  if (p->kind == Kind::Shard) return std::to_string(p->dim);
  return p->dim == 0 ? "d" : fmt::format("d {} {}", p->dim < 0 ? "-" : "+", std::abs(p->dim));
}

std::string factor_text(const Group& group) {
  std::vector<std::string> operands, results;
  for (const PlacePattern& p : group.operands) operands.push_back(dim_text(p));
  for (const auto& p : group.results) results.push_back(dim_text(p));
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
          return (partial ? g.row().has_value() : g.is_factor()) && mentions(g.condition, word);
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

Placement at(const PlacePattern& p, int64_t d) {
  if (p.kind == Kind::Partial) return Placement::partial(p.reduce);
  if (p.kind == Kind::Shard) return Placement::shard(static_cast<int>(p.dim));
  if (p.kind == Kind::ShardOfD) return Placement::shard(static_cast<int>(p.dim + d));
  return Placement::replicate();
}

// The rule that the general code makes for a call. Where a condition holds is where its combination
// was found to be valid.
SynthesizedRule general_rule_of(const std::vector<Group>& groups, const SampleDecisions& sample) {
  std::vector<Shape> operands;
  for (const TensorDesc& desc : sample.sample.operands) operands.push_back(desc.shape);
  auto holds = [&](const Group& group, int64_t d) {
    std::vector<Placement> row;
    for (const PlacePattern& p : group.operands) row.push_back(at(p, d));
    size_t valid = 0;
    for (const Decision& decision : sample.decisions)
      valid += decision.verdict.valid() && decision.combination.operands == row &&
               group.results[decision.combination.result] &&
               decision.combination.placement == at(*group.results[decision.combination.result], d);
    return valid == group.results.size();
  };
  SynthesizedRule made;
  RuleSketch sketch(operands, sample.result_shapes);
  for (const Group& group : groups) {
    if (const auto row = group.row(); row && holds(group, 0)) made.partial.push_back(*row);
    if (!group.is_factor()) continue;
    for (int64_t d = 0; d < (group.uses_d() ? 8 : 1); ++d) {
      if (!holds(group, d)) continue;
      auto dim = [&](const PlacePattern& p) {
        return Group::is_sharded(p) ? at(p, d).dim : kNoDim;
      };
      std::vector<int> from, to;
      for (const PlacePattern& p : group.operands) from.push_back(dim(p));
      for (const auto& p : group.results) to.push_back(dim(*p));
      const bool reduces = group.results[0]->kind == Kind::Partial;
      sketch.factor(from, to, reduces ? FactorKind::Reduction : FactorKind::PassThrough,
                    reduces ? group.results[0]->reduce : ReduceOp::Sum);
    }
  }
  made.rule = sketch.build();
  return made;
}

// Whether conditions can be written in C++, and one function for all calls claims as much as one
// for each call would.
bool is_general(const Discovery& discovery, const std::vector<Group>& groups) {
  for (const Group& group : groups) {
    if (!group.is_factor() && !group.row()) continue;
    if (group.condition.starts_with("called as") || group.condition.starts_with("the shapes") ||
        group.condition.find('[') != std::string::npos || mentions(group.condition, "body") ||
        mentions(group.condition, "result"))
      return false;
    for (const auto& [name, value] : discovery.samples.front().sample.attrs)
      if (mentions(group.condition, name) && discovery.op.find('.') != std::string::npos &&
          !name.starts_with("dimension"))
        return false;
  }
  return std::all_of(
      discovery.samples.begin(), discovery.samples.end(), [&](const SampleDecisions& sample) {
        const SynthesizedRule made = general_rule_of(groups, sample), best = synthesize(sample);
        const RuleDiff diff = diff_rule(made.rule, made.partial, sample, discovery.worlds);
        return diff.incorrect.empty() &&
               (is_degenerate(sample.sample) || diff.missing.size() <= best.not_expressible.size());
      });
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
      "void register_{0}(OpRegistry& registry) {{\n  OpDef op;\n  op.name = \"cleave.{1}\";\n"
      "  op.rule = {0}_rule;\n  op.partial = {0}_partial;\n  registry.add(op);\n}}\n",
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
      "\"cleave/rules/rule_sketch.h\"\n\nnamespace cleave {\nnamespace {\n\n";
  const std::vector<Group> groups = groups_of(discovery);
  if (is_general(discovery, groups)) {
    const std::string partial = general_partial(discovery, groups);
    text += fmt::format("OpShardingRule {}_rule(const Graph& graph, const Node& node) {{\n{}}}\n\n",
                        name, general_rule(discovery, groups));
    text += fmt::format("PartialTransfer {}_partial(const Graph&{}, const Node&{}) {{\n{}}}\n\n",
                        name, mentions(partial, "graph") ? " graph" : "",
                        mentions(partial, "node") ? " node" : "", partial);
  } else {
    text += rules_by_call(discovery);
  }
  return text + "}  // namespace\n\n" + registration(discovery) + "\n}  // namespace cleave\n";
}

}  // namespace cleave
