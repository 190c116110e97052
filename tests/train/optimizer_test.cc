#include "cleave/train/optimizers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/autoshard/autoshard.h"
#include "cleave/cleave.h"
#include "tests/support/error_of.h"

// Optimizers over trees, types and layouts. That their figures are Optax's is checked by
// tests/reference/test_optimizers.py.
namespace cleave::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Layer {
  Tensor w, b;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("w", w);
    v("b", b);
  }
};
struct Model {
  std::vector<Layer> layers;
  Tensor norm;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("layers", layers);
    v("norm", norm);
  }
};

Model model(DType dtype = DType::F32, uint64_t seed = 1) {
  auto draw = [&](const Shape& shape) { return cast(randn(shape, seed++), dtype); };
  return {{{draw({8, 16}), draw({16})}, {draw({16, 4}), draw({4})}}, draw({4})};
}

Model placed(const Model& m, const Mesh& mesh) {
  return {{{m.layers[0].w.shard(mesh, P("x", "y")), m.layers[0].b.shard(mesh, P("y"))},
           {m.layers[1].w.shard(mesh, P("y", "x")), m.layers[1].b.shard(mesh, P("x"))}},
          m.norm.shard(mesh, P())};
}

std::vector<std::string> names(const OptState& state) { return leaf_names(state); }

double largest_difference(const Tensor& a, const Tensor& b) {
  return max(abs(cast(a, DType::F32) - cast(b, DType::F32))).item();
}

TEST(Optimizer, StateHasTheNamesOfParameters) {
  const OptState state = adamw(warmup_cosine(1, 2, 10)).init(model());
  EXPECT_THAT(names(state),
              ElementsAre("m.layers[0].b", "m.layers[0].w", "m.layers[1].b", "m.layers[1].w",
                          "m.norm", "rate_step", "step", "v.layers[0].b", "v.layers[0].w",
                          "v.layers[1].b", "v.layers[1].w", "v.norm"));
}

TEST(Optimizer, NamesThatMeetInAChainAreNumbered) {
  const Tensor p = randn({4}, 1);
  const OptState state = chain({scale_by_lion(), adam(0.1)}).init(p);
  EXPECT_THAT(names(state), ElementsAre("m", "m_2", "step", "v"));
  const OptState twice = chain({momentum(0.9), chain({momentum(0.8), momentum(0.7)})}).init(p);
  EXPECT_THAT(names(twice), ElementsAre("velocity", "velocity_2", "velocity_2_2"));
}

TEST(Optimizer, MomentsOfNarrowParametersAreWide) {
  for (const DType dtype : {DType::BF16, DType::F16}) {
    const Model params = model(dtype), grads = model(dtype, 9);
    const Optimizer opt = adamw(0.01);
    const OptState state = opt.init(params);
    for (const auto& [name, value] : state)
      EXPECT_EQ(value.dtype(), name == "step" ? DType::I32 : DType::F32) << name;
    const auto [next, after] = opt.step(params, grads, state);
    EXPECT_EQ(next.norm.dtype(), dtype);
    EXPECT_EQ(after.at("m.norm").dtype(), DType::F32);
    // As if all had been wide, rounded once.
    auto wide = [](const Model& m) {
      return map_leaves([](const Tensor& t) { return cast(t, DType::F32); }, m);
    };
    const auto [expected, unused] = opt.step(wide(params), wide(grads), state);
    EXPECT_TRUE(identical(next.layers[0].w.to_host(), cast(expected.layers[0].w, dtype).to_host()));
  }
}

TEST(Optimizer, DoublesStayDoubles) {
  const Model params = model(DType::F64), grads = model(DType::F64, 9);
  const Optimizer opt = chain({clip_by_global_norm(1), adamw(constant(0.01))});
  const OptState state = opt.init(params);
  EXPECT_EQ(state.at("m.norm").dtype(), DType::F64);
  const auto [next, after] = opt.step(params, grads, state);
  EXPECT_EQ(next.norm.dtype(), DType::F64);
  EXPECT_EQ(after.at("v.norm").dtype(), DType::F64);
}

