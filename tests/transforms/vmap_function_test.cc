#include "cleave/transforms/vmap_function.h"

#include <gtest/gtest.h>

#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/tensors.h"
#include "cleave/transforms/flow.h"
#include "cleave/transforms/grad.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

Tensor random(Shape shape, int seed) {
  return Tensor::from(
      make_array(Type::tensor(DType::F32, std::move(shape)), "random:" + std::to_string(seed)));
}

// Example i of a tensor.
Tensor at(const Tensor& x, int64_t dim, int64_t i) {
  return squeeze(slice_dim(x, dim, i, i + 1), {dim});
}

void expect_same(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape());
  const Comparison difference = compare(actual.to_host(), expected.to_host(), 256);
  EXPECT_TRUE(difference.same) << difference.first;
}

// f on each of the examples of x, stacked.
template <typename F>
Tensor by_loop(const F& f, const Tensor& x, int64_t dim = 0) {
  std::vector<Tensor> results;
  for (int64_t i = 0; i < x.dim(dim); ++i) results.push_back(f(at(x, dim, i)));
  return stack(results);
}

struct Layer {
  Tensor w, b;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("w", w);
    v("b", b);
  }
};

Tensor predict(const Layer& layer, const Tensor& x) {
  return softmax(tanh(matmul(x, layer.w) + layer.b));
}

TEST(VmapTensors, OverTheSecondArgument) {
  const Layer layer{random({3, 4}, 1), random({4}, 2)};
  const Tensor x = random({5, 3}, 3);
  expect_same(vmap(predict, {.in = {std::nullopt, 0}})(layer, x),
              by_loop([&](const Tensor& one) { return predict(layer, one); }, x));
  expect_same(vmap(predict, {.in = {std::nullopt, -1}, .out = {1}})(layer, transpose(x)),
              transpose(vmap(predict, {.in = {std::nullopt, 0}})(layer, x)));
}

TEST(VmapTensors, OverATree) {
  const Layer ensemble{random({6, 3, 4}, 1), random({6, 4}, 2)};
  const Tensor x = random({3}, 3);
  const Tensor actual = vmap(predict, {.in = {0, std::nullopt}})(ensemble, x);
  std::vector<Tensor> expected;
  for (int64_t i = 0; i < 6; ++i)
    expected.push_back(predict({at(ensemble.w, 0, i), at(ensemble.b, 0, i)}, x));
  expect_same(actual, stack(expected));
}

TEST(VmapTensors, TuplesOfResultsAndCaptures) {
  const Tensor w = random({4}, 1), x = random({3, 4}, 2);
  const auto both = vmap([&](const Tensor& a) { return std::pair(sum(a * w), outer(a, w)); },
                         {.in = {0}, .out = {0, 2}})(x);
  expect_same(both.first, sum(x * w, {1}));
  ASSERT_EQ(both.second.shape(), (Shape{4, 4, 3}));
  expect_same(at(both.second, 2, 1), outer(at(x, 0, 1), w));
}

TEST(VmapTensors, Nested) {
  const Tensor x = random({3, 4}, 1), y = random({5, 4}, 2);
  const auto dot = [](const Tensor& a, const Tensor& b) { return sum(a * b); };
  const auto rows = vmap(dot, {.in = {std::nullopt, 0}});
  expect_same(vmap(rows, {.in = {0, std::nullopt}})(x, y), matmul(x, transpose(y)));
}

TEST(VmapTensors, SizeWithoutExamples) {
  const Tensor x = random({3}, 1);
  const Tensor repeated =
      vmap([](const Tensor& a) { return a * 2.0; }, {.in = {std::nullopt}, .size = 4})(x);
  expect_same(repeated, broadcast_to(x * 2.0, {4, 3}));
}

TEST(VmapTensors, SpmdAxis) {
  const Mesh mesh{{"data", 2}, {"model", 2}};
  const Layer layer{random({3, 4}, 1).shard(mesh, P({}, "model")), random({4}, 2)};
  const Tensor x = random({5, 3}, 3);
  const Tensor y = vmap(predict, {.in = {std::nullopt, 0}, .spmd_axis = "data"})(layer, x);
  EXPECT_EQ(to_string(y.sharding()).substr(0, 10), "[{\"data\"},");
  expect_same(y, by_loop([&](const Tensor& one) { return predict(layer, one); }, x));
}

