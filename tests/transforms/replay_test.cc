#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/models/training.h"
#include "cleave/models/transformer.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"

// A trace replayed with other sizes and layouts: what it gives is what the function gives, and the
// function does not run again.
namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Tensor random(Shape shape, int seed) {
  return Tensor::from(
      make_array(Type::tensor(DType::F32, std::move(shape)), "random:" + std::to_string(seed)));
}

void expect_same(const std::vector<Tensor>& actual, const std::vector<Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].shape(), expected[i].shape());
    const Comparison difference = compare(actual[i].to_host(), expected[i].to_host(), 1024);
    EXPECT_TRUE(difference.same) << "result " << i << ": " << difference.first;
  }
}

// f traced with some arguments, replayed with others.
template <typename F, typename... Args>
void expect_replay(const F& f, const std::tuple<Args...>& traced,
                   const std::tuple<Args...>& other) {
  int runs = 0;
  const auto counted = [&](const Args&... args) {
    ++runs;
    return f(args...);
  };
  const Trace t = std::apply([&](const Args&... a) { return trace(counted)(a...); }, traced);
  const int runs_before = runs;
  const std::vector<Tensor> actual = std::apply([&](const Args&... a) { return t(a...); }, other);
  EXPECT_EQ(runs, runs_before);
  expect_same(actual, leaves(std::apply(f, other)));
}

models::GptConfig small_gpt() {
  models::GptConfig config;
  config.layers = 1;
  config.d = 16;
  config.heads = 4;
  config.kv_heads = 2;
  config.hidden = 24;
  config.vocab = 11;
  return config;
}

Tensor mlp_loss(const Tensor& w, const Tensor& b, const Tensor& x, const Tensor& y) {
  return mean(square(softmax(matmul(x, w) + b) - y));
}

TEST(Replay, AnotherBatchSize) {
  expect_replay(
      mlp_loss, std::tuple(random({3, 4}, 1), random({4}, 2), random({5, 3}, 3), random({5, 4}, 4)),
      std::tuple(random({3, 4}, 1), random({4}, 2), random({8, 3}, 5), random({8, 4}, 6)));
  // Both widths as well: nothing holds them.
  expect_replay(
      mlp_loss, std::tuple(random({3, 4}, 1), random({4}, 2), random({5, 3}, 3), random({5, 4}, 4)),
      std::tuple(random({9, 6}, 1), random({6}, 2), random({2, 9}, 5), random({2, 6}, 6)));
}

TEST(Replay, TheGradientWithAnotherBatchSize) {
  expect_replay(
      value_and_grad(mlp_loss),
      std::tuple(random({3, 4}, 1), random({4}, 2), random({5, 3}, 3), random({5, 4}, 4)),
      std::tuple(random({3, 4}, 1), random({4}, 2), random({8, 3}, 5), random({8, 4}, 6)));
}

TEST(Replay, AGptWithAnotherBatchAndSequence) {
  const models::GptConfig config = small_gpt();
  models::Init init(1);
  const models::Gpt params = models::init_gpt(config, init);
  const auto logits = [&](const models::Gpt& p, const Tensor& t) {
    return models::gpt(config, p, t);
  };
  const Tensor tokens = init.integers({5, 7}, config.vocab);
  for (const Shape& shape : {Shape{9, 7}, Shape{5, 13}, Shape{2, 3}})
    expect_replay(logits, std::tuple(params, tokens),
                  std::tuple(params, init.integers(shape, config.vocab)));
  const auto loss = [&](const models::Gpt& p, const Tensor& t) {
    return models::next_token_loss(models::gpt(config, p, t), t);
  };
  expect_replay(value_and_grad(loss), std::tuple(params, tokens),
                std::tuple(params, init.integers({8, 7}, config.vocab)));
  // The loss shifts the tokens by slices of the length that it was traced with.
  EXPECT_THAT(error_of([&] {
                trace(loss)(params, tokens)(params, init.integers({5, 9}, config.vocab));
              }),
              AllOf(HasSubstr("stablehlo.slice: limit_indices = [5, 7]"),
                    HasSubstr("the size 7 of dimension 1, which is 9 now")));
}

