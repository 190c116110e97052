#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/core/error.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"
#include "tests/support/tensor_checks.h"

// Transforms of transforms, as somebody new writes them: every pair that people use, over shards of
// uneven sizes, and what is said where it can not be.
namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Tensor row(const Tensor& x, int64_t i) { return squeeze(slice_dim(x, 0, i, i + 1), {0}); }
template <typename F>
Tensor each_row(const F& f, const Tensor& x) {
  std::vector<Tensor> all;
  for (int64_t i = 0; i < x.dim(0); ++i) all.push_back(f(row(x, i)));
  return stack(all);
}

Tensor energy(const Tensor& w, const Tensor& x) { return sum(square(tanh(matmul(x, w)))); }
const Mesh kMesh{{"data", 2}, {"model", 3}};
const ShardMapOptions kAuto{.in = {P({}, "model"), P("data", {})}};

TEST(Compose, CompileOfEverything) {
  const Tensor w = ramp({4, 5}), x = ramp({7, 4}, 0.5);
  const auto per_example = vmap(grad(energy), {.in = {std::nullopt, 0}});
  const auto expected = each_row([&](const Tensor& r) { return grad(energy)(w, r); }, x);
  expect_near(per_example(w, x), expected);
  expect_near(compile(per_example)(w, x), expected);
  expect_near(shard_map(per_example, kMesh, kAuto)(w, x), expected);
  expect_near(compile(shard_map(per_example, kMesh, kAuto))(w, x), expected);
  const auto total = [](const Tensor& a, const Tensor& b) {
    return sum(vmap(energy, {.in = {std::nullopt, 0}})(a, b));
  };
  expect_near(grad(total)(w, x), grad(energy)(w, x));
  expect_near(grad(compile(energy))(w, x), grad(energy)(w, x));
  expect_near(vmap(compile(energy), {.in = {std::nullopt, 0}})(w, x),
              each_row([&](const Tensor& r) { return energy(w, r); }, x));
  expect_near(compile(grad(compile(energy)))(w, x), grad(energy)(w, x));
}

TEST(Compose, JvpOfVjpIsTheHessianTimesAVector) {
  const Tensor w = ramp({3, 2}), x = ramp({5, 3}, 0.5), v = ramp({3, 2}, 0.9);
  const auto f = [&](const Tensor& a) { return energy(a, x); };
  const auto gradient = [&](const Tensor& a) {
    const auto [value, pull] = vjp(f)(a);
    return std::get<0>(pull(ones({}, DType::F64)));
  };
  const Tensor forward = jvp(gradient, std::tuple(w), std::tuple(v)).second;
  const Tensor h = reshape(hessian(f)(w), {6, 6});
  expect_near(reshape(forward, {6}), matmul(h, reshape(v, {6})));
  expect_near(h, transpose(h));
  // The other way round: the gradient of a directional derivative.
  const auto slope = [&](const Tensor& a) { return jvp(f, std::tuple(a), std::tuple(v)).second; };
  expect_near(grad(slope)(w), forward);
  expect_near(compile(grad(slope))(w), forward);
}

TEST(Compose, HessianOverShards) {
  const Tensor w = ramp({3, 5}), x = ramp({7, 3}, 0.5);
  const auto f = [](const Tensor& a, const Tensor& b) { return energy(a, b); };
  const Tensor expected = hessian(f)(w, x);
  expect_near(shard_map(hessian(f), kMesh, kAuto)(w, x), expected);
  expect_near(compile(shard_map(hessian(f), kMesh, kAuto))(w, x), expected);
  expect_near(hessian(f)(w.shard(kMesh, P({}, "model")), x.shard(kMesh, P("data", {}))), expected);
  expect_near(hessian(shard_map(f, kMesh, kAuto))(w, x), expected);
}

