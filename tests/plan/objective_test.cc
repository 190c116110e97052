#include "cleave/plan/objective.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "cleave/core/error.h"
#include "cleave/models/registry.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/extract.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/tables.h"
#include "cleave/plan/verify_plan.h"
#include "cleave/solve/solve.h"
#include "models.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

using namespace test;
using ::testing::HasSubstr;

// The planner, step by step, as it searches for few bytes.
struct ByBytes {
  Graph flat;
  Names names;
  Layouts layouts;
  StrategyBook book;
  Formulation formulation;
  Tables tables;

  ByBytes(const std::string& text, const char* mesh)
      : flat(flatten(parse_module(text), "main", builtin_profile("h100"))),
        names(name_everything(flat, "main")),
        layouts(std::make_shared<const Mesh>(parse_mesh(mesh)),
                profile_for(builtin_profile("h100"), Objective::Bytes)),
        book(flat, layouts),
        formulation(flat, names, layouts, book, {}),
        tables(formulation, layouts, every_decision_apart(formulation)) {}

  // Over all assignments that fit, counted step by step. What the tables say is a little more than
  // the bytes, so that most need no count.
  double fewest_bytes(int64_t limit) {
    std::vector<int> choice(formulation.decisions.size());
    double best = std::numeric_limits<double>::infinity();
    while (true) {
      const double least = (tables.seconds(choice) - tables.most_compute()) * kBytesOfSecond;
      if (least < std::min(best, 1e15) && fits(choice, limit))
        best = std::min(
            best, extract({flat, names, formulation, layouts, choice}).totals.received_bytes());
      size_t d = 0;
      while (d < choice.size() && ++choice[d] == formulation.decisions[d].count) choice[d++] = 0;
      if (d == choice.size()) return best;
    }
  }

  bool fits(const std::vector<int>& choice, int64_t limit) const {
    const std::vector<int64_t> memory = tables.memory(choice);
    return *std::max_element(memory.begin(), memory.end()) <= limit;
  }
};

TEST(Objective, NoAssignmentReceivesFewerBytes) {
  std::mt19937 random(5);
  auto size = [&] { return int64_t{64} << random() % 5; };
  int limited = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string text = i % 4 == 3 ? diamond(size()) : mlp(size(), size(), size(), size());
    ByBytes opened(text, i % 2 ? "x=8" : "x=4");
    const int64_t most =
        opened.tables.memory(std::vector<int>(opened.formulation.decisions.size()))[1];
    for (const double tightness : {0.35, 0.6, 2.0}) {
      PlannerOptions options;
      options.mesh = opened.layouts.mesh();
      options.profile = &builtin_profile("h100");
      options.objective = Objective::Bytes;
      options.memory = static_cast<int64_t>(tightness * static_cast<double>(most));
      const double best = opened.fewest_bytes(*options.memory);
      const PlannerResult result = make_plan(parse_module(text), options);
      ASSERT_EQ(result.plan.has_value(), best < 1e18) << text;
      if (!result.plan) continue;
      EXPECT_EQ(result.plan->totals.received_bytes(), best) << text << tightness;
      EXPECT_LE(result.plan->bound.lower_bound, best);
      limited += best > 0;
      if (tightness <= 1) continue;
      EXPECT_EQ(best, 0) << "whole tensors everywhere need no collective";
    }
  }
  EXPECT_GT(limited, 2);
}

// Layouts of arguments by hand, the rest by propagation: other code finds nothing better.
TEST(Objective, NoLayoutOfArgumentsReceivesFewerBytes) {
  const std::string text = mlp_step(512, 256, 1024, 256);
  const Graph graph = parse_module(text);
  PlannerOptions options = options_for("x=2,y=2");
  const Plan whole = *make_plan(graph, options).plan;
  for (const double tightness : {0.6, 0.8}) {
    options.memory = static_cast<int64_t>(tightness * static_cast<double>(whole.memory.peak));
    options.pins.clear();
    options.objective = Objective::Bytes;
    const PlannerResult found = make_plan(graph, options);
    ASSERT_TRUE(found.plan);
    const char* const kSpecs[] = {"[{}, {}]", "[{\"x\", \"y\"}, {}]", "[{}, {\"x\", \"y\"}]",
                                  "[{\"x\"}, {\"y\"}]", "[{\"y\"}, {\"x\"}]"};
    int fitting = 0;
    for (const char* a : kSpecs)
      for (const char* b : kSpecs)
        for (const char* c : kSpecs) {
          PlannerOptions by_hand = options;
          by_hand.objective = Objective::Step;
          for (const std::string& pin :
               {fmt::format("w1={}", a), fmt::format("w2={}", b), fmt::format("x={}", c)})
            by_hand.pins.push_back(parse_pin(pin, options.mesh));
          const PlannerResult other = plan_by_propagation(graph, by_hand);
          if (!other.plan) continue;
          ++fitting;
          EXPECT_LE(found.plan->totals.received_bytes(), other.plan->totals.received_bytes())
              << a << b << c << tightness;
        }
    EXPECT_GT(fitting, 0) << tightness;
  }
}

