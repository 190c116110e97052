// What is true of operators, worked out by hand, against what discovery finds. The rules are
// complete: what is not listed is wrong and must be refuted. Rules that are implied by a replicated
// result are left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "cleave/discover/discover.h"
#include "cleave/discover/library.h"

namespace cleave {
namespace {

using Rules = std::set<std::string>;

const Rules kMonotone = {"R -> R", "S(d) -> S(d)", "P(max) -> P(max)", "P(min) -> P(min)"};
const Rules kPointwise = {"R -> R", "S(d) -> S(d)"};
const Rules kMoves = {"R -> R",           "P(sum) -> P(sum)", "P(avg) -> P(avg)",
                      "P(max) -> P(max)", "P(min) -> P(min)", "P(prod) -> P(prod)"};
const Rules kAlongDim = {"R -> R", "S(d) -> S(d-1) WHEN d > dim", "S(d) -> S(d) WHEN d < dim"};

Rules with(Rules rules, const Rules& more) {
  rules.insert(more.begin(), more.end());
  return rules;
}

Rules reduction(const std::string& partial) {
  return {"R -> R", "S(d) -> " + partial + " WHEN d == dim", partial + " -> " + partial,
          "S(d) -> S(d-1) WHEN d > dim and not keepdim",
          "S(d) -> S(d) WHEN d != dim and (d < dim or keepdim)"};
}

// Bilinear in both operands.
const Rules kBilinear = {"R, R -> R", "P(sum), R -> P(sum)", "R, P(sum) -> P(sum)",
                         "P(avg), R -> P(avg)", "R, P(avg) -> P(avg)"};

const std::map<std::string, Rules>& truth() {
  static const std::map<std::string, Rules> table = {
      {"abs", with(kPointwise, {"P(prod) -> P(prod)"})},
      {"neg", with(kPointwise, {"P(sum) -> P(sum)", "P(avg) -> P(avg)", "P(max) -> P(min)",
                                "P(min) -> P(max)"})},
      {"exp", with(kMonotone, {"P(sum) -> P(prod)"})},
      {"sigmoid", kMonotone},
      {"tanh", kMonotone},
      {"sin", kPointwise},
      {"cos", kPointwise},
      {"sign", with(kMonotone, {"P(prod) -> P(prod)"})},
      {"floor", kMonotone},
      {"ceil", kMonotone},
      {"relu", kMonotone},
      {"clamp", kMonotone},
      {"square", with(kPointwise, {"P(prod) -> P(prod)"})},
      // Parts of a maximum may be negative, and have no logarithm or root.
      {"log", with(kPointwise, {"P(min) -> P(min)"})},
      {"sqrt", with(kPointwise, {"P(min) -> P(min)"})},
      {"rsqrt", with(kPointwise, {"P(min) -> P(max)"})},
      {"add_scalar", with(kMonotone, {"P(avg) -> P(avg)"})},
      {"mul_scalar",
       with(kPointwise, {"P(sum) -> P(sum)", "P(avg) -> P(avg)", "P(max) -> P(max) WHEN scalar > 0",
                         "P(max) -> P(min) WHEN scalar < 0", "P(min) -> P(max) WHEN scalar < 0",
                         "P(min) -> P(min) WHEN scalar > 0"})},
      {"add",
       {"R, R -> R", "S(d), S(d) -> S(d)", "P(sum), P(sum) -> P(sum)", "P(avg), P(avg) -> P(avg)",
        "P(avg), R -> P(avg)", "R, P(avg) -> P(avg)", "P(max), R -> P(max)", "R, P(max) -> P(max)",
        "P(min), R -> P(min)", "R, P(min) -> P(min)"}},
      {"sub",
       {"R, R -> R", "S(d), S(d) -> S(d)", "P(sum), P(sum) -> P(sum)", "P(avg), P(avg) -> P(avg)",
        "P(avg), R -> P(avg)", "R, P(avg) -> P(avg)", "P(max), R -> P(max)", "R, P(max) -> P(min)",
        "P(min), R -> P(min)", "R, P(min) -> P(max)"}},
      {"mul", with(kBilinear, {"S(d), S(d) -> S(d)", "P(prod), P(prod) -> P(prod)"})},
      {"div",
       {"R, R -> R", "S(d), S(d) -> S(d)", "P(sum), R -> P(sum)", "P(avg), R -> P(avg)",
        "P(prod), P(prod) -> P(prod)"}},
      {"maximum",
       {"R, R -> R", "S(d), S(d) -> S(d)", "P(max), R -> P(max)", "R, P(max) -> P(max)",
        "P(max), P(max) -> P(max)", "P(min), R -> P(min)", "R, P(min) -> P(min)"}},
      {"minimum",
       {"R, R -> R", "S(d), S(d) -> S(d)", "P(max), R -> P(max)", "R, P(max) -> P(max)",
        "P(min), P(min) -> P(min)", "P(min), R -> P(min)", "R, P(min) -> P(min)"}},
      {"atan2", {"R, R -> R", "S(d), S(d) -> S(d)"}},
      {"eq", {"R, R -> R", "S(d), S(d) -> S(d)"}},
      // a < b for all parts of a maximum a, or of a minimum b. "For some part" fails on NaN.
      {"lt", {"R, R -> R", "S(d), S(d) -> S(d)", "P(max), R -> P(min)", "R, P(min) -> P(min)"}},
      {"where",
       {"R, R, R -> R", "S(d), S(d), S(d) -> S(d)", "R, P(sum), P(sum) -> P(sum)",
        "R, P(avg), P(avg) -> P(avg)", "R, P(avg), R -> P(avg)", "R, R, P(avg) -> P(avg)",
        "R, P(max), P(max) -> P(max)", "R, P(max), R -> P(max)", "R, R, P(max) -> P(max)",
        "R, P(min), P(min) -> P(min)", "R, P(min), R -> P(min)", "R, R, P(min) -> P(min)",
        "R, P(prod), P(prod) -> P(prod)"}},
      {"cast",
       {"R -> R", "S(d) -> S(d)", "P(sum) -> P(sum) WHEN to == 'f64'",
        "P(avg) -> P(avg) WHEN to == 'f64'", "P(max) -> P(max) WHEN to == 'f64'",
        "P(min) -> P(min) WHEN to == 'f64'", "P(prod) -> P(prod) WHEN to == 'f64'"}},
      {"sum", with(reduction("P(sum)"), {"P(avg) -> P(avg)"})},
      {"amax", reduction("P(max)")},
      {"amin", reduction("P(min)")},
      {"prod", reduction("P(prod)")},
      {"mean",
       {"R -> R", "P(sum) -> P(sum)", "P(avg) -> P(avg)",
        "S(d) -> P(avg) WHEN d == dim and size(d) % w == 0",
        "S(d) -> S(d-1) WHEN d > dim and not keepdim",
        "S(d) -> S(d) WHEN d != dim and (d < dim or keepdim)"}},
      {"argmax", kAlongDim},
      {"softmax", {"R -> R", "S(d) -> S(d) WHEN d != dim or size(d) == 1"}},
      {"log_softmax", {"R -> R", "S(d) -> S(d) WHEN d != dim"}},
      {"cumsum",
       {"R -> R", "P(sum) -> P(sum)", "P(avg) -> P(avg)",
        "S(d) -> S(d) WHEN d != dim or size(d) == 1"}},
      {"var", kAlongDim},
      {"matmul", with(kBilinear, {"S(0), R -> S(0)", "R, S(1) -> S(1)", "S(1), S(0) -> P(sum)"})},
      {"bmm", with(kBilinear, {"S(0), S(0) -> S(0)", "S(1), R -> S(1)", "R, S(2) -> S(2)",
                               "S(2), S(1) -> P(sum)"})},
      {"cross", with(kBilinear, {"S(d), S(d) -> S(d) WHEN d != dim"})},
      {"transpose", with(kMoves, {"S(0) -> S(1)", "S(1) -> S(0)"})},
      {"flip", with(kMoves, {"S(d) -> S(d) WHEN d != dim"})},
      {"sort", {"R -> R", "S(d) -> S(d) WHEN d != dim"}},
      {"bucketize", {"R, R -> R", "S(0), R -> S(0)", "R, S(0) -> P(sum)", "P(min), R -> P(min)"}},
  };
  return table;
}

Rules found(const std::string& name, uint64_t seed) {
  DiscoverOptions options;
  options.seed = seed;
  options.shrink_witnesses = false;
  Rules rules;
  for (const DiscoveredRule& rule : discover(*find_operator(name), options).rules)
    if (!rule.implied) rules.insert(to_string(rule));
  return rules;
}

// The sanitizers slow the operators down some ten times; they look for other things than verdicts.
#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kSeeds = 1;
#else
constexpr uint64_t kSeeds = 20;
#endif

class TruthTable : public testing::TestWithParam<std::string> {};

TEST_P(TruthTable, HoldsAtEverySeed) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed)
    ASSERT_EQ(found(GetParam(), seed), truth().at(GetParam())) << GetParam() << " at seed " << seed;
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& [name, rules] : truth()) result.push_back(name);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Operators, TruthTable, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(TruthTableSize, AtLeastForty) { EXPECT_GE(truth().size(), 40u); }

}  // namespace
}  // namespace cleave
