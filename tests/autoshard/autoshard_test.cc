#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/models.h"
#include "cleave/plan.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_path.h"
#include "tests/support/tensor_checks.h"

// A function goes in, and a planned function over a mesh comes out.
namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Mesh kMesh{{"data", 2}, {"model", 4}};

Tensor mlp(const Tensor& x, const Tensor& w, const Tensor& v) {
  return matmul(gelu(matmul(x, w)), v);
}

TEST(Autoshard, EqualsTheFunctionAndDoesWhatWasPlanned) {
  const Tensor x = ramp({64, 48}), w = ramp({48, 96}, 0.2), v = ramp({96, 48}, 0.3);
  const auto f = autoshard(mlp, kMesh);
  CommLog log;
  const Tensor y = f(x, w, v);
  expect_near(y, mlp(x, w, v));
  double planned = 0;
  for (const plan::CollectiveTotal& total : f.plan()->totals.collectives)
    if (total.bytes > 0) planned += total.count;
  EXPECT_EQ(static_cast<double>(log.count()), planned);
  EXPECT_THAT(f.verify(), HasSubstr("verified"));
  EXPECT_THAT(f.plan().explain(), HasSubstr("matmul"));
}

TEST(Autoshard, OpByOpIsTheSame) {
  const Tensor x = ramp({7, 5}), w = ramp({5, 9}, 0.2), v = ramp({9, 3}, 0.3);
  const auto f = autoshard(mlp, Mesh{{"x", 3}}, {.compiled = false});
  expect_near(f(x, w, v), mlp(x, w, v));
}

TEST(Autoshard, InsideOtherTransforms) {
  const Tensor x = ramp({8, 6}), w = ramp({6, 12}, 0.2), v = ramp({12, 4}, 0.3);
  const auto f = autoshard(mlp, kMesh);
  const auto loss = [&](const Tensor& a, const Tensor& b) { return sum(square(f(x, a, b))); };
  const auto plain = [&](const Tensor& a, const Tensor& b) { return sum(square(mlp(x, a, b))); };
  expect_near(grad(loss)(w, v), grad(plain)(w, v));
  expect_near(compile(f)(x, w, v), mlp(x, w, v));
  const Tensor many = ramp({3, 8, 6});
  expect_near(vmap([&](const Tensor& one) { return f(one, w, v); })(many),
              vmap([&](const Tensor& one) { return mlp(one, w, v); })(many));
}

std::string layout_of(const Tensor& x) { return to_string(x.sharding()); }

TEST(Autoshard, WhatIsGivenHolds) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  const auto f = autoshard(mlp, kMesh,
                           {.in = {P("data", {}), P({}, "model")},
                            .out = {P({}, "model")},
                            .pins = {{"[2]", P("model", {})}}});
  const Tensor y = f(x, w, v);
  expect_near(y, mlp(x, w, v));
  EXPECT_EQ(layout_of(y), "[{}, {\"model\"}]");
  EXPECT_EQ(to_string(f.plan()->values[0].spec), "[{\"data\"}, {}]");
  EXPECT_EQ(to_string(f.plan()->values[1].spec), "[{}, {\"model\"}]");
  EXPECT_EQ(to_string(f.plan()->values[2].spec), "[{\"model\"}, {}]");
  // A layout that the function asks for.
  const auto g = autoshard(
      [](const Tensor& a, const Tensor& b) {
        return tanh(matmul(a, b).with_sharding(P("model", "data")));
      },
      kMesh);
  expect_near(g(x, w), tanh(matmul(x, w)));
  const plan::Plan& plan = g.plan();
  const plan::PlannedValue* product = plan.find_value("sharding_constraint.0");
  ASSERT_TRUE(product);
  EXPECT_EQ(to_string(product->spec), "[{\"model\"}, {\"data\"}]");
}