TEST(Compose, GradOfShardMapOverPartials) {
  const Tensor w = ramp({6, 5}), x = ramp({7, 6}, 0.5);
  // The contracted dimension is sharded, so the product is a pending sum when tanh asks for it.
  const ShardMapOptions rows{.in = {P("model", {}), P({}, "model")}};
  const auto mapped = shard_map(energy, kMesh, rows);
  expect_near(mapped(w, x), energy(w, x));
  const auto [gw, gx] = grad<0, 1>(mapped)(w, x);
  const auto [ew, ex] = grad<0, 1>(energy)(w, x);
  expect_near(gw, ew);
  expect_near(gx, ex);
  expect_near(compile(grad(mapped))(w, x), ew);
  // And by hand: sums of parts, completed inside or left to the result.
  const Tensor even = ramp({4, 6}, 0.5);
  const ShardMapOptions manual{
      .in = {P("model", {}), P("data", "model")}, .out = {P()}, .mode = ShardMapMode::Manual};
  const auto local = [](const Tensor& a, const Tensor& b) {
    const Tensor whole = all_reduce(matmul(b, a), "model");
    return all_reduce(sum(square(tanh(whole))), "data");
  };
  const auto by_hand = shard_map(local, kMesh, manual);
  expect_near(by_hand(w, even), energy(w, even));
  const auto [hw, hx] = grad<0, 1>(by_hand)(w, even);
  const auto [iw, ix] = grad<0, 1>(energy)(w, even);
  expect_near(hw, iw);
  expect_near(hx, ix);
  expect_near(hessian(by_hand)(w, even), hessian(energy)(w, even));
}

TEST(Compose, GradInsideShardMap) {
  const Tensor w = ramp({4, 5}), x = ramp({4, 4}, 0.5);
  // Data parallel by hand: the gradient of the part, then the sum over devices.
  const auto local = [](const Tensor& a, const Tensor& b) {
    return all_reduce(grad(energy)(a, b), "data");
  };
  const ShardMapOptions options{
      .in = {P(), P("data", {})}, .out = {P()}, .mode = ShardMapMode::Manual};
  expect_near(shard_map(local, kMesh, options)(w, x), grad(energy)(w, x));
  expect_near(compile(shard_map(local, kMesh, options))(w, x), grad(energy)(w, x));
}

TEST(Compose, VmapOfShardMap) {
  const Tensor w = ramp({6, 5}), x = ramp({3, 4, 6}, 0.5);
  const auto expected = each_row([&](const Tensor& r) { return energy(w, r); }, x);
  const VmapAxes axes{.in = {std::nullopt, 0}};
  const ShardMapOptions rows{.in = {P("model", {}), P("data", "model")}};
  expect_near(vmap(shard_map(energy, kMesh, rows), axes)(w, x), expected);
  const auto local = [](const Tensor& a, const Tensor& b) {
    return all_reduce(sum(square(tanh(all_reduce(matmul(b, a), "model")))), "data");
  };
  ShardMapOptions manual = rows;
  manual.out = {P()};
  manual.mode = ShardMapMode::Manual;
  const auto mapped = shard_map(local, kMesh, manual);
  expect_near(vmap(mapped, axes)(w, x), expected);
  expect_near(compile(vmap(mapped, axes))(w, x), expected);
  expect_near(vmap(grad(mapped), axes)(w, x),
              each_row([&](const Tensor& r) { return grad(energy)(w, r); }, x));
  // Nested, through the collectives.
  const Tensor y = ramp({2, 3, 4, 6}, 0.5);
  const Tensor twice = vmap(vmap(mapped, axes), axes)(w, y);
  expect_near(twice, each_row(
                         [&](const Tensor& outer) {
                           return each_row([&](const Tensor& r) { return energy(w, r); }, outer);
                         },
                         y));
}

