#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/core/error.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"
#include "tests/support/tensor_checks.h"

// What specs mean, and what the check of a manual function finds and lets pass.
namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Mesh kMesh{{"data", 2}, {"model", 3}};

std::string layout(const Tensor& x) { return x.mesh() ? to_string(x.sharding()) : "none"; }

TEST(ShardMapAuto, AbsentMeansYouChooseAndEmptyMeansReplicated) {
  const Tensor x = ramp({7, 4}), w = ramp({4, 5});
  const auto f = [](const Tensor& a, const Tensor& b) { return tanh(matmul(a, b)); };
  // Nothing said of the result: it lies as its argument does, uneven as that is.
  const Tensor chosen = shard_map(f, kMesh, {.in = {P("data", {})}})(x, w);
  EXPECT_EQ(layout(chosen), "[{\"data\"}, {}]");
  // Said to be replicated, as an argument and as a result.
  const Tensor whole = shard_map(f, kMesh, {.in = {P("data", {})}, .out = {P()}})(x, w);
  EXPECT_EQ(layout(whole), "[{}, {}]");
  const Tensor other = shard_map(f, kMesh, {.in = {P(), P({}, "model")}})(x, w);
  EXPECT_EQ(layout(other), "[{}, {\"model\"}]");
  // An argument without a spec takes what the result asks for.
  const Tensor asked =
      shard_map(f, kMesh, {.in = {std::nullopt, std::nullopt}, .out = {P("model", "data")}})(x, w);
  EXPECT_EQ(layout(asked), "[{\"model\"}, {\"data\"}]");
  for (const Tensor& y : {chosen, whole, other, asked}) expect_near(y, f(x, w));
}

TEST(ShardMapAuto, PartialSumsAreCompletedWhereSomebodyNeedsThem) {
  const Tensor x = ramp({7, 5}), w = ramp({5, 4});
  const auto product = [](const Tensor& a, const Tensor& b) { return matmul(a, b); };
  const ShardMapOptions contracted{.in = {P({}, "model"), P("model", {})}};
  expect_near(shard_map(product, kMesh, contracted)(x, w), matmul(x, w));
  ShardMapOptions scattered = contracted;
  scattered.out = {P("model", {})};
  const Tensor y = shard_map(product, kMesh, scattered)(x, w);
  EXPECT_EQ(layout(y), "[{\"model\"}, {}]");
  expect_near(y, matmul(x, w));
  const auto twice = [&](const Tensor& a, const Tensor& b) {
    return sum(square(shard_map(product, kMesh, contracted)(a, b)));
  };
  expect_near(shard_map(grad(twice), kMesh, scattered)(x, w), grad(twice)(x, w));
}

TEST(ShardMapAuto, InsideAnother) {
  const Tensor x = ramp({7, 5}), w = ramp({5, 4});
  const auto inner = shard_map([](const Tensor& a, const Tensor& b) { return matmul(a, b); }, kMesh,
                               {.in = {P("data", {}), P({}, "model")}});
  const auto outer =
      shard_map([&](const Tensor& a, const Tensor& b) { return tanh(inner(a, b)) * 2.0; }, kMesh,
                {.in = {P("data", {})}, .out = {P()}});
  expect_near(outer(x, w), tanh(matmul(x, w)) * 2.0);
  // A manual part of an automatic function.
  const auto part = shard_map([](const Tensor& a) { return all_reduce(square(a), "data"); }, kMesh,
                              {.in = {P("data", {})}, .out = {P()}, .mode = ShardMapMode::Manual});
  const auto around = shard_map([&](const Tensor& a) { return sum(part(a * 2.0)); }, kMesh,
                                {.in = {P("data", {})}});
  const Tensor even = ramp({6, 5});
  expect_near(around(even), sum(square(even)) * 4.0);
  expect_near(grad(around)(even), even * 8.0);
}

