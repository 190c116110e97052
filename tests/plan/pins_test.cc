#include "cleave/plan/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/plan/explain_groups.h"
#include "cleave/plan/infeasible.h"
#include "models.h"

namespace cleave::plan {
namespace {

using namespace test;
using testing::HasSubstr;

MeshPtr mesh_of(const char* text) { return std::make_shared<const Mesh>(parse_mesh(text)); }

std::string error_of(const std::function<void()>& run) {
  try {
    run();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

PlannerOptions options_for(const char* mesh, const std::vector<const char*>& pins) {
  PlannerOptions options;
  options.mesh = mesh_of(mesh);
  options.profile = &builtin_profile("h100");
  for (const char* pin : pins) options.pins.push_back(parse_pin(pin, options.mesh));
  return options;
}

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
  options.memory = int64_t{100} << 20;  // each weight is 64 MiB
  ASSERT_FALSE(make_plan(graph, options).plan);
  const Infeasibility why = explain_infeasible(graph, options);
  EXPECT_THAT(why.conflict, testing::ElementsAre("replicate w1", "replicate w2"));
  EXPECT_THAT(why.text(), HasSubstr("do not fit together"));
}

TEST(Explanation, GroupsOfCostsSumUpToThePlan) {
  for (const char* mesh : {"data=2,model=4", "x=2,y=2,z=2"}) {
    const Graph graph = parse_module(mlp_step(8192, 4096, 16384, 4096));
    PlannerOptions options = options_for(mesh, {});
    options.memory = int64_t{1} << 30;
    const PlannerResult result = make_plan(graph, options);
    ASSERT_TRUE(result.plan);
    double seconds = 0;
    const std::vector<CostGroup> groups = cost_groups(*result.plan, graph, *options.profile);
    for (const CostGroup& group : groups) seconds += group.seconds;
    EXPECT_NEAR(seconds, result.plan->totals.seconds, 1e-9 * seconds);
    EXPECT_GE(groups[0].seconds, groups[1].seconds);
  }
  const Graph loops = parse_module(loop(12, 8192, 8192));
  const PlannerResult result = make_plan(loops, options_for("x=4", {}));
  double seconds = 0;
  for (const CostGroup& group : cost_groups(*result.plan, loops, builtin_profile("h100")))
    seconds += group.seconds;
  EXPECT_NEAR(seconds, result.plan->totals.seconds, 1e-9 * seconds);
}

}  // namespace
}  // namespace cleave::plan