TEST(Compose, NestedVmapThroughControlFlow) {
  const auto f = [](const Tensor& scale, const Tensor& x) {
    const Tensor grown = while_loop([](const Tensor& h) { return sum(h * h) < 50.0; },
                                    [](const Tensor& h) { return h * 2.0; }, x);
    const auto [last, seen] = scan(
        [&](const Tensor& c, const Tensor& v) {
          const Tensor next = tanh(c * scale + v);
          return std::pair(next, next * v);
        },
        zeros({}, DType::F64), grown);
    return cond(
        last > 0.0, [](const Tensor& s) { return sum(s); },
        [](const Tensor& s) { return sum(s * s) * 3.0; }, seen);
  };
  const Tensor scale = ramp({3}, 0.3), x = ramp({4, 5}, 0.9);
  const auto inner = vmap(f, {.in = {0, std::nullopt}});
  const Tensor actual = vmap(inner, {.in = {std::nullopt, 0}})(scale, x);
  const Tensor expected = each_row(
      [&](const Tensor& r) { return each_row([&](const Tensor& s) { return f(s, r); }, scale); },
      x);
  expect_near(actual, expected);
  expect_near(compile(vmap(inner, {.in = {std::nullopt, 0}}))(scale, x), expected);
  // By the scale, which only the scan and the branch see.
  const auto slope = vmap(vmap(grad(f), {.in = {0, std::nullopt}}), {.in = {std::nullopt, 0}});
  const double h = 1e-6;
  const auto at = vmap(inner, {.in = {std::nullopt, 0}});
  expect_near(slope(scale, x), (at(scale + h, x) - at(scale - h, x)) / (2 * h), 1e-6);
}

TEST(Compose, SpmdAxis) {
  const Tensor w = ramp({4, 6}).shard(kMesh, P({}, "model")), x = ramp({7, 4}, 0.5);
  const VmapAxes axes{.in = {std::nullopt, 0}, .spmd_axis = "data"};
  const auto per_example = vmap(grad(energy), axes);
  const Tensor actual = per_example(w, x);
  EXPECT_THAT(to_string(actual.sharding()), testing::StartsWith("[{\"data\"}"));
  expect_near(actual, each_row([&](const Tensor& r) { return grad(energy)(w, r); }, x));
  const auto total = [&](const Tensor& a) { return sum(vmap(energy, axes)(a, x)); };
  expect_near(grad(total)(w), grad(energy)(w, x));
}

TEST(Compose, Checkpoint) {
  const Tensor w = ramp({4, 4}), x = ramp({7, 4}, 0.5);
  const auto block = [](const Tensor& a, const Tensor& h) { return tanh(matmul(h, a)); };
  const auto deep = [&](const auto& step) {
    return [&](const Tensor& a, const Tensor& b) {
      Tensor h = b;
      for (int i = 0; i < 3; ++i) h = step(a, h);
      return sum(square(h));
    };
  };
  const auto again = checkpoint(block);
  const auto kept = deep(block);
  const auto cheap = deep(again);
  expect_near(grad(cheap)(w, x), grad(kept)(w, x));
  expect_near(compile(grad(cheap))(w, x), grad(kept)(w, x));
  expect_near(hessian(cheap)(w, x), hessian(kept)(w, x));
  expect_near(shard_map(grad(cheap), kMesh, kAuto)(w, x), grad(kept)(w, x));
  expect_near(vmap(grad(cheap), {.in = {std::nullopt, 0}})(w, reshape(x, {7, 1, 4})),
              vmap(grad(kept), {.in = {std::nullopt, 0}})(w, reshape(x, {7, 1, 4})));
  const auto looped = [&](const Tensor& a, const Tensor& b) {
    return sum(square(fori_loop(
        0, 3, [&](const Tensor&, const Tensor& h) { return again(a, h); }, b)));
  };
  expect_near(grad(looped)(w, x), grad(kept)(w, x));
}

// A derivative that is ten times too large shows where it was used.
TEST(Compose, CustomVjp) {
  const auto f = custom_vjp([](const Tensor& v) { return v * v; },
                            [](const Tensor& v) { return std::pair(v * v, v); },
                            [](const Tensor& v, const Tensor& c) { return c * v * 20.0; });
  const Tensor x = ramp({4, 6});
  const auto total = [&](const Tensor& v) { return sum(f(v)); };
  expect_near(grad(total)(x), x * 20.0);
  expect_near(compile(grad(total))(x), x * 20.0);
  expect_near(vmap(grad(total))(x), x * 20.0);
  expect_near(grad([&](const Tensor& v) { return sum(vmap(f)(v)); })(x), x * 20.0);
  const auto scanned = [&](const Tensor& v) {
    return scan([&](const Tensor& c, const Tensor& r) { return std::pair(c + sum(f(r)), c); },
                zeros({}, DType::F64), v)
        .first;
  };
  expect_near(scanned(x), sum(x * x));
  expect_near(grad(scanned)(x), x * 20.0);
  const ShardMapOptions manual{
      .in = {P("data", "model")}, .out = {P()}, .mode = ShardMapMode::Manual};
  const auto mapped = shard_map(
      [&](const Tensor& v) {
        return all_reduce(total(v), SpecEntry({"data", "model"}));
      },
      kMesh, manual);
  expect_near(mapped(x), sum(x * x));
  expect_near(grad(mapped)(x), x * 20.0);
  expect_near(grad(shard_map(total, kMesh, {.in = {P("data", "model")}}))(x), x * 20.0);
  expect_near(grad([&](const Tensor& v) { return sum(checkpoint(f)(v)); })(x), x * 20.0);
}

