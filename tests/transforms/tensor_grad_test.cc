#include <gtest/gtest.h>

#include <cmath>

#include "cleave/autoshard/shard_map.h"
#include "cleave/core/error.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/transforms/flow.h"
#include "cleave/transforms/grad.h"

namespace cleave {
namespace {

Tensor doubles(Shape shape, const std::vector<double>& values) {
  return Tensor::from(DType::F64, std::move(shape), values);
}
Tensor ramp(Shape shape, double start = 0.1, double step = 0.07) {
  std::vector<double> values(static_cast<size_t>(num_elements(shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(start + step * static_cast<double>(i * i % 23));
  return doubles(std::move(shape), values);
}
Tensor total(const Tensor& x) { return sum(x); }

void expect_near(const Tensor& a, const Tensor& b, double tolerance = 1e-10) {
  ASSERT_EQ(a.shape(), b.shape());
  const auto x = a.to_vector<double>(), y = b.to_vector<double>();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], tolerance) << i;
}

struct Linear {
  Tensor w, b;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("w", w);
    v("b", b);
  }
};
struct Model {
  std::vector<Linear> layers;
  std::map<std::string, Tensor> scales;
  int heads = 2;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("layers", layers);
    v("scales", scales);
  }
};

Model small_model() {
  return {{{ramp({3, 4}), ramp({4}, 0.5)}, {ramp({4, 2}, 0.2), ramp({2}, 0.9)}},
          {{"out", ramp({2}, 1.1)}}};
}
Tensor apply(const Model& m, Tensor x) {
  for (const Linear& layer : m.layers) x = tanh(matmul(x, layer.w) + layer.b);
  return x * m.scales.at("out");
}
Tensor loss(const Model& m, const Tensor& x) { return total(square(apply(m, x))); }

// The derivative of f along one leaf by central differences.
template <typename F, typename T>
T by_differences(const F& f, const T& tree) {
  const std::vector<Tensor> all = leaves(tree);
  std::vector<Tensor> slopes;
  for (size_t l = 0; l < all.size(); ++l) {
    const auto values = all[l].to_vector<double>();
    std::vector<double> slope(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      double side[2];
      for (int s = 0; s < 2; ++s) {
        auto moved = values;
        moved[i] += s ? 1e-6 : -1e-6;
        auto changed = all;
        changed[l] = doubles(all[l].shape(), moved);
        side[s] = f(with_leaves(tree, changed)).item();
      }
      slope[i] = (side[1] - side[0]) / 2e-6;
    }
    slopes.push_back(doubles(all[l].shape(), slope));
  }
  return with_leaves(tree, slopes);
}

TEST(Trees, LeavesHaveNames) {
  EXPECT_EQ(leaf_names(small_model()),
            (std::vector<std::string>{"layers[0].w", "layers[0].b", "layers[1].w", "layers[1].b",
                                      "scales.out"}));
  EXPECT_THROW(with_leaves(small_model(), std::vector<Tensor>{}), UserError);
}

TEST(Trace, PrintsAndReplays) {
  const Model model = small_model();
  const Trace traced = trace(loss)(model, ramp({5, 3}));
  EXPECT_EQ(traced.arg_names.front(), "[0].layers[0].w");
  EXPECT_NE(traced.text().find("stablehlo.dot_general"), std::string::npos);
  std::vector<Tensor> args = leaves(model);
  args.push_back(ramp({5, 3}, 0.4));
  expect_near(traced(args)[0], loss(model, ramp({5, 3}, 0.4)));
}

TEST(Grad, OfATreeEqualsDifferences) {
  const Model model = small_model();
  const Tensor x = ramp({5, 3});
  const auto [value, g] = value_and_grad(loss)(model, x);
  expect_near(value, loss(model, x));
  const Model expected = by_differences([&](const Model& m) { return loss(m, x); }, model);
  const auto a = leaves(g), b = leaves(expected);
  for (size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i], 1e-7);
  const auto [gm, gx] = grad<0, 1>(loss)(model, x);
  expect_near(gm.layers[1].w, g.layers[1].w);
  expect_near(gx, by_differences([&](const Tensor& y) { return loss(model, y); }, x), 1e-7);
}

TEST(Grad, AuxComesAlong) {
  const auto f = [](const Tensor& x) { return std::make_pair(total(x * x), x * 3.0); };
  const Tensor x = ramp({4});
  const auto [g, aux] = grad(f)(x);
  expect_near(g, x * 2.0);
  expect_near(aux, x * 3.0);
  const auto [value, g2] = value_and_grad(f)(x);
  expect_near(value.second, x * 3.0);
}

