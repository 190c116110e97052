// Train steps of a dense decoder and of a mixture of experts, with AdamW, against the plans that
// people write down for them: all priced by the same tables.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cleave/analyze/program_cost.h"
#include "cleave/models/registry.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/heuristic.h"

namespace cleave::plan {
namespace {

constexpr int64_t kLimit = int64_t{80} << 30;

Graph dense(int layers) {
  return models::build_model(
             fmt::format("model:gpt?layers={}&d=4096&heads=32&kv_heads=8&hidden=14336&"
                         "vocab=128256&batch=64&length=1024&dtype=bf16&step=train",
                         layers))
      .graph;
}

Graph experts(int layers) {
  return models::build_model(
             fmt::format("model:moe?layers={}&d=2048&heads=16&kv_heads=16&hidden=1408&"
                         "vocab=102400&experts=64&batch=64&length=1024&dtype=bf16&step=train",
                         layers))
      .graph;
}

// Layouts by name: D stands for the axes that split data, M for the one of the model, A for all.
// Weights, both moments, and what is updated share a name.
using HandMade = std::vector<std::pair<const char*, const char*>>;

const HandMade kMegatron = {{"*.embed", "[{M}, {}]"},       {"*.head", "[{}, {M}]"},
                            {"*.attention.q", "[{}, {M}]"}, {"*.attention.k", "[{}, {M}]"},
                            {"*.attention.v", "[{}, {M}]"}, {"*.attention.o", "[{M}, {}]"},
                            {"[2]", "[{D}, {}]"},           {"*norm", "[{}]"}};
const HandMade kFsdp = {{"*.embed", "[{A}, {}]"},       {"*.head", "[{A}, {}]"},
                        {"*.attention.q", "[{A}, {}]"}, {"*.attention.k", "[{A}, {}]"},
                        {"*.attention.v", "[{A}, {}]"}, {"*.attention.o", "[{A}, {}]"},
                        {"[2]", "[{A}, {}]"},           {"*norm", "[{}]"}};
const HandMade kCombined = {{"*.embed", "[{M}, {D}]"},
                            {"*.head", "[{D}, {M}]"},
                            {"*.attention.q", "[{D}, {M}]"},
                            {"*.attention.k", "[{D}, {M}]"},
                            {"*.attention.v", "[{D}, {M}]"},
                            {"*.attention.o", "[{M}, {D}]"},
                            {"[2]", "[{D}, {}]"},
                            {"*norm", "[{}]"}};

const std::map<std::string, HandMade> kDenseLayers = {
    {"megatron", {{"*.gate", "[{}, {M}]"}, {"*.up", "[{}, {M}]"}, {"*.down", "[{M}, {}]"}}},
    {"fsdp", {{"*.gate", "[{A}, {}]"}, {"*.up", "[{A}, {}]"}, {"*.down", "[{A}, {}]"}}},
    {"combined", {{"*.gate", "[{D}, {M}]"}, {"*.up", "[{D}, {M}]"}, {"*.down", "[{M}, {D}]"}}}};
const std::map<std::string, HandMade> kExpertLayers = {{"megatron",
                                                        {{"*.gate", "[{M}, {}, {}]"},
                                                         {"*.up", "[{M}, {}, {}]"},
                                                         {"*.down", "[{M}, {}, {}]"},
                                                         {"*.router", "[{}, {}]"}}},
                                                       {"fsdp",
                                                        {{"*.gate", "[{}, {A}, {}]"},
                                                         {"*.up", "[{}, {A}, {}]"},
                                                         {"*.down", "[{}, {}, {A}]"},
                                                         {"*.router", "[{A}, {}]"}}},
                                                       {"combined",
                                                        {{"*.gate", "[{M}, {D}, {}]"},
                                                         {"*.up", "[{M}, {D}, {}]"},
                                                         {"*.down", "[{M}, {}, {D}]"},
                                                         {"*.router", "[{D}, {}]"}}}};

std::string axes_text(const Mesh& mesh, size_t begin, size_t end) {
  std::string text;
  for (size_t a = begin; a < end; ++a)
    text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", mesh.axes[a].name);
  return text;
}

std::vector<Pin> pins_of(const HandMade& plan, const MeshPtr& mesh) {
  const size_t n = mesh->axes.size();
  std::vector<Pin> pins;
  for (const auto& [name, layout] : plan) {
    std::string text;
    for (const char* c = layout; *c; ++c) {
      if (*c == 'D')
        text += axes_text(*mesh, 0, n - 1);
      else if (*c == 'M')
        text += axes_text(*mesh, n - 1, n);
      else if (*c == 'A')
        text += axes_text(*mesh, 0, n);
      else
        text += *c;
    }
    pins.push_back({name, parse_sharding(text, mesh), name});
  }
  return pins;
}

PlannerOptions options_for(const char* mesh) {
  PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(parse_mesh(mesh));
  options.profile = &builtin_profile("h100");
  options.objective = Objective::Sum;  // sums are compared
  options.memory = kLimit;
  options.time_limit = 200;  // the effort decides, also where checks make everything slow
  return options;
}

void expect_good(const PlannerResult& result) {
  ASSERT_TRUE(result.plan) << result.reason;
  EXPECT_LE(result.plan->bound.gap, 0.01);
  EXPECT_LE(result.plan->memory.peak, kLimit);
  EXPECT_FALSE(result.plan->bound.cut);
}

void expect_no_dearer_than_by_hand(const Graph& graph, const char* mesh,
                                   const std::map<std::string, HandMade>& layers) {
  const PlannerOptions options = options_for(mesh);
  const PlannerResult best = make_plan(graph, options);
  expect_good(best);
  // The bound is what the plan is proven against; hand-made ones may be within the gap.
  const double least = best.plan->bound.lower_bound * (1 - 1e-9);
  const std::pair<const char*, const HandMade*> common[] = {
      {"megatron", &kMegatron}, {"fsdp", &kFsdp}, {"combined", &kCombined}};
  for (const auto& [name, shared] : common) {
    HandMade plan = *shared;
    plan.insert(plan.end(), layers.at(name).begin(), layers.at(name).end());
    PlannerOptions hand = options;
    hand.memory.reset();
    hand.pins = pins_of(plan, options.mesh);
    const PlannerResult propagated = plan_by_propagation(graph, hand);
    const PlannerResult searched = make_plan(graph, hand);
    ASSERT_TRUE(propagated.plan && searched.plan) << name;
    EXPECT_GE(searched.plan->totals.seconds, best.plan->totals.seconds * (1 - 1e-9)) << name;
    EXPECT_GE(searched.plan->totals.seconds, least) << name;
    EXPECT_GE(propagated.plan->totals.seconds, searched.plan->totals.seconds * 0.99) << name;
    for (const Pin& pin : hand.pins)
      for (const PlannedValue& value : searched.plan->values)
        if (value.name == "[0].layers[1]" + pin.pattern.substr(1)) {
          EXPECT_EQ(to_string(value.spec), to_string(pin.spec)) << value.name;
        }
  }
}

TEST(TrainSteps, NoDearerThanMadeByHand) {
  const Graph llama = dense(3);
  for (const char* mesh : {"data=8,model=8", "data=4,fsdp=4,model=4"})
    expect_no_dearer_than_by_hand(llama, mesh, kDenseLayers);
  const Graph moe = experts(2);
  for (const char* mesh : {"data=32,model=8", "data=2,fsdp=8,model=8"})
    expect_no_dearer_than_by_hand(moe, mesh, kExpertLayers);
}

TEST(TrainSteps, AThousandDevices) {
  const PlannerResult two = make_plan(dense(3), options_for("data=128,model=8"));
  expect_good(two);
  const PlannerResult three = make_plan(dense(3), options_for("data=16,fsdp=8,model=8"));
  expect_good(three);
  EXPECT_LT(three.plan->totals.seconds, two.plan->totals.seconds * 1.2);
}

// All layers but the ends are decided once: the Problem of 32 layers is about as large as that
// of 8.
TEST(TrainSteps, ManyLayersAreSolvedOnce) {
  for (const char* mesh : {"data=8,model=8", "data=4,fsdp=4,model=4"}) {
    const PlannerResult few = make_plan(dense(8), options_for(mesh));
    const PlannerResult many = make_plan(dense(32), options_for(mesh));
    expect_good(few);
    expect_good(many);
    EXPECT_LT(many.stats.classes, few.stats.classes + few.stats.classes / 10);
    EXPECT_GT(many.stats.decisions, few.stats.decisions * 3);
    // A layer more costs what a layer costs.
    const double per_layer = (many.plan->totals.seconds - few.plan->totals.seconds) / (32 - 8);
    const double ends = few.plan->totals.seconds - 8 * per_layer;
    EXPECT_GT(ends, 0);
    EXPECT_LT(ends, 8 * per_layer);
  }
}

TEST(TrainSteps, ThreeAxesArePricedAsTheyRun) {
  const Graph graph = experts(2);
  PlannerOptions options = options_for("data=2,fsdp=4,model=8");
  const PlannerResult result = make_plan(graph, options);
  expect_good(result);
  const Program program = partition_planned(*result.plan, graph, *options.profile);
  const analyze::ProgramCost cost = analyze::program_cost(program, *options.profile);
  EXPECT_NEAR(result.plan->totals.seconds, cost.seconds, 1e-9 * cost.seconds);
}

}  // namespace
}  // namespace cleave::plan