TEST(Replay, ShapesThatOpsCompute) {
  const auto f = [](const Tensor& x, const Tensor& y) {
    const Tensor joined = concat({x, y, x}, 0);
    const Tensor padded = pad(joined, {1, 0}, {2, 0});
    return std::tuple(cumsum(padded, 0), flip(sort(joined, 0)), var(joined, {0}), max(x, {0}));
  };
  expect_replay(f, std::tuple(random({5, 3}, 1), random({2, 3}, 2)),
                std::tuple(random({6, 3}, 3), random({9, 3}, 4)));
  const auto pooled = [](const Tensor& x, const Tensor& k) {
    return std::pair(conv(x, k, {.strides = {2}, .padding = {1, 1}}), reshape(x, {x.dim(0), -1}));
  };
  expect_replay(pooled, std::tuple(random({2, 9, 3}, 1), random({3, 3, 4}, 2)),
                std::tuple(random({4, 13, 3}, 3), random({3, 3, 4}, 4)));
}

TEST(Replay, ThroughLoopsBranchesScansAndMarks) {
  const auto f = [](const Tensor& w, const Tensor& x) {
    const Tensor looped = fori_loop(
        0, 3, [&](const Tensor&, const Tensor& h) { return tanh(matmul(h, w)); }, x);
    const Tensor chosen = cond(
        sum(x) > 0.0, [](const Tensor& y) { return y * 2.0; },
        [](const Tensor& y) { return y + ones_like(y); }, looped);
    const auto [last, all] = scan(
        [&](const Tensor& c, const Tensor& row) {
          const Tensor next = tanh(c + row);
          return std::pair(next, sum(next));
        },
        zeros({x.dim(1)}), chosen);
    return std::tuple(last, all, checkpoint([](const Tensor& y) { return sin(y); })(chosen));
  };
  expect_replay(f, std::tuple(random({3, 3}, 1), random({5, 3}, 2)),
                std::tuple(random({3, 3}, 1), random({8, 3}, 3)));
  expect_replay(f, std::tuple(random({3, 3}, 1), random({5, 3}, 2)),
                std::tuple(random({4, 4}, 1), random({2, 4}, 3)));
}

TEST(Replay, OtherLayouts) {
  const Mesh mesh{{"data", 2}, {"model", 2}};
  const Tensor w = random({3, 4}, 1), b = random({4}, 2), x = random({5, 3}, 3),
               y = random({5, 4}, 4);
  const Trace t = trace(mlp_loss)(w, b, x, y);
  const std::vector<Tensor> expected = {mlp_loss(w, b, x, y)};
  expect_same(t(w.shard(mesh, P({}, "model")), b, x.shard(mesh, P("data", {})), y), expected);
  expect_same(t(w, b, x.shard(mesh, P({}, "data")), y.shard(mesh, P("model", "data"))), expected);
  // A layout and a size at once, uneven.
  const Tensor more = random({7, 3}, 5), labels = random({7, 4}, 6);
  expect_same(t(w, b, more.shard(mesh, P("data", {})), labels), {mlp_loss(w, b, more, labels)});
}