TEST(Grad, Composes) {
  const auto f = [](const Tensor& x) { return total(sin(x) * x); };
  const Tensor x = ramp({3});
  const auto second = [&](const Tensor& y) { return total(grad(f)(y)); };
  expect_near(grad(second)(x), cos(x) * 2.0 - x * sin(x));
  const Tensor h = hessian(f)(x);
  ASSERT_EQ(h.shape(), (Shape{3, 3}));
  const auto diagonal = (cos(x) * 2.0 - x * sin(x)).to_vector<double>();
  const auto values = h.to_vector<double>();
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) EXPECT_NEAR(values[i * 3 + j], i == j ? diagonal[i] : 0, 1e-10);
}

TEST(Grad, JacobiansAgree) {
  const Tensor w = ramp({4, 3});
  const auto f = [&](const Tensor& x) { return tanh(matmul(w, x)); };
  const Tensor x = ramp({3, 2});
  const Tensor forward = jacfwd(f)(x), backward = jacrev(f)(x);
  ASSERT_EQ(forward.shape(), (Shape{4, 2, 3, 2}));
  expect_near(forward, backward);
}

TEST(Grad, VjpAndJvpAreTransposes) {
  const auto f = [](const Tensor& x, const Tensor& y) { return matmul(sin(x), y); };
  const Tensor x = ramp({2, 3}), y = ramp({3, 4}), u = ramp({2, 4}, 0.7);
  const Tensor vx = ramp({2, 3}, 0.8), vy = ramp({3, 4}, 0.3);
  const auto [value, pull] = vjp(f)(x, y);
  const auto [cx, cy] = pull(u);
  const auto [again, tangent] = jvp(f, std::make_tuple(x, y), std::make_tuple(vx, vy));
  expect_near(value, again);
  EXPECT_NEAR(total(tangent * u).item(), (total(cx * vx) + total(cy * vy)).item(), 1e-10);
}

TEST(Marks, StopGradientAndCheckpoint) {
  const Tensor x = ramp({3});
  const auto stopped = [](const Tensor& y) { return total(y * stop_gradient(y)); };
  expect_near(grad(stopped)(x), x);
  const auto inner = [](const Tensor& y) { return sin(exp(y)); };
  const auto kept = [&](const Tensor& y) { return total(inner(y)); };
  const auto again = [&](const Tensor& y) { return total(checkpoint(inner)(y)); };
  expect_near(grad(again)(x), grad(kept)(x));
  const Trace traced = trace(grad(again))(x);
  EXPECT_NE(traced.text().find("stablehlo.optimization_barrier"), std::string::npos);
  EXPECT_EQ(traced.text().find("cleave.checkpoint"), std::string::npos);
}

TEST(Marks, KeepSparesAProductOfACheckpoint) {
  const Tensor x = ramp({2, 3}), w = ramp({3, 3});
  const auto count = [](const std::string& text, const std::string& what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++found;
    return found;
  };
  const auto with = [&](auto mark) {
    const auto inner = [mark](const Tensor& a, const Tensor& b) {
      return sin(exp(mark(matmul(a, b))));
    };
    return [inner](const Tensor& a, const Tensor& b) { return total(checkpoint(inner)(a, b)); };
  };
  const auto all = with([](const Tensor& y) { return y; });
  const auto some = with([](const Tensor& y) { return keep(y); });
  const auto [gx, gw] = grad<0, 1>(all)(x, w);
  const auto [kx, kw] = grad<0, 1>(some)(x, w);
  expect_near(kx, gx);
  expect_near(kw, gw);
  // Forward, and one product for each of two cotangents; without `keep` the forward one again.
  const std::string again = trace(value_and_grad<0, 1>(all))(x, w).text();
  const std::string kept = trace(value_and_grad<0, 1>(some))(x, w).text();
  EXPECT_EQ(count(kept, "cleave.keep"), 0u);
  EXPECT_EQ(count(kept, "stablehlo.optimization_barrier"), 1u);
  EXPECT_GE(count(again, "stablehlo.dot_general"), 4u);
}

TEST(Marks, CustomVjp) {
  const auto f = custom_vjp([](const Tensor& x) { return x * x; },
                            [](const Tensor& x) { return std::make_pair(x * x, x); },
                            [](const Tensor& x, const Tensor& ct) { return ct * x * 10.0; });
  const Tensor x = ramp({3});
  expect_near(f(x), x * x);
  expect_near(grad([&](const Tensor& y) { return total(f(y)); })(x), x * 10.0);
  const Tensor outside = ramp({3});
  const auto bad = custom_vjp([](const Tensor& y) { return y; },
                              [](const Tensor& y) { return std::make_pair(y, y); },
                              [&](const Tensor&, const Tensor& ct) { return ct * outside; });
  EXPECT_THROW(bad(x).to_host(), UserError);
}

