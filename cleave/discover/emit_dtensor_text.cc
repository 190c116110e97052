#include <fmt/core.h>

#include <algorithm>

#include "cleave/discover/anchored.h"
#include "cleave/discover/emit_dtensor.h"
#include "cleave/discover/synthesize.h"

namespace cleave::dtensor_text {

using Kind = PlacePattern::Kind;

namespace {

// Whether a placement is the pattern at d, which the first one with a d decides.
bool fits(const PlacePattern& named, const Placement& p, std::optional<int64_t>& d,
          const AttrMap& attrs, const Shape& shape) {
  const auto made = in_call(named, attrs, shape.size());
  if (!made) return false;
  const PlacePattern& pattern = *made;
  switch (pattern.kind) {
    case Kind::Replicate:
      return p.is_replicate();
    case Kind::Partial:
      return p.is_partial() && p.reduce == pattern.reduce;
    case Kind::Shard:
      return p.is_shard() && p.dim == pattern.dim;
    case Kind::ShardOfD:
      if (!d) d = p.dim - pattern.dim;
      return p.is_shard() && p.dim == *d + pattern.dim;
    default:
      return false;
  }
}

}  // namespace

std::string placement(const PlacePattern& pattern, const std::string& rank) {
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
    case Kind::ShardOfAttr:
      return fmt::format("_ShardingPlaceholder({})", pattern.attr);
    case Kind::ShardFromEnd:
      return fmt::format("_ShardingPlaceholder({}{:+})", rank, pattern.dim);
  }
  return "Replicate()";
}

bool uses_d(const DiscoveredRule& rule) {
  return rule.placement.kind == Kind::ShardOfD ||
         std::any_of(rule.operands.begin(), rule.operands.end(),
                     [](const PlacePattern& p) { return p.kind == Kind::ShardOfD; });
}

std::string condition(std::string text, const std::string& first) {
  auto replace = [&](const std::string& from, const std::string& to) {
    for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
      text.replace(at, from.size(), to);
  };
  replace("size(d)", "shape[d]");
  replace("== true", "== True");
  replace("== false", "== False");
  // "below(d, dims)"
  for (size_t at = text.find("below("); at != std::string::npos; at = text.find("below(")) {
    const size_t comma = text.find(", ", at), end = text.find(')', at);
    const std::string d = text.substr(at + 6, comma - at - 6),
                      list = text.substr(comma + 2, end - comma - 2);
    text.replace(at, end - at + 1, fmt::format("sum(k < {} for k in {})", d, list));
  }
  // "k == size(dim)"
  for (size_t at = text.find("size("); at != std::string::npos; at = text.find("size(")) {
    text[text.find(')', at)] = ']';
    text.replace(at, 5, first + ".shape[");
  }
  return text;
}

bool can_say(const DiscoveredRule& rule) {
  return !rule.on_world && !rule.condition.starts_with("called as") &&
         !rule.condition.starts_with("the shapes");
}

namespace {

// What is said of another result of the same operands: under the same condition, or else all.
std::vector<DiscoveredRule> rules_beside(const Discovery& discovery, const DiscoveredRule& rule,
                                         size_t result) {
  std::optional<DiscoveredRule> same;
  std::vector<DiscoveredRule> others;
  for (const DiscoveredRule& other : discovery.rules) {
    if (other.result != result || other.implied || other.operands != rule.operands ||
        !can_say(other))
      continue;
    if (other.condition != rule.condition && !other.condition.empty())
      others.push_back(other);
    else if (!same || same->placement.kind == Kind::Replicate)
      same = other;
  }
  return same ? std::vector{*same} : others;
}

std::string both(const std::string& a, const std::string& b) {
  if (a.empty() || b.empty() || a == b) return a.empty() ? b : a;
  auto alone = [](const std::string& text) {
    return text.find(" or ") == std::string::npos ? text : "(" + text + ")";
  };
  return alone(a) + " and " + alone(b);
}

}  // namespace

