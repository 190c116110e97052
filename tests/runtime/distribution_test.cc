#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "cleave/runtime/compare.h"
#include "cleave/transforms.h"
#include "tensor_cases.h"
#include "tests/support/error_of.h"

// Distributions: the same numbers in every layout, and means and variances that fit. With
// CLEAVE_DUMP, samples are written for tests/reference/test_tensor_ops.py, which compares their
// distributions with SciPy's.
namespace cleave {
namespace {

struct Distribution {
  const char* name;
  Tensor (*draw)(const Tensor& key, const Shape& shape);
  double mean, variance;
};

const std::vector<Distribution>& distributions() {
  using Key = const Tensor&;
  using S = const Shape&;
  static const std::vector<Distribution> list{
      {"uniform", [](Key k, S s) { return uniform(k, s); }, 0.5, 1.0 / 12},
      {"normal", [](Key k, S s) { return normal(k, s); }, 0, 1},
      {"truncated_normal", [](Key k, S s) { return truncated_normal(k, -1, 2, s); }, 0.2296,
       0.5197},
      {"rademacher", [](Key k, S s) { return rademacher(k, s); }, 0, 1},
      {"gumbel", [](Key k, S s) { return gumbel(k, s); }, 0.57722, 1.64493},
      {"exponential", [](Key k, S s) { return exponential(k, s); }, 1, 1},
      {"laplace", [](Key k, S s) { return laplace(k, s); }, 0, 2},
      {"logistic", [](Key k, S s) { return logistic(k, s); }, 0, 3.28987},
      {"gamma_half", [](Key k, S s) { return gamma(k, 0.5, s); }, 0.5, 0.5},
      {"gamma_seven", [](Key k, S s) { return gamma(k, 7, s); }, 7, 7},
      {"beta", [](Key k, S s) { return beta(k, 2, 0.5, s); }, 0.8, 0.16 / 3.5},
      {"chi_square", [](Key k, S s) { return chi_square(k, 3, s); }, 3, 6},
      {"student_t", [](Key k, S s) { return student_t(k, 9, s); }, 0, 9.0 / 7},
      {"poisson_two", [](Key k, S s) { return poisson(k, 2.5, s); }, 2.5, 2.5},
      {"poisson_forty", [](Key k, S s) { return poisson(k, 40.5, s); }, 40.5, 40.5},
      {"bernoulli",
       [](Key k, S s) { return cast(bernoulli(k, s, full({}, 0.3, DType::F32)), DType::F32); }, 0.3,
       0.21},
      {"categorical",
       [](Key k, S s) {
         return categorical(k, log(tensor({0.1, 0.2, 0.7})), s);
       },
       1.6, 0.44},
      {"choice",
       [](Key k, S s) {
         return reshape(choice(k, tensor({1.0, 2.0, 5.0}), num_elements(s),
                               {.weights = tensor({1.0, 2.0, 1.0})}),
                        s);
       },
       2.5, 2.25},
      {"cauchy", [](Key k, S s) { return cauchy(k, s); }, NAN, NAN},
  };
  return list;
}

TEST(Distributions, have_their_moments) {
  const double count = 40000;
  for (const Distribution& each : distributions()) {
    const Tensor x = cast(each.draw(random_key(5), {200, 200}), DType::F64);
    if (const char* folder = std::getenv("CLEAVE_DUMP"))
      x.save(std::filesystem::path(folder) / fmt::format("drawn_{}.npy", each.name));
    if (std::isnan(each.mean)) continue;
    EXPECT_NEAR(mean(x).item(), each.mean, 5 * std::sqrt(each.variance / count)) << each.name;
    EXPECT_NEAR(var(x).item() / each.variance, 1, 0.06) << each.name;
  }
}

TEST(Distributions, are_the_same_in_every_layout) {
  const Mesh mesh{{"x", 2}, {"y", 3}};
  for (const Distribution& each : distributions())
    for (const PartitionSpec& spec : {P("x"), P({}, "y"), P({"y", "x"}, {}), P("y", "x")}) {
      const Shape shape{7, 5};
      const Tensor plain = each.draw(random_key(3), shape);
      const Tensor split = each.draw(random_key(3), shape).shard(mesh, spec);
      EXPECT_TRUE(compare(split.to_host(), plain.to_host(), 0).same) << each.name;
      const Tensor key = random_key(3).shard(mesh, P({}));
      EXPECT_TRUE(compare(each.draw(key, shape).to_host(), plain.to_host(), 0).same) << each.name;
    }
}

TEST(Distributions, take_parameters_that_are_sharded) {
  const Mesh mesh{{"x", 2}, {"y", 3}};
  const Tensor key = random_key(8), a = exp(normal(random_key(1), {7, 5}) * 2);
  const Tensor split = a.shard(mesh, P("y", "x"));
  auto same = [&](auto draw) {
    EXPECT_TRUE(compare(draw(split).to_host(), draw(a).to_host(), 100).same);
  };
  same([&](const Tensor& p) { return gamma(key, p, {7, 5}); });
  same([&](const Tensor& p) { return beta(key, p, 1.5, {4, 7, 5}); });
  same([&](const Tensor& p) { return poisson(key, p * 5, {7, 5}); });
  same([&](const Tensor& p) { return dirichlet(key, p, {3}); });
  same([&](const Tensor& p) { return categorical(key, p); });
  same([&](const Tensor& p) { return categorical(key, p, {2}, 0); });
  EXPECT_EQ(categorical(key, a, {2}, 0).shape(), (Shape{2, 5}));
  EXPECT_EQ(dirichlet(key, a, {3}).shape(), (Shape{3, 7, 5}));
  for (float each : sum(dirichlet(key, a * 0.01), {-1}).to_vector<float>())
    EXPECT_NEAR(each, 1, 1e-5);
}

TEST(Distributions, permute_and_choose) {
  const Tensor key = random_key(2);
  const auto order = permutation(key, 50).to_vector<int32_t>();
  EXPECT_EQ(std::set<int32_t>(order.begin(), order.end()).size(), 50u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  const Tensor x = reshape(arange(60), {3, 20});
  const Tensor moved = permutation(key, x, 1);
  EXPECT_EQ(sort(moved, 1).to_vector<int32_t>(), x.to_vector<int32_t>());
  for (const ChoiceOptions& options :
       {ChoiceOptions{.replace = false},
        ChoiceOptions{.replace = false, .weights = arange(1.0, 21.0)}}) {
    const auto some = choice(key, arange(20), 12, options).to_vector<int32_t>();
    EXPECT_EQ(std::set<int32_t>(some.begin(), some.end()).size(), 12u);
  }
  EXPECT_EQ(choice(key, x, 7).shape(), (Shape{7, 20}));
}

TEST(Distributions, let_derivatives_through_location_and_scale) {
  const Tensor key = random_key(4);
  const auto slope = grad([&](const Tensor& s) { return sum(gumbel(key, {6}) * s); })(ones({}));
  EXPECT_NEAR(slope.item(), sum(gumbel(key, {6})).item(), 1e-4);
}

// The derivative of a sample is -F_a / F_z; tests/reference/test_tensor_ops.py compares it with
// JAX's. Its mean is that of the mean's derivative.
TEST(Distributions, let_derivatives_through_the_parameter_of_gamma) {
  const Tensor key = random_key(7), a = exp(linspace(-7, 9.5, 600, DType::F64));
  const auto f = [&](const Tensor& p) { return gamma(key, p, {600}, DType::F64); };
  const Tensor slope = grad([&](const Tensor& p) { return sum(f(p)); })(a);
  if (const char* folder = std::getenv("CLEAVE_DUMP")) {
    const std::filesystem::path to = folder;
    a.save(to / "gamma_slope_parameter.npy");
    f(a).save(to / "gamma_slope_sample.npy");
    slope.save(to / "gamma_slope_slope.npy");
  }
  const Tensor forward = jvp(f, std::tuple(a), std::tuple(ones({600}, DType::F64))).second;
  EXPECT_TRUE(compare(forward.to_host(), slope.to_host(), 1000).same);
  const Mesh mesh{{"x", 3}};
  const Tensor split = grad([&](const Tensor& p) { return sum(f(p)); })(a.shard(mesh, P("x")));
  EXPECT_TRUE(compare(split.to_host(), slope.to_host(), 1000).same);
  EXPECT_TRUE(compare(compile(f)(a).to_host(), f(a).to_host(), 1000).same);

  auto mean_slope = [&](auto draw, double at) {
    return grad([&](const Tensor& p) { return mean(draw(p)); })(full({}, at, DType::F32)).item();
  };
  const Shape many{40000};
  EXPECT_NEAR(mean_slope([&](const Tensor& p) { return gamma(key, p, many); }, 0.3), 1, 0.03);
  EXPECT_NEAR(mean_slope([&](const Tensor& p) { return gamma(key, p, many); }, 30), 1, 0.03);
  EXPECT_NEAR(mean_slope([&](const Tensor& p) { return chi_square(key, p, many); }, 3), 1, 0.03);
  // a / (a + b) by a
  EXPECT_NEAR(mean_slope([&](const Tensor& p) { return beta(key, p, 0.5, many); }, 2), 0.08, 0.005);
}

TEST(Distributions, refuse_what_means_nothing) {
  const Tensor key = random_key(1);
  EXPECT_EQ(error_of([&] { truncated_normal(key, 2, 1, {3}); }),
            "truncated_normal: no numbers between 2 and 1");
  EXPECT_EQ(error_of([&] { gumbel(key, {3}, DType::I32); }),
            "gumbel: i32 is not a float; cast the result");
  EXPECT_EQ(error_of([&] { gamma(key, ones({4}), {3}); }).substr(0, 42),
            "gamma: shapes <4> and <3> do not broadcast");
  EXPECT_EQ(error_of([&] { choice(key, arange(3), 4, {.replace = false}); }),
            "choice: 4 elements of 3 without replacement");
  EXPECT_EQ(error_of([&] { permutation(key, -1); }), "permutation: of -1 numbers");
}

}  // namespace
}  // namespace cleave
