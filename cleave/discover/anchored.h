#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cleave/discover/discover.h"

namespace cleave {

// The attributes of a call, with dimensions counted from the front: of operand 0, or of a result
// that has more.
AttrMap attrs_from_front(const SampleDecisions& sample, const std::vector<std::string>& dim_attrs);

// A pattern for one tensor of a call, with a number in place of S(-1) and S(dim); nothing if the
// tensor has no such dimension. S(d) stays as it is.
std::optional<PlacePattern> in_call(const PlacePattern& pattern, const AttrMap& attrs, size_t rank);

// An operand whose rank, and so many more, is that of a result in all calls.
struct RankLike {
  size_t operand = 0;
  int64_t more = 0;
};
std::optional<RankLike> operand_with_rank_of(const Discovery& discovery, size_t result);

// A rule with dimensions that are not numbers, and the decisions that it explains:
//
//   a lookup               R, S(0) -> S(dim)
//   a swap of dimensions   S(dim0) -> S(dim1)
//   a linear layer         R, S(0) -> S(-1)     S(-1), S(1) -> P(sum)
struct AnchoredRule {
  DiscoveredRule rule;
  std::vector<const Decision*> explained;
};

// Rules that are right in all calls that have such dimensions, in two of them at least with
// different numbers, and explain decisions of `wanted`; as few as do so.
std::vector<AnchoredRule> anchored_rules(const Operator& op, const Discovery& discovery,
                                         const std::vector<const Decision*>& wanted);

}  // namespace cleave
