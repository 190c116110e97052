#include "cleave/plan/planner.h"

#include <gtest/gtest.h>

#include "cleave/analyze/program_cost.h"
#include "cleave/core/error.h"
#include "cleave/machine/collective.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/infeasible.h"
#include "models.h"
#include "tests/support/mesh_of.h"

namespace cleave::plan {
namespace {

using namespace test;

struct Case {
  Graph graph;
  PlannerOptions options;

  Case(const std::string& text, const char* mesh) : graph(parse_module(text)) {
    options.mesh = mesh_of(mesh);
    options.profile = &builtin_profile("h100");
    options.objective = Objective::Sum;  // sums are compared
  }
  Case& pin(const std::string& name, const std::string& spec) {
    options.pins.push_back({name, parse_sharding(spec, options.mesh), name + "=" + spec});
    return *this;
  }
  Case& memory(int64_t bytes) {
    options.memory = bytes;
    return *this;
  }
  Plan plan() {
    PlannerResult result = make_plan(graph, options);
    EXPECT_TRUE(result.plan) << result.reason;
    return result.plan ? *result.plan : Plan{};
  }
};

std::string spec_of(const Plan& plan, const std::string& name) {
  const PlannedValue* value = plan.find_value(name);
  return value ? to_string(value->spec) : "none";
}

// The plan's total is the sum over the nodes of the Program that it becomes.
void expect_priced_alike(const Case& setup, const Plan& plan) {
  const Program program = partition_planned(plan, setup.graph, *setup.options.profile);
  const analyze::ProgramCost cost = analyze::program_cost(program, *setup.options.profile);
  EXPECT_NEAR(plan.totals.seconds, cost.seconds, 1e-9 * cost.seconds);
  EXPECT_NEAR(plan.totals.compute_seconds, cost.compute_seconds, 1e-9 * cost.seconds);
  ASSERT_EQ(plan.totals.collectives.size(), cost.transfers.size());
  for (size_t i = 0; i < cost.transfers.size(); ++i) {
    EXPECT_EQ(plan.totals.collectives[i].kind, cost.transfers[i].kind);
    EXPECT_EQ(plan.totals.collectives[i].axes, cost.transfers[i].axes);
    EXPECT_EQ(plan.totals.collectives[i].count, cost.transfers[i].executions);
  }
}

TEST(Planner, BigBatchAndSmallWeightsAreDataParallel) {
  Case setup(mlp_step(1 << 20, 256, 256, 256), "data=8");
  const Plan plan = setup.plan();
  EXPECT_EQ(spec_of(plan, "x"), R"([{"data"}, {}])");
  EXPECT_EQ(spec_of(plan, "dot_general.0"), R"([{"data"}, {}])");
  EXPECT_EQ(spec_of(plan, "dot_general.1"), R"([{"data"}, {}])");
  // Every matmul that has a weight takes it whole, and all that is sent are sums of gradients.
  for (const char* op : {"dot_general.0", "dot_general.1", "dot_general.3"})
    EXPECT_EQ(to_string(plan.find_op(op)->operands[1].spec), "[{}, {}]") << op;
  for (const CollectiveTotal& c : plan.totals.collectives) {
    EXPECT_NE(c.kind, "all_to_all");
    EXPECT_LE(c.bytes, 4 * 2 * 2 * 256 * 256.0) << c.kind;  // no activation among them
  }
  expect_priced_alike(setup, plan);
  // With both activations by columns, each goes from rows to columns or back before the next sum
  // over columns: 128 MiB of a device, at least once. No layout computes in less time than an even
  // split of every op, which is all that the data-parallel plan takes beside its small sums.
  const Plan columns = setup.pin("dot_general.0", R"([{}, {"data"}])")
                           .pin("dot_general.1", R"([{}, {"data"}])")
                           .plan();
  expect_priced_alike(setup, columns);
  const Mesh& mesh = *setup.options.mesh;
  const double move =
      collective_seconds(CollectiveKind::AllToAll, 4.0 * (1 << 20) * 256 / 8, mesh,
                         plan.find_value("x")->spec.dims[0].axes, *setup.options.profile);
  EXPECT_GE(columns.totals.seconds, plan.totals.compute_seconds + 2 * move);
}

TEST(Planner, SmallBatchAndBigWeightsAreModelParallel) {
  Case setup(mlp_step(64, 4096, 65536, 4096), "model=8");
  const Plan plan = setup.plan();
  EXPECT_EQ(spec_of(plan, "w1"), R"([{}, {"model"}])");
  EXPECT_EQ(spec_of(plan, "w2"), R"([{"model"}, {}])");
  EXPECT_TRUE(plan.bound.proven);
  expect_priced_alike(setup, plan);
}

TEST(Planner, ThreeRowsAreNotSplitOverFour) {
  Case setup(mlp(3, 4096, 4096, 4096), "x=4");
  const Plan plan = setup.plan();
  for (const PlannedOp& op : plan.ops)
    for (const ShardingSpec& spec : op.results) EXPECT_TRUE(spec.dims[0].axes.empty()) << op.name;
  // All four are at work: each matmul is split along columns or along what it sums over.
  for (const char* op : {"dot_general.0", "dot_general.1"}) {
    const ShardingSpec& weight = plan.find_op(op)->operands[1].spec;
    EXPECT_EQ(total_size(weight.dims[0].axes) * total_size(weight.dims[1].axes), 4) << op;
  }
  // By hand: three rows over four devices (one is empty), and everything everywhere.
  const Plan rows = Case(mlp(3, 4096, 4096, 4096), "x=4")
                        .pin("x", R"([{"x"}, {}])")
                        .pin("dot_general.0", R"([{"x"}, {}])")
                        .pin("dot_general.1", R"([{"x"}, {}])")
                        .plan();
  const Plan whole = Case(mlp(3, 4096, 4096, 4096), "x=4")
                         .pin("w1", "[{}, {}]")
                         .pin("w2", "[{}, {}]")
                         .pin("dot_general.0", "[{}, {}]")
                         .pin("dot_general.1", "[{}, {}]")
                         .plan();
  const double host = plan.find_op("return")->seconds;  // in each of them
  EXPECT_LT(plan.totals.seconds - host, 0.8 * (rows.totals.seconds - host));
  EXPECT_LT(plan.totals.seconds - host, 0.8 * (whole.totals.seconds - host));
}

TEST(Planner, TwoMatmulsAreColumnThenRow) {
  // Each weight is 1 GiB, too much for all of them to be whole.
  Case setup(mlp(512, 8192, 32768, 8192), "model=8");
  setup.pin("x", "[{}, {}]").pin("dot_general.1", "[{}, {}]").memory(int64_t{1} << 30);
  const Plan plan = setup.plan();
  EXPECT_EQ(spec_of(plan, "w1"), R"([{}, {"model"}])");
  EXPECT_EQ(spec_of(plan, "w2"), R"([{"model"}, {}])");
  EXPECT_EQ(spec_of(plan, "tanh.0"), R"([{}, {"model"}])");
  // One sum at the end, and nothing between the two.
  ASSERT_EQ(plan.totals.collectives.size(), 1u);
  EXPECT_EQ(plan.totals.collectives[0].kind, "all_reduce");
  EXPECT_EQ(plan.totals.collectives[0].count, 1);
  expect_priced_alike(setup, plan);
}

TEST(Planner, WeightsTooBigForOneDeviceAreSharded) {
  // Each weight is 1 GiB; the batch would rather be split.
  Case setup(mlp(1 << 16, 16384, 16384, 16384), "data=8");
  const Plan free = setup.plan();
  EXPECT_EQ(spec_of(free, "w1"), "[{}, {}]");
  const Plan tight = setup.memory(int64_t{3} << 30).plan();
  int64_t held = 0;
  for (const char* name : {"w1", "w2"})
    held += (int64_t{1} << 30) / total_size(tight.find_value(name)->spec.dims[0].axes) /
            total_size(tight.find_value(name)->spec.dims[1].axes);
  EXPECT_LE(held, int64_t{1} << 30);  // of two GiB
  EXPECT_LE(tight.memory.peak, int64_t{3} << 30);
  EXPECT_GE(tight.totals.seconds, free.totals.seconds);
  expect_priced_alike(setup, tight);
}

TEST(Planner, TightMemoryShardsWeightsFully) {
  Case setup(mlp_step(8192, 8192, 8192, 8192), "data=4,model=2");
  PlannerResult least = make_plan(setup.graph, setup.memory(1).options);
  EXPECT_FALSE(least.plan);
  EXPECT_TRUE(least.proven);
  const Plan plan = setup.memory(least.least_memory * 16 / 10).plan();
  for (const char* name : {"w1", "w2"}) {
    int64_t shards = 1;
    for (const DimSpec& dim : plan.find_value(name)->spec.dims) shards *= total_size(dim.axes);
    EXPECT_EQ(shards, 8) << name;
  }
  expect_priced_alike(setup, plan);
}

TEST(Planner, TheDiamondIsPricedAsItRuns) {
  for (const char* mesh : {"x=4", "x=2,y=4", "x=2,y=2,z=2"}) {
    Case setup(diamond(4096), mesh);
    const Plan plan = setup.plan();
    EXPECT_TRUE(plan.bound.proven);
    expect_priced_alike(setup, plan);
  }
}

// Of all layouts that the shared value of the diamond could have for everyone, none is cheaper.
TEST(Planner, TheDiamondHasTheBestLayouts) {
  for (const char* mesh : {"x=4", "x=2,y=2"}) {
    const Plan best = Case(diamond(2048), mesh).plan();
    double least = 1e9;
    const std::vector<std::string> dims =
        std::string(mesh) == "x=4"
            ? std::vector<std::string>{"[{}, {}]", R"([{"x"}, {}])", R"([{}, {"x"}])"}
            : std::vector<std::string>{
                  "[{}, {}]",          R"([{"x"}, {}])",      R"([{"y"}, {}])",
                  R"([{}, {"x"}])",    R"([{}, {"y"}])",      R"([{"x"}, {"y"}])",
                  R"([{"y"}, {"x"}])", R"([{"x", "y"}, {}])", R"([{}, {"x", "y"}])"};
    for (const std::string& spec : dims) {
      const Plan pinned = Case(diamond(2048), mesh).pin("dot_general.0", spec).plan();
      EXPECT_GE(pinned.totals.seconds, best.totals.seconds * (1 - 1e-9)) << spec;
      least = std::min(least, pinned.totals.seconds);
    }
    EXPECT_NEAR(least, best.totals.seconds, 1e-6 * least) << mesh;
    EXPECT_GT(best.totals.collectives.size(), 0u);  // its users want it in different ways
  }
}

TEST(Planner, AForkMayHaveTwoLayouts) {
  const std::string t = tensor(8192, 8192);
  Case setup(fmt::format("func.func @main(%x: {0}) -> ({0}, {0}) {{\n"
                         "  %h = stablehlo.exponential %x : {0}\n"
                         "  %a = stablehlo.tanh %h : {0}\n  %b = stablehlo.sine %h : {0}\n"
                         "  return %a, %b : {0}, {0}\n}}\n",
                         t),
             "x=8");
  setup.pin("tanh.0", R"([{"x"}, {}])").pin("sine.0", R"([{}, {"x"}])");
  const Plan plan = setup.plan();
  EXPECT_EQ(to_string(plan.find_op("return")->operands[0].spec), R"([{"x"}, {}])");
  EXPECT_EQ(to_string(plan.find_op("return")->operands[1].spec), R"([{}, {"x"}])");
  // One all_to_all, nothing else.
  ASSERT_EQ(plan.totals.collectives.size(), 1u);
  EXPECT_EQ(plan.totals.collectives[0].kind, "all_to_all");
  EXPECT_EQ(plan.totals.collectives[0].count, 1);
  expect_priced_alike(setup, plan);
}

TEST(Planner, ALoopCarriesOneLayout) {
  Case setup(loop(12, 8192, 8192), "x=4");
  const Plan plan = setup.plan();
  const PlannedOp* outside = plan.find_op("while.0");
  const PlannedOp* inside = plan.find_op("while.0/1/return");
  ASSERT_TRUE(outside && inside);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(outside->operands[i].spec, inside->operands[i].spec);
    EXPECT_EQ(outside->results[i], inside->operands[i].spec);
  }
  EXPECT_EQ(plan.find_op("while.0/1/dot_general.0")->times, 12);
  expect_priced_alike(setup, plan);
}

// Of 10 rows over 4 devices the last has one: good for a plan, and not for an argument of JAX.
TEST(Planner, BordersMayBeAskedToBeEven) {
  const char* text = R"(
  func.func @main(%x: tensor<10x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<10x4096xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<10x4096xf32>, tensor<4096x4096xf32>) -> tensor<10x4096xf32>
    return %0 : tensor<10x4096xf32>
  })";
  Case uneven(text, "a=4");
  uneven.pin("x", "[{\"a\"}, {}]");
  EXPECT_EQ(spec_of(uneven.plan(), "x"), "[{\"a\"}, {}]");
  uneven.options.borders = Borders::Even;
  try {
    make_plan(uneven.graph, uneven.options);
    FAIL() << "an uneven pin was taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "x: [{\"a\"}, {}] does not divide tensor<10x4096xf32>, and arguments and results are "
        "to lie in even shards");
  }
  Case result(R"(
  sdy.mesh @mesh = <["a"=4]>
  func.func @main(%x: tensor<12x8xf32>) -> (tensor<10x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}) {
    %0 = stablehlo.slice %x [0:10, 0:8] : (tensor<12x8xf32>) -> tensor<10x8xf32>
    return %0 : tensor<10x8xf32>
  })",
              "a=4");
  EXPECT_EQ(to_string(result.plan().find_op("return")->operands[0].spec), "[{\"a\"}, {}]");
  result.options.borders = Borders::Even;
  EXPECT_THROW(make_plan(result.graph, result.options), UserError);
  Case even(text, "a=5,b=3");
  even.options.borders = Borders::Even;
  const Plan plan = even.plan();
  for (const PlannedValue& value : plan.values)
    EXPECT_EQ(to_string(value.spec).find("\"b\""), std::string::npos) << value.name;
  for (const PlannedOperand& result : plan.find_op("return")->operands)
    EXPECT_EQ(to_string(result.spec).find("\"b\""), std::string::npos);

  // An argument with one elementwise use lies as that wants it, unless that is uneven.
  Case follows(R"(
  func.func @main(%x: tensor<10x4096xf32>, %y: tensor<10x4096xf32>) -> tensor<4096xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %x, %y : tensor<10x4096xf32>
    %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<10x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    return %1 : tensor<4096xf32>
  })",
               "a=3");
  follows.options.borders = Borders::Even;
  follows.pin("add.0", "[{\"a\"}, {}]");
  const Plan split = follows.plan();
  EXPECT_EQ(spec_of(split, "x"), "[{}, {}]");
  EXPECT_EQ(spec_of(split, "y"), "[{}, {}]");
}