ShardMapOptions manual(PartitionSpec in, PartitionSpec out) {
  return {.in = {std::move(in)}, .out = {std::move(out)}, .mode = ShardMapMode::Manual};
}
Tensor zero() { return zeros({}, DType::F64); }

TEST(ShardMapManual, LoopsAroundCollectives) {
  const Tensor x = ramp({6, 4});
  // What is carried starts the same everywhere and is reduced in every round.
  const auto loop = [](const Tensor& v) {
    return fori_loop(
        0, 3, [&](const Tensor&, const Tensor& h) { return all_reduce(sum(sin(v + h)), "data"); },
        zero());
  };
  const auto whole = [](const Tensor& v) {
    return fori_loop(
        0, 3, [&](const Tensor&, const Tensor& h) { return sum(sin(v + h)); }, zero());
  };
  const auto mapped = shard_map(loop, kMesh, manual(P("data", {}), P()));
  expect_near(mapped(x), whole(x));
  expect_near(grad(mapped)(x), grad(whole)(x));
  const auto scanned = [](const Tensor& v) {
    return scan(
               [](const Tensor& c, const Tensor& row) {
                 const Tensor next = c + all_reduce(sum(tanh(row) * c) + sum(row), "model");
                 return std::pair(next, next * 2.0);
               },
               ones({}, DType::F64), v)
        .second;
  };
  const auto by_rows = [](const Tensor& v) {
    return scan(
               [](const Tensor& c, const Tensor& row) {
                 const Tensor next = c + sum(tanh(row) * c) + sum(row);
                 return std::pair(next, next * 2.0);
               },
               ones({}, DType::F64), v)
        .second;
  };
  const Tensor y = ramp({4, 6}, 0.4);
  const auto rows = shard_map(scanned, kMesh, manual(P({}, "model"), P()));
  expect_near(rows(y), by_rows(y));
  const auto total = [](const auto& f) { return [&](const Tensor& v) { return sum(f(v)); }; };
  expect_near(grad(total(rows))(y), grad(total(by_rows))(y), 1e-8);
  expect_near(compile(rows)(y), by_rows(y));
}

TEST(ShardMapManual, ARingOfPermutes) {
  const Tensor x = ramp({2, 6});
  const std::vector<std::pair<int64_t, int64_t>> ring{{0, 1}, {1, 2}, {2, 0}};
  // Each device sees all parts in turn; the sum of products is the same for all.
  const auto local = [&](const Tensor& v) {
    using Pair = std::pair<Tensor, Tensor>;
    return fori_loop(
               0, 3,
               [&](const Tensor&, const Pair& s) {
                 return Pair(ppermute(s.first, "model", ring), s.second + sin(v * s.first));
               },
               Pair(v, zeros_like(v)))
        .second;
  };
  const auto whole = [](const Tensor& v) {
    Tensor all = zeros_like(v);
    const Tensor parts = reshape(v, {2, 3, 2});
    for (int64_t i = 0; i < 3; ++i)
      all = all + sin(v * reshape(concat({slice_dim(parts, 1, i, 3), slice_dim(parts, 1, 0, i)}, 1),
                                  {2, 6}));
    return all;
  };
  const auto mapped = shard_map(local, kMesh, manual(P("data", "model"), P("data", "model")));
  expect_near(mapped(x), whole(x));
  const auto total = [](const auto& f) { return [&](const Tensor& v) { return sum(f(v)); }; };
  expect_near(grad(total(mapped))(x), grad(total(whole))(x));
  // It goes along "model" alone: nothing that lies the same along "data" differs there.
  EXPECT_EQ(error_of([&] { shard_map(local, kMesh, manual(P({}, "model"), P({}, "model")))(x); }),
            "no error");
}