std::vector<ResultRow> result_rows(const Discovery& discovery, const DiscoveredRule& rule) {
  std::vector<ResultRow> rows = {{{rule.placement}, rule.condition}};
  for (size_t result = 1; result < discovery.num_results; ++result) {
    std::vector<ResultRow> longer;
    for (const ResultRow& row : rows)
      for (const DiscoveredRule& other : rules_beside(discovery, rule, result)) {
        longer.push_back(row);
        longer.back().results.push_back(other.placement);
        if (other.condition != rule.condition)
          longer.back().condition = both(row.condition, other.condition);
      }
    rows = std::move(longer);
  }
  return rows;
}

std::string row(const Discovery& discovery, const std::vector<PlacePattern>& results,
                const DiscoveredRule& rule, const std::vector<std::string>& metas) {
  auto rank = [](const std::string& meta) { return fmt::format("len({}.shape)", meta); };
  std::string text = "[";
  for (size_t r = 0; r < results.size(); ++r) {
    std::string result_rank;
    if (results[r].kind == Kind::ShardFromEnd)
      if (const auto like = operand_with_rank_of(discovery, r)) {
        result_rank = rank(metas.at(like->operand));
        if (like->more != 0) result_rank += fmt::format("{:+}", like->more);
      }
    text += (text.size() > 1 ? ", " : "") + placement(results[r], result_rank);
  }
  for (size_t i = 0; i < rule.operands.size(); ++i)
    text += ", " + placement(rule.operands[i], rank(metas.at(i)));
  return text + "]";
}

bool names_attr(const DiscoveredRule& rule, const std::string& attr) {
  return rule.placement.attr == attr ||
         std::ranges::count(rule.operands, attr, &PlacePattern::attr) > 0;
}

size_t base_operand(const DiscoveredRule& rule) {
  for (size_t i = 0; i < rule.operands.size(); ++i)
    if (rule.operands[i].kind == Kind::ShardOfD) return i;
  return 0;
}

std::string literal(const AttrValue& value) {
  if (auto* flag = std::get_if<bool>(&value)) return *flag ? "True" : "False";
  return to_string(value);
}

std::string placement(const Placement& p) {
  if (p.is_shard()) return fmt::format("Shard({})", p.dim);
  if (p.is_partial())
    return fmt::format("Partial(\"{}\")", p.reduce == ReduceOp::Prod ? "product" : name(p.reduce));
  return "Replicate()";
}

bool has_row(const Discovery& discovery, const SampleDecisions& sample, const Combination& c) {
  const AttrMap attrs = attrs_from_front(sample, discovery.dim_attrs);
  return std::any_of(
      discovery.rules.begin(), discovery.rules.end(), [&](const DiscoveredRule& rule) {
        if (!can_say(rule) || rule.implied || rule.result != c.result) return false;
        if (result_rows(discovery, rule).empty()) return false;
        std::optional<int64_t> d;
        for (size_t i = 0; i < rule.operands.size(); ++i)
          if (!fits(rule.operands[i], c.operands[i], d, attrs, sample.sample.operands[i].shape))
            return false;
        return fits(rule.placement, c.placement, d, attrs, sample.result_shapes.at(rule.result));
      });
}

std::string dtype(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "torch.bool";
    case DType::F32:
      return "torch.float32";
    case DType::I64:
      return "torch.int64";
    case DType::I32:
      return "torch.int32";
    case DType::I8:
      return "torch.int8";
    case DType::U8:
      return "torch.uint8";
    case DType::F16:
      return "torch.float16";
    case DType::BF16:
      return "torch.bfloat16";
    default:
      return "torch.float64";
  }
}

std::optional<std::string> results_beside(const SampleDecisions& sample, const Combination& c,
                                          size_t num_results) {
  std::string results = placement(c.placement);
  for (size_t r = 1; r < num_results; ++r) {
    std::optional<Placement> best;
    for (const Decision& other : sample.decisions)
      if (other.verdict.valid() && other.combination.result == r &&
          other.combination.operands == c.operands && !is_implied(sample, other.combination) &&
          (!best || best->is_replicate()))
        best = other.combination.placement;
    if (!best) return std::nullopt;
    results += ", " + placement(*best);
  }
  return results;
}

}  // namespace cleave::dtensor_text