// 5 rows over 2x2 devices: 2, 2, 1, 0 here, and 2, 1, 1, 1 as the placements S(0), S(0).
TEST(Planner, BordersMayBeAskedToLieAsPlacementsSay) {
  const char* text = R"(
  func.func @main(%x: tensor<5x4096xf32>, %w: tensor<4096x4096xf32>) -> tensor<5x4096xf32> {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<5x4096xf32>, tensor<4096x4096xf32>) -> tensor<5x4096xf32>
    return %0 : tensor<5x4096xf32>
  })";
  Case both(text, "a=2,b=2");
  both.options.borders = Borders::Placements;
  for (const char* fitting : {"[{\"a\"}, {}]", "[{}, {\"a\", \"b\"}]"}) {
    Case one(text, "a=2,b=2");
    one.options.borders = Borders::Placements;
    one.pin("x", fitting);
    EXPECT_EQ(spec_of(one.plan(), "x"), fitting);
  }
  both.pin("x", "[{\"a\", \"b\"}, {}]");
  try {
    make_plan(both.graph, both.options);
    FAIL() << "a pin that placements cannot say was taken";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "x: [{\"a\", \"b\"}, {}] is no list of placements for tensor<5x4096xf32>, and "
                 "arguments and results are to lie as placements say");
  }
}

