#include "cleave/plan/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/plan/explain_groups.h"
#include "cleave/plan/infeasible.h"
#include "cleave/plan/verify_plan.h"
#include "models.h"
#include "tests/support/error_of.h"
#include "tests/support/mesh_of.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(Pins, AreReadFromText) {
  const MeshPtr mesh = mesh_of("data=2,model=4");
  const std::vector<Pin> pins = parse_pins(
      "# weights\n  w*=[{\"data\"}, {?}]\n\nforbid *.norm = model, data\nreplicate [0].x\n", mesh);
  ASSERT_EQ(pins.size(), 3u);
  EXPECT_EQ(pins[0].pattern, "w*");
  EXPECT_EQ(to_string(spec_for(pins[0], mesh, 2)), R"([{"data"}, {?}])");
  EXPECT_EQ(pins[1].pattern, "*.norm");
  EXPECT_EQ(pins[1].without.size(), 2u);
  EXPECT_EQ(pins[2].pattern, "[0].x");
  EXPECT_EQ(to_string(spec_for(pins[2], mesh, 3)), "[{}, {}, {}]");
  EXPECT_EQ(to_string(spec_for(parse_pin("forbid x=model", mesh), mesh, 1)),
            R"([{?}], replicated={"model"})");
  for (const char* bad : {"w", "=[{}]", "replicate ", "forbid w"})
    EXPECT_THAT(error_of([&] { parse_pin(bad, mesh); }), HasSubstr("expected")) << bad;
  EXPECT_THAT(error_of([&] { parse_pin("forbid w=dta", mesh); }),
              HasSubstr("the mesh has no axis 'dta'; it has data, model"));
  EXPECT_THAT(error_of([&] { parse_pin("w=[{\"dta\"}]", mesh); }),
              HasSubstr("pin 'w=[{\"dta\"}]'"));
}

TEST(Pins, PatternsPassOverOtherRanks) {
  const MeshPtr mesh = mesh_of("x=2");
  const Pin pin = parse_pin("*=[{\"x\"}, {}]", mesh);
  EXPECT_TRUE(applies(pin, "w", 2));
  EXPECT_FALSE(applies(pin, "w", 1));
  EXPECT_TRUE(applies(parse_pin("w=[{\"x\"}, {}]", mesh), "w", 1));  // an error where it is used
  EXPECT_TRUE(applies(parse_pin("forbid *=x", mesh), "w", 1));
}

TEST(Pins, ForbiddenAxesSplitNothing) {
  const Graph graph = parse_module(mlp(4096, 4096, 4096, 4096));
  const PlannerResult result =
      make_plan(graph, options_for("x=2,y=4", {"forbid *=y", "replicate w1"}));
  ASSERT_TRUE(result.plan);
  for (const char* name : {"x", "w1", "w2"})
    EXPECT_THAT(to_string(result.plan->find_value(name)->spec), testing::Not(HasSubstr("y")));
  EXPECT_EQ(to_string(result.plan->find_value("w1")->spec), "[{}, {}]");
  for (const PlannedOperand& operand : result.plan->find_op("return")->operands)
    EXPECT_THAT(to_string(operand.spec), testing::Not(HasSubstr("y")));
}

TEST(Pins, TheTwoThatContradictAreNamed) {
  const Graph graph = parse_module(mlp(64, 64, 64, 64));
  const PlannerOptions options =
      options_for("x=2,y=2", {"w1=[{\"x\"}, {?}]", "w1=[{?}, {\"y\"}]", "forbid w1=x"});
  EXPECT_THAT(error_of([&] { make_plan(graph, options); }),
              HasSubstr("the pins w1=[{\"x\"}, {?}] and forbid w1=x cannot both hold"));
}

// Two weights fit when one of them is split; x does not matter.
TEST(Pins, ASmallestConflictIsFound) {
  const Graph graph = parse_module(mlp(64, 4096, 4096, 4096));
  PlannerOptions options = options_for(
      "x=4", {"replicate x", "replicate w1", "replicate dot_general.0", "replicate w2"});
  options.memory = int64_t{132} << 20;  // each weight is 64 MiB, the workspace of a product 32 MiB
  ASSERT_FALSE(make_plan(graph, options).plan);
  const Infeasibility why = explain_infeasible(graph, options);
  EXPECT_THAT(why.conflict, testing::ElementsAre("pin replicate w1", "pin replicate w2"));
  EXPECT_THAT(why.text(), HasSubstr("do not fit together"));
}

std::string annotated_mlp(const char* of_w1, const char* of_w2) {
  auto attribute = [](const char* spec) {
    return *spec ? fmt::format(" {{sdy.sharding = #sdy.sharding<@mesh, {}>}}", spec) : "";
  };
  const std::string t = "tensor<4096x4096xf32>", x = "tensor<64x4096xf32>";
  return fmt::format(
      "sdy.mesh @mesh = <[\"x\"=4]>\n"
      "func.func @main(%x: {1}, %w1: {0}{2}, %w2: {0}{3}) -> {1} {{\n"
      "  %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : ({1}, {0}) -> {1}\n"
      "  %1 = stablehlo.dot_general %0, %w2, contracting_dims = [1] x [0] : ({1}, {0}) -> {1}\n"
      "  %2 = sdy.sharding_constraint %1 <@mesh, [{{}}, {{}}]> : {1} loc(\"step.py\":7:3)\n"
      "  return %2 : {1}\n}}\n",
      t, x, attribute(of_w1), attribute(of_w2));
}