TEST(Flow, CondInBothDirections) {
  const auto f = [](const Tensor& x) {
    return cond(
        total(x) > 0.0, [](const Tensor& y) { return total(sin(y)); },
        [](const Tensor& y) { return total(y * y); }, x);
  };
  const Tensor up = ramp({3}), down = ramp({3}) * -1.0;
  expect_near(f(up), total(sin(up)));
  expect_near(grad(f)(up), cos(up));
  expect_near(grad(f)(down), down * 2.0);
}

TEST(Flow, LoopsAndScans) {
  const Tensor x = ramp({2, 2}), w = ramp({2, 2}, 0.4);
  const auto loop = [&](const Tensor& y) {
    return total(fori_loop(
        0, 3, [&](const Tensor&, const Tensor& h) { return tanh(matmul(h, w)); }, y));
  };
  const auto unrolled = [&](const Tensor& y) {
    Tensor h = y;
    for (int i = 0; i < 3; ++i) h = tanh(matmul(h, w));
    return total(h);
  };
  expect_near(loop(x), unrolled(x));
  expect_near(grad(loop)(x), grad(unrolled)(x));
  const auto scanned = [&](const Tensor& y) {
    const auto [h, ys] = scan(
        [&](const Tensor& c, const Tensor& row) {
          const Tensor next = tanh(matmul(c, w) + row);
          return std::make_pair(next, next * 2.0);
        },
        zeros({2}, DType::F64), y);
    return total(h) + total(ys);
  };
  const Tensor rows = ramp({4, 2});
  expect_near(grad(scanned)(rows), by_differences(scanned, rows), 1e-7);
  const auto while_form = [](const Tensor& y) {
    return while_loop([](const Tensor& h) { return total(h) < 100.0; },
                      [](const Tensor& h) { return h * 2.0; }, y);
  };
  expect_near(while_form(doubles({1}, {3.0})), doubles({1}, {192.0}));
  const auto pushed =
      jvp(while_form, std::make_tuple(doubles({1}, {3.0})), std::make_tuple(doubles({1}, {1.0})));
  expect_near(pushed.second, doubles({1}, {64.0}));
}

TEST(ShardMap, AutoEqualsWhole) {
  const Mesh mesh{{"data", 2}, {"model", 2}};
  const Model model = small_model();
  const Tensor x = ramp({5, 3});
  const auto step =
      shard_map(value_and_grad(loss), mesh,
                {.in = {TreeSpec(std::map<std::string, PartitionSpec>{
                            {"layers[0].w", P({}, "model")}, {"layers[1].w", P("model", {})}}),
                        P("data", {})}});
  const auto [value, g] = step(model, x);
  const auto [plain, expected] = value_and_grad(loss)(model, x);
  expect_near(value, plain);
  const auto a = leaves(g), b = leaves(expected);
  for (size_t i = 0; i < a.size(); ++i) expect_near(a[i], b[i]);
}

TEST(ShardMap, ManualWithCollectivesAndItsGradient) {
  const Mesh mesh{{"data", 2}, {"model", 3}};
  const ShardMapOptions options{
      .in = {P("data", {}), P()}, .out = {P()}, .mode = ShardMapMode::Manual};
  const auto local = [](const Tensor& x, const Tensor& w) {
    return all_reduce(total(tanh(matmul(x, w))), "data");
  };
  const auto whole = [](const Tensor& x, const Tensor& w) { return total(tanh(matmul(x, w))); };
  const Tensor x = ramp({4, 3}), w = ramp({3, 2});
  const auto mapped = shard_map(local, mesh, options);
  expect_near(mapped(x, w), whole(x, w));
  const auto [gx, gw] = grad<0, 1>(mapped)(x, w);
  const auto [ex, ew] = grad<0, 1>(whole)(x, w);
  expect_near(gx, ex);
  expect_near(gw, ew);
}

TEST(ShardMap, FindsResultsThatAreNotReplicated) {
  const Mesh mesh{{"data", 2}};
  const ShardMapOptions options{.in = {P("data")}, .out = {P()}, .mode = ShardMapMode::Manual};
  const auto bad = shard_map([](const Tensor& x) { return total(x); }, mesh, options);
  try {
    bad(ramp({4}));
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("may differ along axis \"data\""), std::string::npos);
  }
}

}  // namespace
}  // namespace cleave