TEST(Autoshard, WhatCannotHoldIsRefused) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  EXPECT_THAT(
      error_of([&] { autoshard(mlp, kMesh, {.memory = "1KiB", .memory_share = 1})(x, w, v); }),
      AllOf(HasSubstr("no plan fits 1024 bytes"), HasSubstr("is enough")));
  EXPECT_THAT(error_of([&] { autoshard(mlp, kMesh, {.in = {P("rows", {})}})(x, w, v); }),
              HasSubstr("rows"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, kMesh, {.machine = "h1000"})(x, w, v); }),
              HasSubstr("h1000"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, kMesh, {.memory = "80 apples"})(x, w, v); }),
              HasSubstr("80 apples"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, kMesh, {.solver = "best"})(x, w, v); }),
              HasSubstr("there are cleave, mip, heuristic and propagation"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, kMesh, {.donate = {3}})(x, w, v); }),
              HasSubstr("argument 3 is to be donated"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, 0); }), HasSubstr("0 devices"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, 8, {.in = {P("x")}}); }), HasSubstr("give a mesh"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, kMesh).plan(); }), HasSubstr("nothing is planned yet"));
  EXPECT_THAT(error_of([&] { autoshard(mlp, kMesh)(Tensor(), w, v); }), HasSubstr("empty Tensor"));
  EXPECT_THAT(error_of([&] {
                autoshard(mlp, kMesh, {.pins = {{"[7]", P("data", {})}}})(x, w, v);
              }),
              HasSubstr("[7]"));
}

TEST(Autoshard, ChoosesTheMesh) {
  const Tensor x = ramp({64, 8}), w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  const auto f = autoshard(mlp, 6);
  expect_near(f(x, w, v), mlp(x, w, v));
  EXPECT_EQ(f.plan()->mesh->num_devices(), 6);
  expect_near(autoshard(mlp, 1)(x, w, v), mlp(x, w, v));
}

TEST(Autoshard, PlansAreSavedAndLoaded) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  const std::string file = temp_path("autoshard_plan.json");
  const auto f = autoshard(mlp, kMesh, {.machine = "h100"});
  f(x, w, v);
  f.save_plan(file);
  const auto again = autoshard(mlp, kMesh, {.plan = file});
  expect_near(again(x, w, v), mlp(x, w, v));
  EXPECT_EQ(plan::to_json(again.plan()), plan::to_json(plan::read_plan(file)));
  // Another function, other sizes, another mesh.
  const auto other = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return matmul(tanh(matmul(a, b)), c);
  };
  EXPECT_THAT(error_of([&] { autoshard(other, kMesh, {.plan = file})(x, w, v); }),
              HasSubstr("another module"));
  EXPECT_THAT(error_of([&] { again(ramp({32, 8}), w, v); }), HasSubstr("another module"));
  EXPECT_THAT(error_of([&] {
                autoshard(mlp, Mesh{{"x", 8}}, {.plan = file})(x, w, v);
              }),
              HasSubstr("is a plan for"));
}

TEST(Autoshard, OtherSizesArePlannedAgainAndKept) {
  const Tensor w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  const auto f = autoshard(mlp, kMesh);
  for (int round = 0; round < 2; ++round)
    for (int64_t rows : {16, 5, 1, 0}) {
      const Tensor x = ramp({rows, 8});
      expect_near(f(x, w, v), mlp(x, w, v));
    }
  EXPECT_EQ(f.num_plans(), 4u);
}

TEST(Autoshard, CapturedTensorsAreArgumentsToo) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 16}, 0.2);
  const Tensor v = ramp({16, 8}, 0.3).shard(kMesh, P("model", {}));
  const auto f = autoshard([&](const Tensor& a) { return matmul(gelu(matmul(a, w)), v); }, kMesh);
  for (int i = 0; i < 2; ++i) expect_near(f(x), mlp(x, w, v));
  EXPECT_THAT(f.verify(), HasSubstr("verified"));
}

TEST(Autoshard, ScansBranchesAndCheckpoints) {
  const Tensor x = ramp({8, 6}), w = ramp({6, 6}, 0.2);
  const auto loss = [](const Tensor& a, const Tensor& b) {
    const auto body = checkpoint([&](const Tensor& h) { return tanh(matmul(h, b)); });
    return sum(square(body(body(body(a)))));
  };
  const auto f = autoshard(value_and_grad(loss), kMesh);
  const auto [value, gradient] = f(x, w);
  const auto [expected, expected_gradient] = value_and_grad(loss)(x, w);
  expect_near(value, expected);
  expect_near(gradient, expected_gradient);
}