TEST(Optimizer, StateLiesAsParametersDo) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Model params = placed(model(), mesh), grads = placed(model(DType::F32, 9), mesh);
  for (const Optimizer& opt : {adamw(0.01), muon(0.01), adafactor({.smallest_factored = 4})}) {
    OptState state = opt.init(params);
    const auto [next, after] = opt.step(params, grads, state);
    for (const auto& [name, value] : state)
      EXPECT_EQ(to_string(value.sharding()), to_string(after.at(name).sharding())) << name;
    const std::vector<Tensor> before = leaves(params), now = leaves(next);
    for (size_t i = 0; i < now.size(); ++i)
      EXPECT_EQ(to_string(now[i].sharding()), to_string(before[i].sharding()));
  }
  EXPECT_EQ(to_string(adamw(0.01).init(params).at("v.layers[0].w").sharding()),
            R"([{"x"}, {"y"}])");
  const OptState factored = adafactor({.smallest_factored = 4}).init(params);
  EXPECT_EQ(to_string(factored.at("v_row.layers[0].w").sharding()), R"([{"x"}])");
  EXPECT_EQ(to_string(factored.at("v_column.layers[0].w").sharding()), R"([{"y"}])");
}

TEST(Optimizer, RatesAreNumbersSchedulesAndTensors) {
  const Tensor p = ones({2}), g = ones({2});
  EXPECT_EQ(sgd(0.5).step(p, g, {}).first.to_vector<float>()[0], 0.5f);
  EXPECT_EQ(sgd(scalar(0.25, DType::F32)).step(p, g, {}).first.to_vector<float>()[0], 0.75f);
  const Optimizer opt = sgd([](const Tensor& step) { return step + 1.0; });
  auto [next, state] = opt.step(p, g, opt.init(p));
  EXPECT_EQ(next.to_vector<float>()[0], 0.0f);
  std::tie(next, state) = opt.step(next, g, state);
  EXPECT_EQ(next.to_vector<float>()[0], -2.0f);
}

// The rate is a Tensor that the step takes, so that another one needs no other program.
TEST(Optimizer, ARateIsAnArgumentOfACompiledStep) {
  const auto step = compile([](const Tensor& p, const Tensor& g, const Tensor& rate) {
    return sgd(rate).step(p, g, {}).first;
  });
  const Tensor p = ones({2}), g = ones({2});
  EXPECT_EQ(step(p, g, scalar(0.5, DType::F32)).to_vector<float>()[0], 0.5f);
  EXPECT_EQ(step(p, g, scalar(0.25, DType::F32)).to_vector<float>()[0], 0.75f);
  EXPECT_EQ(step.stats().traces, 1);
}

TEST(Optimizer, OneProgramServesAllStepsOfASchedule) {
  const Optimizer opt = chain({clip_by_global_norm(1), adamw(warmup_cosine(0.1, 2, 6))});
  const auto step =
      compile([&](const Model& p, const OptState& s, const Model& g) { return opt.step(p, g, s); },
              {.donate = {0, 1}});
  Model params = model(), eager = model();
  OptState state = opt.init(params), eager_state = opt.init(eager);
  for (int i = 0; i < 8; ++i) {
    const Model grads = model(DType::F32, 20 + static_cast<uint64_t>(i));
    std::tie(params, state) = step(params, state, grads);
    std::tie(eager, eager_state) = opt.step(eager, grads, eager_state);
  }
  EXPECT_EQ(step.stats().traces, 1);
  EXPECT_LT(largest_difference(params.layers[0].w, eager.layers[0].w), 1e-6);
  EXPECT_EQ(state.at("step").item(), 8);
}

TEST(Optimizer, DerivativesGoThroughAStep) {
  const Tensor p = randn({4}, 1), g = randn({4}, 2);
  const Optimizer opt = adam(0.1);
  const OptState state = opt.init(p);
  auto after = [&](const Tensor& grads) { return sum(square(opt.step(p, grads, state).first)); };
  const Tensor slope = grad(after)(g);
  const double h = 1e-2;
  const Tensor one = cast(equal(iota({4}, 0), 2), DType::F32) * h;
  const double expected = (after(g + one).item() - after(g - one).item()) / (2 * h);
  EXPECT_NEAR(slope.to_vector<float>()[2], expected, 1e-3 * std::max(1.0, std::abs(expected)));
}

TEST(Optimizer, StepsInsideShardMap) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Optimizer opt = chain({clip_by_global_norm(0.1), adamw(0.01)});
  const Model params = model(), grads = model(DType::F32, 9);
  const std::map<std::string, PartitionSpec> specs{{"layers[0].w", P("x", "y")},
                                                   {"layers[1].w", P("y", "x")}};
  const auto [expected, unused] = opt.step(params, grads, opt.init(params));
  const auto step = shard_map(
      [&](const Model& p, const Model& g, const OptState& s) { return opt.step(p, g, s); }, mesh,
      {.in = {specs, specs}});
  const auto [next, state] = step(params, grads, opt.init(params));
  EXPECT_LT(largest_difference(next.layers[0].w, expected.layers[0].w), 1e-6);
  EXPECT_LT(largest_difference(next.layers[1].b, expected.layers[1].b), 1e-6);
}