TEST(Replay, NumbersThatDependOnSizesAreErrors) {
  const Tensor x = random({5, 3}, 1), y = random({8, 3}, 2);
  const auto error = [&](const auto& f) { return error_of([&] { trace(f)(x)(y); }); };
  EXPECT_EQ(error([](const Tensor& a) { return slice_dim(a, 0, 1); }),
            "stablehlo.slice: limit_indices = [5, 3] is a number that may come from the size 5 of "
            "dimension 0, which is 8 now; trace the function again");
  EXPECT_EQ(error([](const Tensor& a) { return sum(a) / static_cast<double>(a.size()); }),
            "stablehlo.divide by the constant 15: stablehlo.reduce adds up 15 elements, and "
            "their number changes; divide by what mean does, or trace the function again");
  const Tensor counted = iota({5, 1}, 0, DType::F32);
  counted.to_host();
  EXPECT_EQ(error([&](const Tensor& a) { return a + counted; }),
            "stablehlo.constant: dimension 0 of a constant tensor<5x1xf32> with values of its own "
            "would have to be 8; make it an argument, or trace the function again");
  const Tensor outside = random({5, 3}, 3);
  EXPECT_EQ(error([&](const Tensor& a) { return a * outside; }),
            "stablehlo.multiply: with these arguments, dimension 0 of a captured tensor<5x3xf32> "
            "(pass it as an argument) would have to be 8 instead of 5");
  EXPECT_THAT(error([](const Tensor& a) {
                return reshape(a, {3, 5});
              }),
              HasSubstr("stablehlo.reshape"));
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  EXPECT_EQ(error_of([&] {
              trace(product)(x, random({3, 2}, 4))(x, random({4, 2}, 5));
            }),
            "stablehlo.dot_general: with these arguments, dimension 1 of argument '[0]', "
            "tensor<5x3xf32>, would have to be 4 instead of 3");
  EXPECT_EQ(error_of([&] {
              trace(product)(x, random({3, 2}, 4))(x);
            }),
            "a trace of 2 arguments is replayed with 1");
  EXPECT_EQ(error([](const Tensor& a) { return mean(a, {0}); }), "no error");
  // Which of the two dimensions the count comes from, the gradient does not say.
  const auto halves =
      grad([](const Tensor& a) { return sum(square(sum(a))) + sum(mean(a * a, {0})); });
  EXPECT_EQ(error_of([&] {
              trace(halves)(random({4, 4}, 1))(random({6, 4}, 1));
            }),
            "stablehlo.constant: a count of elements comes from the size 4, and of the dimensions "
            "that had this size some have 4 now and others 6; trace the function again");
  const auto spread = grad([](const Tensor& a) { return square(sum(a)); });
  EXPECT_EQ(
      error_of([&] { trace(spread)(x)(y); }),
      "stablehlo.broadcast_in_dim: dimension 0 of tensor<5x3xf32> may come from the size 5 of "
      "an argument, which has another size now, or may not; trace the function again");
  EXPECT_EQ(error_of([&] { trace([](const Tensor& a) { return a; })(x)(cast(x, DType::I32)); }),
            "a trace is replayed with tensor<5x3xi32> for argument 0, which was tensor<5x3xf32>: "
            "only sizes may change");
}

// Numbers that a function makes of sizes by itself, in ways that the graph does not show.
TEST(Replay, WhatTheFunctionMakesOfASizeIsNoticed) {
  const Tensor x = random({5, 3}, 1), y = random({8, 3}, 2), wide = random({5, 4}, 3);
  const auto error = [&](const auto& f, const Tensor& other) {
    return error_of([&] { trace(f)(x)(other); });
  };
  EXPECT_EQ(error([](const Tensor& a) { return a / static_cast<double>(a.dim(0)); }, y),
            "a trace is replayed with tensor<8x3xf32> for argument 0, which was tensor<5x3xf32>, "
            "and the size of dimension 0 can not change: the function makes something of it; with "
            "6 instead of 5 it gives '%cst = stablehlo.constant dense<6.000000e+00> : "
            "tensor<f32>', and the trace has '%cst = stablehlo.constant dense<5.000000e+00> : "
            "tensor<f32>'; trace the function again");
  const auto held = HasSubstr("the size of dimension 0 can not change");
  // The other dimension is free.
  expect_replay([](const Tensor& a) { return a / static_cast<double>(a.dim(0)); }, std::tuple(x),
                std::tuple(wide));
  EXPECT_THAT(error([](const Tensor& a) { return a * std::pow(0.3, a.shape()[0]); }, y), held);
  EXPECT_THAT(error([](const Tensor& a) { return a * std::sqrt(2.0 + a.dim(0)); }, y), held);
  // Loops, branches and shapes.
  EXPECT_THAT(error(
                  [](const Tensor& a) {
                    Tensor b = a;
                    for (int64_t i = 0; i < a.dim(0); ++i) b = tanh(b);
                    return b;
                  },
                  y),
              held);
  EXPECT_THAT(error([](const Tensor& a) { return a.dim(0) % 2 ? a * 2.0 : a * 3.0; }, y), held);
  EXPECT_THAT(error([](const Tensor& a) { return broadcast_to(sum(a), {a.dim(0) + 1}); }, y), held);
  EXPECT_THAT(error([](const Tensor& a) { return zeros({a.dim(0) * 2}) + sum(a); }, y), held);
  EXPECT_THAT(error(
                  [](const Tensor& a) {
                    return reshape(a, {a.dim(0) * 3}) * full({1}, a.size(), DType::F32);
                  },
                  y),
              held);
  // A table of values, too large to be written out.
  const auto table = [](const Tensor& a) {
    std::vector<float> values(32);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(i) / static_cast<float>(a.dim(0));
    return sum(a) * Tensor::from(DType::F32, {32}, values);
  };
  EXPECT_THAT(error(table, y), AllOf(held, HasSubstr("makes a tensor<32xf32> of it")));
  // Inside of derivatives and batches.
  const auto by_hand = [](const Tensor& a) { return sum(square(a)) / std::log(a.dim(0) + 1.0); };
  EXPECT_THAT(error(grad(by_hand), y), held);
  EXPECT_THAT(error(
                  [](const Tensor& a) {
                    return vmap([](const Tensor& v) { return v * (1.0 / (1 + v.dim(0))); },
                                {.in = {1}, .out = {1}})(a);
                  },
                  y),
              held);
  // A function that refuses other sizes.
  EXPECT_THAT(error(
                  [](const Tensor& a) {
                    if (a.dim(0) != 5) throw UserError("five rows, please");
                    return a * 2.0;
                  },
                  y),
              AllOf(held, HasSubstr("the function says: five rows, please")));
}