TEST(Planner, LayersAlikeShareTheirChoices) {
  Case setup(deep(12, 4096, 8192), "data=2,model=4");
  PlannerResult tied = make_plan(setup.graph, setup.options);
  setup.options.apart = true;
  PlannerResult apart = make_plan(setup.graph, setup.options);
  ASSERT_TRUE(tied.plan && apart.plan);
  EXPECT_EQ(tied.stats.classes, apart.stats.classes);  // small enough to go apart anyway
  EXPECT_FALSE(tied.plan->bound.alike);
  EXPECT_LE(apart.plan->totals.seconds, tied.plan->totals.seconds * (1 + 1e-9));
  EXPECT_LE(tied.plan->totals.seconds, apart.plan->totals.seconds * 1.01);
  EXPECT_EQ(spec_of(*tied.plan, "a5"), spec_of(*tied.plan, "a6"));
  expect_priced_alike(setup, *tied.plan);
  expect_priced_alike(setup, *apart.plan);
}

TEST(Planner, PinsHoldAndAnnotationsArePins) {
  Case setup(mlp(4096, 4096, 4096, 4096), "x=2,y=2");
  setup.pin("w*", R"([{"y"}, {"x"}])");
  const Plan plan = setup.plan();
  EXPECT_EQ(spec_of(plan, "w1"), R"([{"y"}, {"x"}])");
  EXPECT_EQ(spec_of(plan, "w2"), R"([{"y"}, {"x"}])");
  expect_priced_alike(setup, plan);

  Case annotated(
      "sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>\n"
      "func.func @main(%a: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{\"y\"}, "
      "{?}]>}) -> tensor<64x64xf32> {\n"
      "  %0 = stablehlo.tanh %a : tensor<64x64xf32>\n  return %0 : tensor<64x64xf32>\n}\n",
      "x=2,y=2");
  const Plan other = annotated.plan();
  EXPECT_EQ(other.find_value("a")->spec.dims[0].axes,
            parse_sharding(R"([{"y"}, {}])", annotated.options.mesh).dims[0].axes);
}

