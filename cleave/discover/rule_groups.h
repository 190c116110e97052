#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/discover.h"
#include "cleave/discover/synthesize.h"

namespace cleave {

// Rules with the same operands and condition: the placements of all results.
struct RuleGroup {
  std::vector<PlacePattern> operands;
  std::vector<std::optional<PlacePattern>> results;
  std::string condition;
  std::string justification;

  size_t num_sharded() const {
    return static_cast<size_t>(std::count_if(operands.begin(), operands.end(), is_sharded));
  }
  bool has_partial() const {
    return std::any_of(operands.begin(), operands.end(),
                       [](const PlacePattern& p) { return p.kind == PlacePattern::Kind::Partial; });
  }
  bool uses_d() const {
    return std::any_of(operands.begin(), operands.end(), [](const PlacePattern& p) {
      return p.kind == PlacePattern::Kind::ShardOfD;
    });
  }
  static bool is_sharded(const PlacePattern& p) { return p.is_shard(); }
  // Whether a placement says S(name) for an attribute.
  bool names(const std::string& attr) const {
    auto is_named = [&](const PlacePattern& p) { return p.attr == attr; };
    return std::any_of(operands.begin(), operands.end(), is_named) ||
           std::any_of(results.begin(), results.end(),
                       [&](const auto& result) { return result && is_named(*result); });
  }
  // Every result is sharded or pending under one reduction, and so a factor can say it.
  bool is_factor() const {
    return num_sharded() > 0 && !has_partial() &&
           std::all_of(results.begin(), results.end(), [&](const auto& result) {
             return result && result->kind != PlacePattern::Kind::Replicate &&
                    (result->kind == PlacePattern::Kind::Partial) ==
                        (results[0]->kind == PlacePattern::Kind::Partial) &&
                    (result->kind != PlacePattern::Kind::Partial ||
                     result->reduce == results[0]->reduce);
           });
  }
  std::optional<PartialRow> row() const {
    PartialRow row{};
    std::optional<ReduceOp> in;
    if (!has_partial() || num_sharded() > 0) return std::nullopt;
    for (const PlacePattern& p : operands) {
      row.operands.push_back(p.kind == PlacePattern::Kind::Partial);
      if (p.kind != PlacePattern::Kind::Partial) continue;
      if (in && *in != p.reduce) return std::nullopt;
      in = p.reduce;
    }
    for (const auto& result : results)
      if (!result || result->kind != PlacePattern::Kind::Partial ||
          result->reduce != results[0]->reduce)
        return std::nullopt;
    row.in = *in;
    row.out = results[0]->reduce;
    return row;
  }
};

// The rules of a report that a factor rule or a partial transfer can say; those that shard the most
// operands first.
std::vector<RuleGroup> rule_groups(const Discovery& discovery);

// Whether conditions are about attributes and dimensions alone, and one function for all calls
// claims as much as one for each call would.
bool has_general_rule(const Discovery& discovery, const std::vector<RuleGroup>& groups);

// The group for one call, with numbers in place of S(-1) and S(dim); nothing if the call has no
// such dimensions. Attributes count from the front.
std::optional<RuleGroup> in_call(RuleGroup group, const AttrMap& attrs,
                                 const std::vector<Shape>& operands,
                                 const std::vector<Shape>& results);

// A pattern with a value for d: S(d-1) with d = 2 is S(1).
Placement placement_at(const PlacePattern& pattern, int64_t d);

}  // namespace cleave