// A step as a user writes it, planned: gradients, clipping, AdamW with a schedule.
TEST(Optimizer, StepsInsideAutoshard) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Optimizer opt = chain({clip_by_global_norm(0.1), adamw(warmup_cosine(0.01, 2, 8))});
  auto loss = [](const Model& p, const Tensor& x) {
    const Tensor hidden = tanh(matmul(x, p.layers[0].w) + p.layers[0].b);
    return mean(square((matmul(hidden, p.layers[1].w) + p.layers[1].b) * p.norm));
  };
  auto step = [&](const Model& p, const OptState& s, const Tensor& x) {
    auto [value, grads] = value_and_grad(loss)(p, x);
    auto [next, state] = opt.step(p, grads, s);
    return std::make_tuple(value, next, state);
  };
  const auto planned = autoshard(step, mesh, {.donate = {0, 1}});
  Model params = model(), expected = model();
  OptState state = opt.init(params), expected_state = opt.init(expected);
  for (uint64_t i = 0; i < 4; ++i) {
    const Tensor x = randn({16, 8}, 50 + i);
    Tensor value, expected_value;
    std::tie(value, params, state) = planned(params, state, x);
    std::tie(expected_value, expected, expected_state) = step(expected, expected_state, x);
    EXPECT_NEAR(value.item(), expected_value.item(), 1e-5);
  }
  EXPECT_LT(largest_difference(params.layers[0].w, expected.layers[0].w), 1e-5);
  EXPECT_EQ(planned.num_plans(), 1u);
}

TEST(Optimizer, NormIsReducedOnce) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Model params = placed(model(), mesh), grads = placed(model(DType::F32, 9), mesh);
  evaluate(leaves(params));
  evaluate(leaves(grads));
  const Optimizer opt = chain({clip_by_global_norm(0.5), sgd(0.1)});
  double squares = 0;
  for (const Tensor& g : leaves(grads)) squares += sum(square(g)).item();
  EXPECT_NEAR(global_norm(grads).item(), std::sqrt(squares), 1e-4);
  const auto step = [&](const Model& p, const Model& g) { return opt.step(p, g, {}).first; };
  const auto compiled = compile(step);
  for (const bool once : {false, true}) {
    CommLog log;
    const Model next = once ? compiled(params, grads) : step(params, grads);
    evaluate(leaves(next));
    EXPECT_EQ(log.count(), 1) << to_string(log);
    EXPECT_EQ(log.count("all_reduce"), 1) << to_string(log);
    EXPECT_LE(log.bytes(), 12) << to_string(log);  // three times four bytes
  }
}

TEST(Optimizer, AccumulatesBeforeItSteps) {
  const Optimizer opt = multi_steps(adam(0.1), 3);
  Tensor p = ones({3});
  OptState state = opt.init(p);
  for (int i = 0; i < 2; ++i)
    std::tie(p, state) = opt.step(p, full({3}, i + 1.0, DType::F32), state);
  EXPECT_EQ(p.to_vector<float>()[0], 1.0f);
  EXPECT_EQ(state.at("step").item(), 0);
  std::tie(p, state) = opt.step(p, full({3}, 3.0, DType::F32), state);
  EXPECT_EQ(state.at("step").item(), 1);
  EXPECT_EQ(state.at("micro_step").item(), 0);
  EXPECT_NEAR(state.at("m").to_vector<float>()[0], 0.1 * 2, 1e-6);
  EXPECT_NEAR(p.to_vector<float>()[0], 0.9, 1e-6);
}

TEST(Optimizer, AveragesWeights) {
  const Tensor p = full({2}, 1.0, DType::F32);
  const Optimizer plain = chain({sgd(1), average_weights(0.75)});
  auto [next, state] = plain.step(p, full({2}, 0.5, DType::F32), plain.init(p));
  EXPECT_EQ(averaged_weights(state, next).to_vector<float>()[0], 0.75f * 1 + 0.25f * 0.5f);
  const Optimizer debiased = chain({sgd(1), average_weights(0.75, {.debias = true})});
  std::tie(next, state) = debiased.step(p, full({2}, 0.5, DType::F32), debiased.init(p));
  EXPECT_EQ(averaged_weights(state, next).to_vector<float>()[0], 0.5f);
  std::tie(next, state) = debiased.step(next, full({2}, 0.5, DType::F32), state);
  EXPECT_NEAR(averaged_weights(state, next).to_vector<float>()[0],
              (0.75 * 0.25 * 0.5) / (1 - 0.75 * 0.75), 1e-6);
}

