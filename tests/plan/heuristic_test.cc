#include "cleave/plan/heuristic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/graph/op_rule.h"
#include "cleave/plan/heuristic_backward.h"
#include "models.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

using namespace test;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Told {
  std::vector<std::string> lines;
  PlannerResult result;
};

Told heuristic(const std::string& module, const char* mesh) {
  Told told;
  PlannerOptions options = options_for(mesh);
  options.trace = [&](const std::string& line) { told.lines.push_back(line); };
  told.result = plan_by_heuristic(parse_module(module), options);
  return told;
}

// The names of matmuls whose gradient is in the module.
std::vector<std::string> trained(const Graph& graph) {
  const RegionId body = graph.functions[0].body;
  const BackwardFinder finder(graph, body);
  std::vector<std::string> found;
  for (NodeId id : graph.region(body).nodes) {
    const Node& node = graph.node(id);
    if (node.name() != "stablehlo.dot_general") continue;
    const OpRule rules = op_rule(graph, node);
    if (finder.has_gradient(id, *rules.to_run(node)))
      found.push_back(graph.value(node.results[0]).name);
  }
  return found;
}

// x (rows x inner) times w (inner x columns).
std::string product(int64_t rows, int64_t inner, int64_t columns) {
  return "func.func @main(%x: " + tensor(rows, inner) + ", %w: " + tensor(inner, columns) +
         ") -> " + tensor(rows, columns) + " {\n" +
         matmul("0", "x", tensor(rows, inner), "w", tensor(inner, columns), tensor(rows, columns),
                1, 0) +
         "  return %0 : " + tensor(rows, columns) + "\n}\n";
}

TEST(Heuristic, SplitsALongContraction) {
  const Told told = heuristic(product(64, 1 << 18, 64), "x=4");
  EXPECT_THAT(told.lines, Contains(HasSubstr("-> contraction")));
  EXPECT_THAT(told.lines,
              Contains(R"([Solver]   chosen: dot_general.0 [{?}, {?}], contracted over {"x"})"));
  ASSERT_TRUE(told.result.plan);
  EXPECT_EQ(to_string(told.result.plan->find_value("x")->spec), R"([{}, {"x"}])");
  EXPECT_EQ(to_string(told.result.plan->find_value("w")->spec), R"([{"x"}, {}])");
}

TEST(Heuristic, RowsOfAForwardPassCostNoCommunication) {
  // The weights are large: an all_reduce of their gradient would cost more than to gather columns.
  const Told forward = heuristic(mlp(256, 4096, 4096, 4096), "x=4");
  EXPECT_THAT(forward.lines, Contains(HasSubstr("-> data parallel")));
  EXPECT_THAT(forward.lines, Not(Contains(HasSubstr("-> model parallel"))));
  const Told step = heuristic(mlp_step(256, 4096, 4096, 4096), "x=4");
  EXPECT_THAT(step.lines[3], Not(HasSubstr("-> data parallel")));
}

TEST(Heuristic, TellsSweepsAndTheFixedPoint) {
  const Told told = heuristic(mlp(256, 256, 256, 256), "x=4");
  EXPECT_THAT(told.lines, Contains(StartsWith("[Solver] Propagation iteration 1: changed=")));
  EXPECT_THAT(told.lines, Contains("[Solver] Propagation iteration 5: changed=0"));
  EXPECT_THAT(told.lines, Contains("[Solver] Fixed-point reached after 5 iterations"));
}

TEST(Heuristic, WarnsOfOpsWithoutARuleAndNodesWithoutASolution) {
  const std::string module =
      "func.func @main(%x: " + tensor(64, 64) + ", %w: " + tensor(64, 64) +
      ", %y: " + tensor(8, 8) + ") -> (" + tensor(64, 64) + ", " + tensor(8, 8) + ") {\n" +
      matmul("0", "x", tensor(64, 64), "w", tensor(64, 64), tensor(64, 64), 1, 0) +
      "  %1 = stablehlo.tanh %y : " + tensor(8, 8) + "\n" + "  return %0, %1 : " + tensor(64, 64) +
      ", " + tensor(8, 8) + "\n}\n";
  const Told told = heuristic(module, "x=4");
  EXPECT_THAT(told.lines, Contains(HasSubstr("Warning: tanh.0 has no solution")));
  const std::string unknown = "func.func @main(%y: " + tensor(8, 8) + ") -> " + tensor(8, 8) +
                              " {\n  %0 = \"my.op\"(%y) : (" + tensor(8, 8) + ") -> " +
                              tensor(8, 8) + "\n  return %0 : " + tensor(8, 8) + "\n}\n";
  EXPECT_THAT(heuristic(unknown, "x=4").lines, Contains(HasSubstr("has no rule; nothing spreads")));
}

TEST(Backward, IsFoundInATrainStepAndNotInAForwardPass) {
  EXPECT_TRUE(trained(parse_module(mlp(64, 32, 16, 8))).empty());
  EXPECT_EQ(trained(parse_module(mlp_step(64, 32, 16, 8))), (std::vector<std::string>{"z", "y"}));
  // Square sizes do not confuse it: projections of one x contract the same dimension of it.
  const std::string t = tensor(8, 8);
  const std::string projections =
      "func.func @main(%x: " + t + ", %a: " + t + ", %b: " + t + ") -> (" + t + ", " + t + ") {\n" +
      matmul("0", "x", t, "a", t, t, 1, 0) + matmul("1", "x", t, "b", t, t, 1, 0) +
      "  return %0, %1 : " + t + ", " + t + "\n}\n";
  EXPECT_TRUE(trained(parse_module(projections)).empty());
  // The update alone shows it too: a - (what the product has a part in).
  const std::string update = "func.func @main(%x: " + t + ", %a: " + t + ") -> " + t + " {\n" +
                             matmul("0", "x", t, "a", t, t, 1, 0) +
                             "  %1 = stablehlo.subtract %a, %0 : " + t + "\n  return %1 : " + t +
                             "\n}\n";
  EXPECT_EQ(trained(parse_module(update)).size(), 1u);
}

}  // namespace
}  // namespace cleave::plan