TEST(ComposeErrors, Grad) {
  const Tensor x = ramp({3}), whole = iota({3}, 0);
  EXPECT_EQ(error_of([&] { grad([](const Tensor& v) { return v * v; })(x); }),
            "grad: the first result must be one real number, tensor<f32> or the like, and is "
            "tensor<3xf64>; use vjp for others");
  EXPECT_EQ(error_of([&] { grad([](const Tensor& v) { return sum(v); })(whole); }),
            "grad: the arguments hold no tensor of floats or complex numbers to differentiate by");
  EXPECT_THAT(error_of([&] { grad([](const Tensor& v) { return sum(v > 0.0); })(x); }),
              HasSubstr("tensor<i32>"));
  EXPECT_THAT(error_of([&] {
                jvp([](const Tensor& v) { return v; }, std::tuple(x), std::tuple(ramp({4})));
              }),
              AllOf(HasSubstr("tensor<4xf64>"), HasSubstr("tensor<3xf64>")));
  EXPECT_THAT(error_of([&] { vjp([](const Tensor& v) { return v * 2.0; })(x).second(ramp({4})); }),
              AllOf(HasSubstr("tensor<4xf64>"), HasSubstr("tensor<3xf64>")));
  EXPECT_THAT(error_of([&] { jacfwd([](const Tensor& v) { return v; })(whole); }),
              HasSubstr("Jacobian"));
  EXPECT_THAT(error_of([&] {
                grad([](const Tensor& v) { return sum(v).item() > 0 ? sum(v) : sum(v * v); })(x);
              }),
              HasSubstr("trace"));
  EXPECT_EQ(error_of([&] {
              jvp([](const Tensor& v) { return v; }, std::tuple(whole), std::tuple(whole));
            }),
            "jvp: no tangent of a tensor of floats or complex numbers is given");
  EXPECT_THAT(
      error_of([&] { compile([](const Tensor& v) { return sum(v).item() > 0 ? v : -v; })(x); }),
      AllOf(HasSubstr("inside a trace"), HasSubstr("look at it outside")));
  // Nothing depends on it: zeros, no error.
  expect_near(grad([](const Tensor& v) { return sum(zeros_like(v)); })(x), zeros({3}, DType::F64));
}