TEST(Autoshard, LoopsBatchesAndOwnDerivativesInside) {
  const Tensor x = ramp({6, 8}), w = ramp({8, 8}, 0.2), steps = ramp({5, 6, 8}, 0.4);
  const auto recurrent = [](const Tensor& h, const Tensor& b, const Tensor& xs) {
    return scan(
               [&](const Tensor& state, const Tensor& input) {
                 const Tensor next = tanh(matmul(state, b) + input);
                 return std::make_pair(next, next);
               },
               h, xs)
        .second;
  };
  const auto batched = [](const Tensor& a, const Tensor& b) {
    return vmap([&](const Tensor& row) { return softmax(matmul(row, b), -1); })(a);
  };
  for (const Mesh& mesh : {kMesh, Mesh{{"x", 3}}}) {
    const auto f = autoshard(recurrent, mesh);
    expect_near(f(x, w, steps), recurrent(x, w, steps));
    EXPECT_THAT(f.verify(), HasSubstr("verified"));
    const auto sums = [&](const Tensor& h, const Tensor& b) { return sum(recurrent(h, b, steps)); };
    expect_near(autoshard(grad(sums), mesh)(x, w), grad(sums)(x, w));
    expect_near(autoshard(batched, mesh)(x, w), batched(x, w));
  }
}

TEST(Autoshard, OwnDerivatives) {
  const Tensor x = ramp({6, 8}), w = ramp({8, 8}, 0.2);
  // Twice the derivative of a tanh, so that it shows which one was taken.
  const auto own = custom_vjp(
      [](const Tensor& a) { return tanh(a); },
      [](const Tensor& a) { return std::make_pair(tanh(a), a); },
      [](const Tensor& a, const Tensor& g) { return g * 2.0 * (1.0 - square(tanh(a))); });
  const auto loss = [&](const Tensor& b) { return sum(own(matmul(x, b))); };
  expect_near(autoshard(grad(loss), kMesh)(w), grad(loss)(w));
  expect_near(grad(loss)(w),
              grad([&](const Tensor& b) { return sum(tanh(matmul(x, b))); })(w) * 2.0);
}

TEST(Autoshard, EverySolver) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  for (const char* solver : {"cleave", "mip", "heuristic", "propagation"})
    expect_near(autoshard(mlp, kMesh, {.solver = solver})(x, w, v), mlp(x, w, v));
}

TEST(Autoshard, SaysWhatItDoes) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  std::string said;
  AutoshardOptions options{.machine = "h100"};
  bool solves = false;
  options.trace = [&](const std::string& line) {
    const bool by_solver = line.find("solver: ") != std::string::npos;  // with times
    if (!by_solver) said += line + "\n";
    solves |= by_solver;
  };
  autoshard(mlp, kMesh, options)(x, w, v);
  const std::string expected =
      R"([autoshard] Phase 1: traced 3 arguments, 0 captured tensors, 1 results
[autoshard] Phase 2: plan by cleave for h100
[autoshard] Phase 3: choices
[autoshard]   dot_general.0: data parallel over "data", "model"
[autoshard]     ->    5.09 us  [{"data", "model"}, {}], [{}, {}] -> [{"data", "model"}, {}]
[autoshard]          20.33 us  [{"data"}, {}], [{}, {}] -> [{"data"}, {}]
[autoshard]          23.99 us  [{}, {}], [{}, {}] -> [{}, {}]
[autoshard]          61.70 us  [{"data"}, {}], [{}, {"model"}] -> [{"data"}, {"model"}]
[autoshard]   dot_general.1: data parallel over "data", "model"
[autoshard]     ->    5.09 us  [{"data", "model"}, {}], [{}, {}] -> [{"data", "model"}, {}]
[autoshard]          15.65 us  [{"data"}, {}], [{}, {}] -> [{"data"}, {}]
[autoshard]          19.37 us  [{}, {}], [{}, {}] -> [{}, {}]
[autoshard]          24.85 us  [{"data"}, {"model"}], [{"model"}, {}] -> [{"data"}, {}], unreduced={"model"}
[autoshard] Phase 4: 221.48 us, at least 221.47 us (gap 0.000%, optimal)
)";
  EXPECT_EQ(said, expected);
  EXPECT_TRUE(solves);
}

TEST(Autoshard, ExtractsTheGraph) {
  const Tensor x = ramp({16, 8}), w = ramp({8, 16}, 0.2), v = ramp({16, 8}, 0.3);
  const Extracted graph = extract(mlp, x, w, v);
  EXPECT_THAT(graph.json(), HasSubstr("dot_general"));
  EXPECT_THAT(graph.text(), HasSubstr("stablehlo.dot_general"));
}

TEST(Autoshard, AsAModeOfShardMap) {
  const Tensor x = ramp({8, 6}), w = ramp({6, 12}, 0.2), v = ramp({12, 4}, 0.3);
  const auto f = shard_map(mlp, kMesh, {.in = {P("data", {})}, .mode = ShardMapMode::Plan});
  expect_near(f(x, w, v), mlp(x, w, v));
}

}  // namespace
}  // namespace cleave