TEST(Objective, EachIsTheBestForItself) {
  const Graph graph = models::build_model("model:gpt?layers=2&batch=8&length=32&step=train").graph;
  PlannerOptions options = options_for("data=2,model=4");
  options.memory = int64_t{6} << 20;
  options.effort = solver::default_effort(0.7);
  options.time_limit = 200;  // the effort decides, also on a busy machine
  std::vector<Plan> plans;
  for (Objective objective : {Objective::Step, Objective::Sum, Objective::Bytes}) {
    options.objective = objective;
    const PlannerResult result = make_plan(graph, options);
    ASSERT_TRUE(result.plan);
    EXPECT_EQ(result.plan->objective, objective);
    EXPECT_LE(result.plan->bound.lower_bound, bounded_value(*result.plan) * (1 + 1e-9));
    plans.push_back(*result.plan);
  }
  const double near = 1 + options.gap;
  for (const Plan& other : plans) {
    EXPECT_LE(plans[0].totals.step_seconds, near * other.totals.step_seconds);
    EXPECT_LE(plans[1].totals.seconds, near * other.totals.seconds);
    EXPECT_LE(plans[2].totals.received_bytes(), near * other.totals.received_bytes());
  }
  EXPECT_THAT(step_text(plans[1]), HasSubstr("without overlap, at least"));
  EXPECT_THAT(step_text(plans[2]), HasSubstr("received by a device, at least"));
}

TEST(Objective, PlansByBytesAreRunAndReadAsPlanned) {
  const Graph graph = models::build_model("model:mlp?step=train").graph;
  PlannerOptions options = options_for("data=2,model=2");
  options.objective = Objective::Bytes;
  const Plan whole = *make_plan(graph, options).plan;
  options.memory = whole.memory.peak / 2;
  const Plan plan = make_plan(graph, options).plan.value();
  EXPECT_GT(plan.totals.received_bytes(), 0);
  const PlanVerification verified = verify_plan(plan, graph, *options.profile);
  EXPECT_TRUE(verified.good()) << to_string(verified);
  const Plan back = plan_from_json(to_json(plan));
  EXPECT_EQ(back.objective, Objective::Bytes);
  EXPECT_EQ(to_json(back), to_json(plan));
  Plan other = plan;
  other.objective = Objective::Step;
  EXPECT_THAT(diff(plan, other), testing::Contains("objective: bytes -> step"));
  EXPECT_THAT(to_json(other), testing::Not(HasSubstr("objective")));
}

TEST(Objective, MeshesAreComparedByIt) {
  const Graph graph = models::build_model("model:mlp?step=train").graph;
  PlannerOptions options = options_for("x=8");
  options.objective = Objective::Bytes;
  const std::vector<int64_t> limits{make_plan(graph, options).plan->memory.peak / 2};
  const auto candidates = search_meshes(graph, mesh_shapes(8, 2), limits, options);
  const int best = fastest_by_limit(candidates, limits)[0];
  ASSERT_GE(best, 0);
  for (const MeshCandidate& c : candidates) {
    if (!c.result.plan) continue;
    EXPECT_LE(candidates[best].result.plan->totals.received_bytes(),
              c.result.plan->totals.received_bytes());
  }
}

TEST(Objective, NamesAndMachines) {
  for (Objective one : {Objective::Step, Objective::Sum, Objective::Bytes})
    EXPECT_EQ(objective_from_name(name(one)), one);
  EXPECT_THROW(objective_from_name("speed"), UserError);
  const MachineProfile& machine = builtin_profile("h100");
  EXPECT_EQ(profile_for(machine, Objective::Sum), machine);
  const MachineProfile by_bytes = profile_for(machine, Objective::Bytes);
  EXPECT_EQ(profile_for(by_bytes, Objective::Bytes), by_bytes);
  EXPECT_EQ(by_bytes.matmul, machine.matmul);
}

}  // namespace
}  // namespace cleave::plan