TEST(LossScale, DropsStepsAndShrinks) {
  const Optimizer opt = loss_scaled(adam(0.1), {.initial = 8, .period = 2});
  Tensor p = ones({2});
  OptState state = opt.init(p);
  EXPECT_EQ(scale_loss(scalar(3.0, DType::F16), state).item(), 24);
  EXPECT_EQ(unscale_loss(scalar(24.0, DType::F32), state).item(), 3);
  const Tensor bad = Tensor::from(DType::F32, {2}, std::vector<float>{1, INFINITY});
  std::tie(p, state) = opt.step(p, bad, state);
  EXPECT_EQ(p.to_vector<float>()[0], 1.0f);
  EXPECT_EQ(state.at("loss_scale").item(), 4);
  EXPECT_EQ(state.at("step").item(), 0);
  EXPECT_EQ(state.at("m").to_vector<float>()[1], 0.0f);
  const Tensor good = full({2}, 4.0, DType::F32);
  std::tie(p, state) = opt.step(p, good, state);
  EXPECT_NEAR(state.at("m").to_vector<float>()[0], 0.1, 1e-6);  // of 4 / 4
  EXPECT_EQ(state.at("loss_scale").item(), 4);
  std::tie(p, state) = opt.step(p, good, state);
  EXPECT_EQ(state.at("loss_scale").item(), 8);
  EXPECT_EQ(state.at("good_steps").item(), 0);
  EXPECT_EQ(state.at("step").item(), 2);
}

// Gradients below the smallest f16 survive.
TEST(LossScale, KeepsSmallGradients) {
  const Optimizer opt = loss_scaled(sgd(1), {.initial = 32768});
  const Tensor p = cast(ones({2}), DType::F16);
  const OptState state = opt.init(p);
  auto loss = [](const Tensor& w) { return sum(w * 1e-4) * 1e-4; };
  auto small = [&](const Tensor& w) { return cast(loss(w), DType::F32); };
  auto scaled = [&](const Tensor& w) { return scale_loss(loss(w), state); };
  EXPECT_EQ(grad(small)(p).to_vector<uint16_t>()[0], 0);
  const auto [updates, next] = opt.update(grad(scaled)(p), state, p);
  EXPECT_NEAR(updates.to_vector<float>()[0], -1e-8, 2e-10);
}

TEST(Muon, MakesMatricesNearlyOrthogonal) {
  const Tensor x = orthogonalized(randn({12, 6}, 3));
  const Tensor gram = matmul(transpose(x), x);
  EXPECT_LT(max(abs(gram - eye(6))).item(), 0.6);
  EXPECT_GT(min(sum(square(x), {0})).item(), 0.4);
  const OptState state = muon(0.1, {.adam = {"*.1*"}}).init(model());
  EXPECT_TRUE(state.contains("muon.m.layers[0].w"));
  EXPECT_TRUE(state.contains("adam.v.norm"));
}

TEST(Optimizer, SaysWhatIsWrong) {
  const Tensor p = ones({4});
  const Optimizer opt = adam(0.1);
  const OptState state = opt.init(p);
  EXPECT_THAT(error_of([&] { opt.step(p, ones({3}), state); }),
              HasSubstr("a gradient tensor<3> for the parameter '', a tensor<4>"));
  EXPECT_THAT(error_of([&] { opt.step(p, p, {}); }),
              HasSubstr("the state of the optimizer has no 'step'"));
  EXPECT_THAT(error_of([&] { sgd(0.1).step(p, p, state); }),
              HasSubstr("the state of the optimizer has 'm', which this optimizer does not know"));
  EXPECT_THAT(error_of([&] { opt.init(iota({4}, 0)); }), HasSubstr("the parameter '' of i32"));
  EXPECT_THAT(error_of([&] {
                partition({{"a", {.only = {"w"}}, opt}}).init(model());
              }),
              HasSubstr("no part takes the parameter 'layers[0].w'"));
  EXPECT_THAT(error_of([] { clip_by_global_norm(0); }), HasSubstr("the limit is 0"));
  EXPECT_THAT(error_of([] { warmup_cosine(1, 10, 10); }), HasSubstr("10 steps of warm-up"));
  EXPECT_THAT(error_of([] { multi_steps(sgd(1), 0); }), HasSubstr("at least 1"));
}

}  // namespace
}  // namespace cleave::train