TEST(ComposeErrors, ShardMap) {
  const Tensor x = ramp({6, 4});
  const auto twice = [](const Tensor& v) { return v * 2.0; };
  EXPECT_THAT(error_of([&] { shard_map(twice, kMesh, {.in = {P("batch")}})(x); }),
              AllOf(HasSubstr("\"batch\""), HasSubstr("data")));
  EXPECT_THAT(error_of([&] { shard_map(twice, kMesh, {.in = {P({}, {}, "data")}})(x); }),
              HasSubstr("tensor<6x4"));
  EXPECT_THAT(error_of([&] { shard_map(twice, kMesh, {.in = {P("data", "data")}})(x); }),
              HasSubstr("data"));
  EXPECT_THAT(error_of([&] { shard_map(twice, kMesh, {.in = {}, .out = {P("batch")}})(x); }),
              HasSubstr("\"batch\""));
  EXPECT_THAT(error_of([&] {
                shard_map(twice, kMesh, {.in = {P(), P()}})(x);
              }),
              AllOf(HasSubstr("2 specs"), HasSubstr("1 argument")));
  EXPECT_THAT(error_of([&] {
                shard_map(twice, kMesh, {.in = {P()}, .out = {P(), P()}})(x);
              }),
              AllOf(HasSubstr("2 specs"), HasSubstr("1 result")));
  EXPECT_THAT(error_of([&] {
                shard_map(twice, kMesh,
                          {.in = {TreeSpec(std::map<std::string, PartitionSpec>{{"w", P()}})}})(x);
              }),
              HasSubstr("no such leaf"));
  const ShardMapOptions manual{.in = {P("data", {})}, .out = {P()}, .mode = ShardMapMode::Manual};
  EXPECT_THAT(error_of([&] { shard_map(twice, kMesh, manual)(x); }),
              AllOf(HasSubstr("may differ along axis \"data\""), HasSubstr("all_gather")));
  // A sum over the wrong axis is not the same along "data" either.
  EXPECT_THAT(error_of([&] {
                shard_map([](const Tensor& v) { return all_reduce(v, "model"); }, kMesh, manual)(x);
              }),
              HasSubstr("may differ along axis \"data\""));
  // Nor is what a branch or loop makes of the device's place.
  EXPECT_THAT(error_of([&] {
                shard_map(
                    [](const Tensor&) {
                      return fori_loop(
                          0, 2,
                          [](const Tensor&, const Tensor& h) {
                            return h + cast(axis_index("model"), DType::F64);
                          },
                          zeros({}, DType::F64));
                    },
                    kMesh, manual)(x);
              }),
              HasSubstr("may differ along axis"));
  EXPECT_THAT(error_of([&] {
                shard_map(twice, kMesh, manual)(ramp({5, 4}));
              }),
              HasSubstr("no multiple of its 2 shards"));
  EXPECT_THAT(error_of([&] {
                shard_map([](const Tensor& v) { return all_reduce(v, "batch"); }, kMesh, manual)(x);
              }),
              HasSubstr("batch"));
}

TEST(ComposeErrors, FlowAndVmap) {
  const Tensor x = ramp({3}), y = ramp({3, 4});
  const auto same = [](const Tensor& v) { return v; };
  EXPECT_EQ(error_of([&] { cond(x > 0.0, same, same, x); }),
            "cond: the condition must be one boolean, tensor<i1>");
  EXPECT_EQ(error_of([&] {
              cond(
                  sum(x) > 0.0, same, [](const Tensor& v) { return sum(v); }, x);
            }),
            "cond: one branch returns (tensor<3xf64>) and the other (tensor<f64>)");
  EXPECT_EQ(error_of([&] {
              scan(
                  [](const Tensor& c, const std::pair<Tensor, Tensor>&) { return std::pair(c, c); },
                  x, std::pair(y, ramp({5, 4})));
            }),
            "scan: inputs have 3 and 5 elements along dimension 0");
  EXPECT_EQ(error_of([&] {
              fori_loop(
                  0, 3, [](const Tensor&, const Tensor& h) { return sum(h); }, x);
            }),
            "while_loop: the body takes (tensor<i32>, tensor<3xf64>) and returns (tensor<i32>, "
            "tensor<f64>); they must be the same");
  EXPECT_THAT(error_of([&] {
                while_loop([](const Tensor& h) { return h > 0.0; },
                           [](const Tensor& h) { return h; }, x);
              }),
              HasSubstr("the condition returns (tensor<3xi1>)"));
  EXPECT_THAT(error_of([&] {
                scan([](const Tensor& c, const Tensor& r) { return std::pair(c + r, c); },
                     zeros({}, DType::F64), y);
              }),
              HasSubstr("scan: the body carries (tensor<f64>)"));
  EXPECT_THAT(error_of([&] { vmap([](const Tensor& v) { return sum(v); }, {.out = {1}})(y); }),
              AllOf(HasSubstr("vmap"), HasSubstr("1")));
  EXPECT_THAT(
      error_of([&] { vmap([](const Tensor& v) { return v; }, {.out = {std::nullopt}})(y); }),
      HasSubstr("vmap"));
  EXPECT_THAT(error_of([&] {
                grad([](const Tensor& v) {
                  return sum(while_loop([](const Tensor& h) { return sum(h) < 9.0; },
                                        [](const Tensor& h) { return h * 2.0; }, v));
                })(x * x + 1.0);
              }),
              AllOf(HasSubstr("stablehlo.while"), HasSubstr("scan")));
}

}  // namespace
}  // namespace cleave