// Annotations of the module are members of the conflict like pins.
TEST(Pins, AnnotationsAreInTheConflict) {
  PlannerOptions options = options_for("x=4", {"replicate w2"});
  options.memory = int64_t{132} << 20;
  const Infeasibility both =
      explain_infeasible(parse_module(annotated_mlp("[{}, {}]", "")), options);
  EXPECT_THAT(both.conflict, testing::ElementsAre("annotation [{}, {}] of w1 (argument 1 of @main)",
                                                  "pin replicate w2"));
  EXPECT_THAT(both.text(), HasSubstr("the annotation [{}, {}] of w1 (argument 1 of @main) (64.00 "
                                     "MiB on each device)"));
  EXPECT_THAT(both.text(), HasSubstr("the pin replicate w2 (64.00 MiB on each device)"));

  options.pins.clear();
  const Infeasibility two =
      explain_infeasible(parse_module(annotated_mlp("[{}, {}]", "[{}, {}]")), options);
  EXPECT_EQ(two.conflict.size(), 2u);

  options.memory = int64_t{32} << 20;
  const Infeasibility one =
      explain_infeasible(parse_module(annotated_mlp("", "[{}, {?}]")), options);
  EXPECT_TRUE(one.conflict.empty());  // 32 MiB of weights alone are too much, whatever they say
  EXPECT_THAT(one.text(), HasSubstr("without pins and annotations nothing fits either"));
}

TEST(Pins, ConstraintsOfOpsAndResultsAreInTheConflict) {
  // 64 MiB of results on every device, where 40 are allowed.
  const std::string t = "tensor<4096x4096xf32>", b = "tensor<4096xf32>";
  auto module = [&](const char* of_result, const char* constraint) {
    return parse_module(
        fmt::format("sdy.mesh @mesh = <[\"x\"=4]>\n"
                    "func.func @main(%a: {1}) -> ({0}{2}) {{\n"
                    "  %0 = stablehlo.broadcast_in_dim %a, dims = [0] : ({1}) -> {0}\n{3}"
                    "  return %{4} : {0}\n}}\n",
                    t, b, of_result, constraint, *constraint ? 1 : 0));
  };
  PlannerOptions options = options_for("x=4", {});
  options.memory = int64_t{40} << 20;
  const Infeasibility result =
      explain_infeasible(module(" {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}", ""), options);
  EXPECT_THAT(
      result.conflict,
      testing::ElementsAre("annotation [{}, {}] of broadcast_in_dim.0 (result 0 of @main)"));
  const Infeasibility op = explain_infeasible(
      module("",
             "  %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}]> : tensor<4096x4096xf32> "
             "loc(\"step.py\":7:3)\n"),
      options);
  EXPECT_THAT(op.conflict, testing::ElementsAre("annotation [{}, {}] of sharding_constraint.0 (at "
                                                "step.py:7)"));
  EXPECT_THAT(op.text(), HasSubstr("(64.00 MiB on each device)"));
}

// {?} of a constraint or of a result is the planner's to choose.
TEST(Pins, OpenDimensionsOfConstraintsAreChosen) {
  const char* text =
      "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n"
      "func.func @main(%a: tensor<4096x8192xf32>) -> (tensor<4096x8192xf32> {sdy.sharding = "
      "#sdy.sharding<@mesh, [{\"x\"}, {?}]>}) {\n"
      "  %0 = stablehlo.exponential %a : tensor<4096x8192xf32>\n"
      "  %1 = sdy.sharding_constraint %0 <@mesh, [{\"x\"}, {?}]> : tensor<4096x8192xf32>\n"
      "  %2 = stablehlo.tanh %1 : tensor<4096x8192xf32>\n"
      "  return %2 : tensor<4096x8192xf32>\n}\n";
  const Graph graph = parse_module(text);
  const PlannerOptions options = options_for("x=2,y=4", {});
  const PlannerResult result = make_plan(graph, options);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(to_string(result.plan->find_value("sharding_constraint.0")->spec), R"([{"x"}, {"y"}])");
  EXPECT_EQ(to_string(result.plan->find_op("return")->operands[0].spec), R"([{"x"}, {"y"}])");
  EXPECT_TRUE(result.plan->totals.collectives.empty());
  EXPECT_TRUE(verify_plan(*result.plan, graph, *options.profile).good());
}

TEST(Explanation, GroupsOfCostsSumUpToThePlan) {
  for (const char* mesh : {"data=2,model=4", "x=2,y=2,z=2"}) {
    const Graph graph = parse_module(mlp_step(8192, 4096, 16384, 4096));
    PlannerOptions options = options_for(mesh, {});
    options.memory = int64_t{1} << 30;
    const PlannerResult result = make_plan(graph, options);
    ASSERT_TRUE(result.plan);
    double seconds = 0;
    const Graph flat = flatten(graph, "main");
    const std::vector<CostGroup> groups = cost_groups(bind(*result.plan, flat), *options.profile);
    for (const CostGroup& group : groups) seconds += group.seconds;
    EXPECT_NEAR(seconds, result.plan->totals.seconds, 1e-9 * seconds);
    EXPECT_GE(groups[0].seconds, groups[1].seconds);
  }
  const Graph loops = flatten(parse_module(loop(12, 8192, 8192)), "main");
  const PlannerResult result = make_plan(loops, options_for("x=4", {}));
  double seconds = 0;
  for (const CostGroup& group : cost_groups(bind(*result.plan, loops), builtin_profile("h100")))
    seconds += group.seconds;
  EXPECT_NEAR(seconds, result.plan->totals.seconds, 1e-9 * seconds);
}

}  // namespace
}  // namespace cleave::plan
