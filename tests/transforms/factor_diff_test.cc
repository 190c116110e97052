#include <gtest/gtest.h>

#include <algorithm>

#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/tensor_checks.h"

// Derivatives of factors of matrices that JAX has not, against differences of values.
namespace cleave {
namespace {

Tensor some(int64_t rows, int64_t columns) {
  return ramp({rows, columns}, 0.4) + eye(rows, columns, DType::F64);
}

// d/dt f(x + t v) at 0, by central differences.
template <typename F>
Tensor slope(const F& f, const Tensor& x, const Tensor& v) {
  return (f(x + v * 1e-5) - f(x - v * 1e-5)) * (1 / 2e-5);
}

template <typename F>
void expect_derivative(const F& f, const Tensor& x) {
  const Tensor v = ramp(x.shape(), 1.3);
  expect_near(jvp(f, std::make_tuple(x), std::make_tuple(v)).second, slope(f, x, v), 1e-6);
  const auto gradient = grad(f);
  const auto along = [&](const Tensor& y) { return sum(gradient(y) * v); };
  expect_near(sum(gradient(x) * v), slope(f, x, v), 1e-6);
  expect_near(sum(grad(along)(x) * v), slope(along, x, v), 1e-4);
}

Tensor weighted(const Tensor& x) { return sum(x * ramp(x.shape(), 2.1)); }

TEST(FactorDerivatives, OfQrForAllShapesAndToTheSecondOrder) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{5, 3}, {4, 4}, {3, 5}})
    expect_derivative(
        [](const Tensor& x) {
          const Qr parts = qr(x);
          return weighted(parts.q) + weighted(parts.r);
        },
        some(rows, columns));
}

TEST(FactorDerivatives, OfSolutionsToTheSecondOrder) {
  expect_derivative([](const Tensor& x) { return weighted(solve(x, ramp({4, 2}))); }, some(4, 4));
  expect_derivative([](const Tensor& x) { return det(x) + slogdet(x).logabs; }, some(4, 4));
}

TEST(FactorDerivatives, FactorsOfSingularMatricesInATraceAreThoseOfLapack) {
  const Tensor x = stack({zeros({3, 3}, DType::F64), ramp({3, 1}) * ramp({3}), some(3, 3)});
  const auto both = [](const Tensor& a) {
    const Qr parts = qr(a);
    return std::make_pair(parts.q, parts.r);
  };
  const auto [q, r] = vmap(both)(x);
  const Qr plain = qr(x);
  expect_near(q, plain.q);
  expect_near(r, plain.r);
}

TEST(FactorDerivatives, OfCholeskyFactors) {
  expect_derivative(
      [](const Tensor& x) {
        return weighted(tril(cholesky(matmul(x, transpose(x)) + eye(4, {}, DType::F64))));
      },
      some(4, 4));
}

TEST(FactorDerivatives, BatchesOfMatricesAreSolvedWhereTheyLie) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const Tensor a = (ramp({8, 3, 3}) + eye(3, {}, DType::F64) * 4).shard(mesh, P({"x", "y"}));
  const Tensor b = ramp({8, 3}).shard(mesh, P({"x", "y"}));
  const auto loss = [](const Tensor& m, const Tensor& v) {
    return solve(m, v) * det(m) + svd(m).s + eigh(m).values + matmul(qr(m).q, v);
  };
  CommLog log;
  const Tensor all = vmap(loss)(a, b);
  all.evaluate();
  const Tensor slopes =
      grad([&](const Tensor& m, const Tensor& v) { return sum(vmap(loss)(m, v)); })(a, b);
  slopes.evaluate();
  inv(a).evaluate();
  EXPECT_EQ(to_string(log), "");
  EXPECT_EQ(to_string(slopes.sharding()), R"([{"x", "y"}, {}, {}])");
}

TEST(FactorDerivatives, GradientsOfQrAreFewOps) {
  const Tensor x = some(64, 64);
  const auto both = trace([](const Tensor& a) {
    return grad([](const Tensor& y) { return weighted(qr(y).q); })(a);
  })(x);
  const std::string text = both.text();
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 400);
}

}  // namespace
}  // namespace cleave