TEST(Planner, PinsThatContradictAreSaidToDoSo) {
  Case setup(mlp(64, 64, 64, 64), "x=2");
  setup.pin("w1", R"([{"x"}, {}])").pin("w1", R"([{}, {"x"}])");
  try {
    make_plan(setup.graph, setup.options);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "w1: the pins w1=[{\"x\"}, {}] and w1=[{}, {\"x\"}] cannot both hold; drop one of "
                 "them");
  }
}

TEST(Planner, PinsThatNameNothingAreAnError) {
  Case setup(mlp(64, 64, 64, 64), "x=2");
  setup.pin("w9*", R"([{"x"}, {}])");
  try {
    make_plan(setup.graph, setup.options);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("pin w9*=[{\"x\"}, {}]: no value of 2 dimensions is called so"),
              std::string::npos);
  }
}

TEST(Planner, WhatDoesNotFitIsExplained) {
  Case setup(mlp(4096, 8192, 8192, 8192), "x=4");
  setup.pin("w1", "[{}, {}]").pin("w2", R"([{"x"}, {}])").memory(int64_t{400} << 20);
  const PlannerResult result = make_plan(setup.graph, setup.options);
  EXPECT_FALSE(result.plan);
  const Infeasibility why = explain_infeasible(setup.graph, setup.options);
  EXPECT_EQ(why.conflict, std::vector<std::string>{"pin w1=[{}, {}]"});
  EXPECT_GT(why.least, int64_t{400} << 20);
  ASSERT_TRUE(why.enough);
  EXPECT_GE(*why.enough, why.least);
  EXPECT_TRUE(make_plan(setup.graph, setup.memory(*why.enough).options).plan);
  EXPECT_NE(why.text().find("no plan fits 400.00 MiB"), std::string::npos);
}

TEST(Planner, APlanOfAnotherModuleIsRefused) {
  Case setup(mlp(64, 64, 64, 64), "x=2");
  const Plan plan = setup.plan();
  EXPECT_THROW(apply(plan, parse_module(mlp(64, 64, 64, 32))), UserError);
}

TEST(Planner, TheSamePlanEveryTime) {
  Case setup(mlp_step(4096, 4096, 8192, 4096), "x=2,y=4");
  EXPECT_EQ(to_json(setup.plan()), to_json(setup.plan()));
}

}  // namespace
}  // namespace cleave::plan
