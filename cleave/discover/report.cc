#include <fmt/ranges.h>

#include <algorithm>

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
    case PlacePattern::Kind::ShardFromEnd:
      return fmt::format("S({})", pattern.dim);
    case PlacePattern::Kind::ShardOfAttr:
      return fmt::format("S({})", pattern.attr);
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
  if (!discovery.analysis.deterministic)
    return fmt::format("{}: random\n  {}\n", discovery.op, discovery.analysis.reason);
  std::string text = fmt::format("{}: {} combinations over {} samples, w in {}, {:.2f} s\n",
                                 discovery.op, discovery.combinations, discovery.samples.size(),
                                 fmt::join(discovery.worlds, "/"), discovery.seconds);
  std::string analysis = to_string(discovery.analysis);
  for (size_t at = 0; (at = analysis.find('\n', at)) != std::string::npos; at += 3)
    analysis.replace(at, 1, "\n  ");
  text += "  " + analysis + "\n";
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

}  // namespace cleave
