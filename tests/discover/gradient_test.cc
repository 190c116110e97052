// Reverse derivatives as operators: what their placements are.
#include "cleave/discover/gradient.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/discover/discover.h"
#include "cleave/discover/library.h"
#include "cleave/discover/registry_operator.h"

namespace cleave {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> rules_of(const Operator& op) {
  DiscoverOptions options;
  options.shrink_witnesses = false;
  std::vector<std::string> rules;
  for (const DiscoveredRule& rule : discover(gradient_of(op), options).rules)
    if (!rule.implied) rules.push_back(std::to_string(rule.result) + ": " + to_string(rule));
  return rules;
}

// c = a b:  a^ = c^ b^T,  b^ = a^T c^
TEST(Gradient, Matmul) {
  const std::vector<std::string> rules = rules_of(*find_operator("matmul"));
  for (const char* rule :
       {"0: S(0), R, S(0) -> S(0)", "1: S(0), R, S(0) -> P(sum)", "0: R, S(1), S(1) -> P(sum)",
        "1: R, S(1), S(1) -> S(1)", "0: S(1), S(0), R -> S(1)", "1: S(1), S(0), R -> S(0)",
        "0: R, R, P(sum) -> P(sum)", "1: R, R, P(sum) -> P(sum)"})
    EXPECT_THAT(rules, Contains(rule));
  EXPECT_THAT(rules, Not(Contains("0: S(0), R, R -> S(0)")));
}

// c^ (1 - tanh^2): linear in the cotangent, and never turned around.
TEST(Gradient, Tanh) {
  EXPECT_THAT(rules_of(*find_operator("tanh")),
              testing::UnorderedElementsAre("0: R, R -> R", "0: S(d), S(d) -> S(d)",
                                            "0: R, P(sum) -> P(sum)", "0: R, P(avg) -> P(avg)",
                                            "0: R, P(max) -> P(max)", "0: R, P(min) -> P(min)"));
}

TEST(Gradient, RegisteredOps) {
  EXPECT_THAT(rules_of(*find_registry_operator("stablehlo.dot_general")),
              Contains("0: S(1), R, S(1) -> S(1)"));
  EXPECT_THAT(rules_of(*find_registry_operator("stablehlo.transpose")),
              Contains(HasSubstr("P(sum) -> P(sum)")));
}

TEST(Gradient, NeedsADefinitionAndRealResults) {
  Operator black_box = *find_operator("add");
  black_box.define = nullptr;
  EXPECT_THROW(gradient_of(black_box), UserError);
  EXPECT_THROW(gradient_of(*find_operator("argmax")), UserError);
}

}  // namespace
}  // namespace cleave