TEST(Replay, SizesThatAreReadAndFollowMayChange) {
  const auto f = [](const Tensor& a) {
    const Tensor flat = reshape(a, {a.dim(0) * a.dim(1)});
    const Tensor rows = reshape(flat, {a.dim(0), a.dim(1)}) + zeros(a.shape());
    return std::pair(broadcast_to(reshape(mean(rows, {0}), {1, a.dim(1)}), a.shape()) + rows,
                     softmax(rows) * 2.0);
  };
  expect_replay(f, std::tuple(random({5, 3}, 1)), std::tuple(random({8, 3}, 2)));
  expect_replay(f, std::tuple(random({5, 3}, 1)), std::tuple(random({6, 7}, 2)));
  // Which of two factors follows is not guessed.
  const auto halves = [](const Tensor& a) { return sum(reshape(a, {2, a.dim(0) / 2, 3}), {0}); };
  EXPECT_THAT(error_of([&] {
                trace(halves)(random({4, 3}, 1))(random({12, 3}, 2));
              }),
              HasSubstr("stablehlo.reshape: tensor<12x3xf32> has 36 elements"));
}

TEST(Replay, DrawsWithoutASeedStayAsTheyAre) {
  const auto noisy = [](const Tensor& a) { return a + randn({3}); };
  const uint64_t first = next_seed();
  const Tensor before = randn({2});
  const Trace t = trace(noisy)(random({5, 3}, 1));
  const Tensor after = randn({2});
  expect_same(t(zeros({5, 3})), {broadcast_to(randn({3}, first + 1), {5, 3})});
  expect_same({before, after}, {randn({2}, first), randn({2}, first + 2)});
  expect_same(t(zeros({7, 3})), {broadcast_to(randn({3}, first + 1), {7, 3})});
}

TEST(Replay, WhatTheFunctionLeavesBehindIsOfTheTracedSizes) {
  Shape seen;
  const Trace t = trace([&](const Tensor& a) {
    seen = a.shape();
    return a * 2.0;
  })(random({5, 3}, 1));
  EXPECT_EQ(seen, (Shape{5, 3}));
  t(random({7, 3}, 1));
  EXPECT_EQ(seen, (Shape{5, 3}));
}

TEST(Replay, OneSizeOnly) {
  int runs = 0;
  const auto f = [&](const Tensor& a) {
    ++runs;
    return a * 2.0;
  };
  const Trace t = trace(f, {.other_sizes = false})(random({5}, 1));
  EXPECT_EQ(runs, 1);
  expect_same(t(random({5}, 2)), {random({5}, 2) * 2.0});
  EXPECT_THAT(error_of([&] { t(random({6}, 2)); }), HasSubstr("other_sizes"));
}

}  // namespace
}  // namespace cleave
