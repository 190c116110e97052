#include <fmt/ranges.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cleave/core/error.h"
#include "cleave/discover/discover.h"

namespace cleave {
namespace {

std::string join(const std::vector<PlacePattern>& patterns) {
  std::string text;
  for (const PlacePattern& pattern : patterns)
    text += (text.empty() ? "" : ", ") + to_string(pattern);
  return text;
}

std::string arrow(const std::vector<PlacePattern>& operands, size_t result,
                  const PlacePattern& placement, size_t num_results) {
  return join(operands) + " -> " + (num_results > 1 ? fmt::format("result {}: ", result) : "") +
         to_string(placement);
}

std::string verdict_text(const DiscoveredRule& rule) {
  return rule.kind == VerdictKind::Proved ? "proved" : fmt::format("tested({})", rule.tests);
}

// Refutations that a reader would look for first: outside of a rule's condition, then what goes out
// as it came in, then a reduction over a sharded dimension. A few of each.
std::vector<const RefutedRule*> worth_showing(const Discovery& discovery) {
  using Kind = PlacePattern::Kind;
  constexpr int kShown = 4;
  auto rank = [](const RefutedRule& rule) {
    bool same = true, sharded = false, placed = false;
    for (const PlacePattern& operand : rule.operands) {
      same &= operand.kind == Kind::Replicate || operand == rule.placement;
      sharded |= operand.kind == Kind::ShardOfD;
      placed |= operand.kind != Kind::Replicate;
    }
    if (rule.placement.kind == Kind::Replicate || !placed) return 3;
    if (rule.exception) return 0;
    return same ? 1 : sharded && rule.placement.kind == Kind::Partial ? 2 : 3;
  };
  std::vector<const RefutedRule*> shown;
  for (int wanted = 0; wanted < 3; ++wanted) {
    int left = kShown;
    for (const RefutedRule& rule : discovery.refuted)
      if (rule.witness && rank(rule) == wanted && left-- > 0) shown.push_back(&rule);
  }
  return shown;
}

}  // namespace

std::string to_string(const Combination& combination) {
  std::string text;
  for (const Placement& placement : combination.operands)
    text += (text.empty() ? "" : ", ") + to_string(placement);
  return text + " -> " + to_string(combination.placement);
}

std::string to_string(const PlacePattern& pattern) {
  switch (pattern.kind) {
    case PlacePattern::Kind::Replicate:
      return "R";
    case PlacePattern::Kind::Partial:
      return fmt::format("P({})", name(pattern.reduce));
    case PlacePattern::Kind::Shard:
      return fmt::format("S({})", pattern.dim);
    case PlacePattern::Kind::ShardOfD:
      return pattern.dim == 0 ? "S(d)" : fmt::format("S(d{:+})", pattern.dim);
  }
  return "R";
}

std::string to_string(const DiscoveredRule& rule) {
  std::string text = join(rule.operands) + " -> " + to_string(rule.placement);
  if (!rule.condition.empty()) text += " WHEN " + rule.condition;
  return text;
}

std::string to_string(const RefutedRule& rule) {
  return join(rule.operands) + " -> " + to_string(rule.placement);
}

std::string report_table(const Discovery& discovery) {
  std::string text = fmt::format("{}: {} combinations over {} samples, w in {}, {:.2f} s\n",
                                 discovery.op, discovery.combinations, discovery.samples.size(),
                                 fmt::join(discovery.worlds, "/"), discovery.seconds);
  size_t width = 0;
  std::vector<std::string> left;
  for (const DiscoveredRule& rule : discovery.rules) {
    std::string line = arrow(rule.operands, rule.result, rule.placement, discovery.num_results);
    if (!rule.condition.empty()) line += "  WHEN " + rule.condition;
    width = std::max(width, line.size());
    left.push_back(std::move(line));
  }
  for (size_t i = 0; i < left.size(); ++i) {
    const DiscoveredRule& rule = discovery.rules[i];
    text += fmt::format("  {:<{}}  {}{}; {}\n", left[i], width, rule.implied ? "implied: " : "",
                        verdict_text(rule), rule.justification);
  }
  text += discovery.attributes.empty()
              ? "  The rules depend on no attribute.\n"
              : fmt::format("  The rules depend on: {}\n", fmt::join(discovery.attributes, ", "));
  const VerdictCounts counts = count_verdicts(discovery);
  text += fmt::format(
      "  Of the combinations {} hold, {} are refuted, {} rejected by the operator, {} "
      "untestable.\n",
      counts.proved + counts.tested, counts.refuted, counts.rejected, counts.untestable);
  const std::vector<const RefutedRule*> shown = worth_showing(discovery);
  if (!shown.empty()) text += "  Refuted, with the smallest witness (all with --format yaml):\n";
  for (const RefutedRule* rule : shown)
    text += fmt::format("    {}: {}\n",
                        arrow(rule->operands, rule->result, rule->placement, discovery.num_results),
                        short_text(*rule->witness));
  return text;
}

std::string report_yaml(const Discovery& discovery) {
  YAML::Emitter out;
  auto rule_list = [&](bool conditional, bool implied) {
    out << YAML::BeginSeq;
    for (const DiscoveredRule& rule : discovery.rules) {
      if (rule.implied != implied || (!implied && rule.condition.empty() == conditional)) continue;
      out << YAML::BeginMap;
      out << YAML::Key << "rule" << YAML::Value
          << arrow(rule.operands, rule.result, rule.placement, discovery.num_results);
      if (!rule.condition.empty()) out << YAML::Key << "when" << YAML::Value << rule.condition;
      out << YAML::Key << "verdict" << YAML::Value << verdict_text(rule);
      out << YAML::Key << "because" << YAML::Value << rule.justification << YAML::EndMap;
    }
    out << YAML::EndSeq;
  };
  out << YAML::BeginMap;
  out << YAML::Key << "operator" << YAML::Value << discovery.op;
  out << YAML::Key << "analysis" << YAML::Value << YAML::BeginMap;
  out << YAML::Key << "depends_on_attributes" << YAML::Value << YAML::Flow << discovery.attributes;
  out << YAML::Key << "worlds" << YAML::Value << YAML::Flow << discovery.worlds;
  out << YAML::Key << "generators" << YAML::Value << YAML::Flow << discovery.generators;
  out << YAML::Key << "seed" << YAML::Value << discovery.seed;
  const VerdictCounts counts = count_verdicts(discovery);
  out << YAML::Key << "counts" << YAML::Value << YAML::Flow << YAML::BeginMap;
  out << YAML::Key << "combinations" << YAML::Value << discovery.combinations;
  out << YAML::Key << "proved" << YAML::Value << counts.proved;
  out << YAML::Key << "tested" << YAML::Value << counts.tested;
  out << YAML::Key << "refuted" << YAML::Value << counts.refuted;
  out << YAML::Key << "rejected" << YAML::Value << counts.rejected;
  out << YAML::Key << "untestable" << YAML::Value << counts.untestable << YAML::EndMap;
  out << YAML::Key << "seconds" << YAML::Value << fmt::format("{:.3f}", discovery.seconds)
      << YAML::EndMap;
  out << YAML::Key << "inputs_tested" << YAML::Value << YAML::BeginSeq;
  for (const SampleDecisions& sample : discovery.samples) out << to_string(sample.sample);
  out << YAML::EndSeq;
  out << YAML::Key << "unconditional_rules" << YAML::Value;
  rule_list(false, false);
  out << YAML::Key << "conditional_rules" << YAML::Value;
  rule_list(true, false);
  out << YAML::Key << "implied_rules" << YAML::Value;
  rule_list(false, true);
  out << YAML::Key << "refuted" << YAML::Value << YAML::BeginSeq;
  for (const RefutedRule& rule : discovery.refuted) {
    out << YAML::BeginMap << YAML::Key << "rule" << YAML::Value
        << arrow(rule.operands, rule.result, rule.placement, discovery.num_results);
    if (rule.exception && !rule.with.empty())
      out << YAML::Key << "with" << YAML::Value << rule.with;
    if (rule.witness) {
      out << YAML::Key << "witness" << YAML::Value << YAML::Literal
          << to_string(discovery.op, *rule.witness);
    } else {
      out << YAML::Key << "rejected" << YAML::Value << rule.reason;
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
  out << YAML::Key << "untestable" << YAML::Value << YAML::BeginSeq;
  for (const RefutedRule& rule : discovery.untestable)
    out << YAML::BeginMap << YAML::Key << "rule" << YAML::Value
        << arrow(rule.operands, rule.result, rule.placement, discovery.num_results) << YAML::Key
        << "reason" << YAML::Value << rule.reason << YAML::EndMap;
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

std::string report_json(const Discovery& discovery) {
  nlohmann::ordered_json json;
  json["operator"] = discovery.op;
  json["combinations"] = discovery.combinations;
  const VerdictCounts counts = count_verdicts(discovery);
  json["counts"] = {{"proved", counts.proved},
                    {"tested", counts.tested},
                    {"refuted", counts.refuted},
                    {"rejected", counts.rejected},
                    {"untestable", counts.untestable}};
  json["seconds"] = discovery.seconds;
  json["processor_seconds"] = discovery.processor_seconds;
  json["seed"] = discovery.seed;
  json["worlds"] = discovery.worlds;
  json["generators"] = discovery.generators;
  json["depends_on_attributes"] = discovery.attributes;
  json["inputs_tested"] = nlohmann::json::array();
  for (const SampleDecisions& sample : discovery.samples)
    json["inputs_tested"].push_back(to_string(sample.sample));
  auto patterns = [](const std::vector<PlacePattern>& list) {
    std::vector<std::string> texts;
    for (const PlacePattern& pattern : list) texts.push_back(to_string(pattern));
    return texts;
  };
  json["rules"] = nlohmann::json::array();
  for (const DiscoveredRule& rule : discovery.rules)
    json["rules"].push_back({{"operands", patterns(rule.operands)},
                             {"result", rule.result},
                             {"placement", to_string(rule.placement)},
                             {"when", rule.condition},
                             {"because", rule.justification},
                             {"implied", rule.implied},
                             {"verdict", verdict_text(rule)}});
  json["refuted"] = nlohmann::json::array();
  for (const RefutedRule& rule : discovery.refuted)
    json["refuted"].push_back(
        {{"operands", patterns(rule.operands)},
         {"result", rule.result},
         {"placement", to_string(rule.placement)},
         {"with", rule.with},
         {"verdict", std::string(name(rule.kind))},
         {"witness", rule.witness ? to_string(discovery.op, *rule.witness) : rule.reason}});
  json["untestable"] = nlohmann::json::array();
  for (const RefutedRule& rule : discovery.untestable)
    json["untestable"].push_back({{"operands", patterns(rule.operands)},
                                  {"result", rule.result},
                                  {"placement", to_string(rule.placement)},
                                  {"reason", rule.reason}});
  return json.dump(2) + "\n";
}

}  // namespace cleave
