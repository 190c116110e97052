#include <gtest/gtest.h>

#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

// Ops with results and without regions of control flow say how their result types follow.
TEST(Registry, EveryOpInfersItsTypes) {
  for (const auto& [name, def] : op_registry().ops()) {
    EXPECT_EQ(name, def.name);
    if (def.has(kCollective)) continue;
    EXPECT_NE(def.infer, nullptr) << name;
  }
}

// Pure ops that compute from operands can be sharded: they have a rule.
TEST(Registry, PureTensorOpsHaveRules) {
  for (const auto& [name, def] : op_registry().ops()) {
    if (!def.has(kPure) || def.has(kConstantLike) || name.find("tuple") != std::string::npos)
      continue;
    if (!name.starts_with("stablehlo.") && !name.starts_with("chlo.")) continue;
    if (name == "stablehlo.dynamic_conv") continue;  // its windows are known only at run time
    EXPECT_NE(def.rule, nullptr) << name;
  }
}

}  // namespace
}  // namespace cleave