TEST(ShardMapManual, PlacesOfDevicesDifferAlongTheirAxis) {
  const Tensor x = ramp({4, 6});
  const auto by_place = [](const Tensor& v) {
    return v * (cast(axis_index("model"), DType::F64) + 1.0);
  };
  const Tensor y = shard_map(by_place, kMesh, manual(P({}, "model"), P({}, "model")))(x);
  expect_near(slice_dim(y, 1, 2, 4), slice_dim(x, 1, 2, 4) * 2.0);
  EXPECT_THAT(error_of([&] { shard_map(by_place, kMesh, manual(P(), P()))(x); }),
              HasSubstr("may differ along axis \"model\""));
  EXPECT_THAT(error_of([&] {
                shard_map(
                    [](const Tensor& v) {
                      return v * cast(axis_index(SpecEntry({"data", "model"})), DType::F64);
                    },
                    kMesh, manual(P({}, "model"), P({}, "model")))(x);
              }),
              HasSubstr("may differ along axis \"data\""));
}

TEST(ShardMapManual, FindsWhatDiffersInsideOfControlFlow) {
  const Tensor x = ramp({6, 6});
  const auto differs = HasSubstr("may differ along axis \"model\"");
  const auto error = [&](const auto& f, PartitionSpec in) {
    return error_of([&] { shard_map(f, kMesh, manual(std::move(in), P()))(x); });
  };
  // The whole is the same everywhere; what a collective inside of a branch makes of it is not.
  EXPECT_THAT(error(
                  [](const Tensor& v) {
                    return cond(
                        sum(v) > 0.0, [](const Tensor& a) { return reduce_scatter(a, "model", 0); },
                        [](const Tensor& a) { return slice_dim(a, 0, 0, 2); }, v);
                  },
                  P()),
              differs);
  // A branch that devices choose by their part.
  EXPECT_THAT(error(
                  [](const Tensor& v) {
                    return cond(
                        sum(v) > 0.0, [](const Tensor& a) { return a; },
                        [](const Tensor& a) { return a * 2.0; }, ones({2}, DType::F64));
                  },
                  P({}, "model")),
              differs);
  // A loop that they leave at different times.
  EXPECT_THAT(error(
                  [](const Tensor& v) {
                    using Pair = std::pair<Tensor, Tensor>;
                    return while_loop([](const Pair& s) { return s.first < 3.0; },
                                      [](const Pair& s) {
                                        return Pair(s.first * 2.0 + 1.0, s.second + 1.0);
                                      },
                                      Pair(sum(v * v), zero()))
                        .second;
                  },
                  P({}, "model")),
              differs);
  // In the second round of a scan, what the first one carried.
  EXPECT_THAT(error(
                  [](const Tensor& v) {
                    using Pair = std::pair<Tensor, Tensor>;
                    const auto last = scan(
                        [](const Pair& c, const Tensor& row) {
                          return std::pair(Pair(sum(row), c.first), c.second);
                        },
                        Pair(zero(), zero()), v);
                    return last.first.second;
                  },
                  P({}, "model")),
              differs);
  // Reduced over a part of what it differs along.
  EXPECT_THAT(error([](const Tensor& v) { return all_reduce(sum(v), "data"); }, P("data", "model")),
              differs);
  EXPECT_EQ(error(
                [](const Tensor& v) {
                  return all_reduce(sum(v), SpecEntry({"data", "model"}));
                },
                P("data", "model")),
            "no error");
}

TEST(ShardMapManual, ProductsOverDevices) {
  const Tensor x = ramp({2, 6}) + 2.0;
  const auto local = [](const Tensor& v) {
    return all_reduce(prod(v), SpecEntry({"data", "model"}), ReduceOp::Prod);
  };
  const auto mapped = shard_map(local, kMesh, manual(P("data", "model"), P()));
  expect_near(mapped(x), prod(x), 1e-6);
  expect_near(grad(mapped)(x), prod(x) / x, 1e-6);
  expect_near(hessian(mapped)(x), hessian([](const Tensor& v) { return prod(v); })(x), 1e-6);
}

}  // namespace
}  // namespace cleave
