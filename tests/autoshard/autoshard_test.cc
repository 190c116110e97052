#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cleave/core/error.h"
#include "cleave/models.h"
#include "cleave/plan.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"
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

TEST(Autoshard, AsAModeOfShardMap) {
  const Tensor x = ramp({8, 6}), w = ramp({6, 12}, 0.2), v = ramp({12, 4}, 0.3);
  const auto f = shard_map(mlp, kMesh, {.in = {P("data", {})}, .mode = ShardMapMode::Plan});
  expect_near(f(x, w, v), mlp(x, w, v));
}

}  // namespace
}  // namespace cleave