TEST(VmapTensors, GradientsOfEachExample) {
  const Tensor w = random({3, 2}, 1), x = random({5, 3}, 2), t = random({5, 2}, 3);
  const auto loss = [](const Tensor& weights, const Tensor& one, const Tensor& target) {
    return sum(square(tanh(matmul(one, weights)) - target));
  };
  const Tensor each = vmap(grad(loss), {.in = {std::nullopt, 0, 0}})(w, x, t);
  std::vector<Tensor> expected;
  for (int64_t i = 0; i < 5; ++i) expected.push_back(grad(loss)(w, at(x, 0, i), at(t, 0, i)));
  expect_same(each, stack(expected));
  // The gradient of the sum over examples is the sum of the gradients.
  const auto total = [&](const Tensor& weights) {
    return sum(vmap(loss, {.in = {std::nullopt, 0, 0}})(weights, x, t));
  };
  expect_same(grad(total)(w), sum(each, {0}));
}

// A derivative that is not that of the function says which one was used.
TEST(VmapTensors, ADerivativeOfItsOwn) {
  const auto forward = [](const Tensor& x, const Tensor& w) {
    return std::pair(sum(x * w), std::pair(x, w));
  };
  const auto backward = [](const std::pair<Tensor, Tensor>& kept, const Tensor& c) {
    return std::tuple(c * kept.second * 10.0, c * kept.first * 100.0);
  };
  const auto f =
      custom_vjp([](const Tensor& x, const Tensor& w) { return sum(x * w); }, forward, backward);
  const Tensor x = random({5, 3}, 1), w = random({3}, 2);
  const VmapAxes axes{.in = {0, std::nullopt}};
  const auto total = [&](const Tensor& a, const Tensor& b) { return sum(vmap(f, axes)(a, b)); };
  expect_same(vmap(f, axes)(x, w), matmul(x, w));
  expect_same(grad<0>(total)(x, w), broadcast_to(w * 10.0, {5, 3}));
  expect_same(grad<1>(total)(x, w), sum(x, {0}) * 100.0);
  expect_same(vmap(grad<1>(f), axes)(x, w), x * 100.0);
}

TEST(VmapTensors, Errors) {
  const Tensor x = random({3, 4}, 1), y = random({5, 4}, 2);
  const auto product = [](const Tensor& a, const Tensor& b) { return a * b; };
  EXPECT_EQ(error_of([&] { vmap(product)(x, y); }),
            "vmap: argument 0 has 3 examples, and argument 1, tensor<5x4xf32>, has 5 along axis 0");
  EXPECT_EQ(error_of([&] {
              vmap(product, {.in = {2, 0}})(x, y);
            }),
            "vmap: axis 2 is outside of argument 0, tensor<3x4xf32>");
  EXPECT_EQ(error_of([&] {
              vmap(product, {.in = {0, 0, 0}})(x, x);
            }),
            "vmap: in has 3 entries, and there are 2 arguments");
  EXPECT_EQ(error_of([&] { vmap(product, {.in = {std::nullopt}})(x, x); }),
            "vmap: no argument has examples; give an axis of one, or the number as size");
  EXPECT_EQ(error_of([&] {
              vmap(product)(zeros({0, 4}), zeros({0, 4}));
            }),
            "vmap: argument 0, tensor<0x4xf32>, has no example along axis 0; there must be one at "
            "least");
  EXPECT_EQ(error_of([&] { vmap(product, {.in = {0}, .size = 2})(x, x); }),
            "vmap: size is 2, and argument 0, tensor<3x4xf32>, has 3 examples along axis 0");
  EXPECT_EQ(error_of([&] { vmap(product, {.spmd_axis = "data"})(x, x); }),
            "vmap: spmd_axis \"data\" is an axis of no mesh that an argument is laid out over; "
            "shard one of them");
}

}  // namespace
}  // namespace cleave
