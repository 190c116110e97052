#include <gtest/gtest.h>

#include "cleave/runtime/compare.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/support/error_of.h"
#include "tests/support/tensor_checks.h"

// scan by length, and scans of associative functions.
namespace cleave {
namespace {

TEST(ScanForms, RunsWithoutInputs) {
  const Tensor x = ramp({3});
  const auto [last, all] =
      scan([](const Tensor& carry) { return std::make_pair(carry * 2, carry + 1); }, x, 4);
  expect_near(last, x * 16);
  expect_near(all, stack({x + 1, x * 2 + 1, x * 4 + 1, x * 8 + 1}));
  const auto counted =
      scan([](const Tensor& carry,
              const Tensor& i) { return std::make_pair(carry + cast(i, DType::F64), i); },
           x, 5, true);
  expect_near(counted.first, x + 10);
  EXPECT_EQ(counted.second.to_vector<int32_t>(), (std::vector<int32_t>{0, 1, 2, 3, 4}));
  const Tensor slope = grad([](const Tensor& y) {
    return sum(scan([](const Tensor& c) { return std::make_pair(c * c, c); }, y, 3).first);
  })(x);
  expect_near(slope, pow(x, 7) * 8);
}

const auto product = [](const Tensor& a, const Tensor& b) { return a * b; };

TEST(ScanForms, AssociativeScanIsARunningProduct) {
  for (int64_t n : {0, 1, 2, 3, 4, 5, 8, 13}) {
    const Tensor x = ramp({2, n}) + 1.5;
    expect_near(associative_scan(product, x, 1), cumprod(x, 1), 1e-9);
    expect_near(associative_scan(product, x, -1, true), cumprod(x, 1, true), 1e-9);
  }
}

// y[i] = a[i] y[i - 1] + b[i]
using Pair = std::pair<Tensor, Tensor>;
Tensor recurrence(const Tensor& a, const Tensor& b) {
  const auto combine = [](const Pair& x, const Pair& y) {
    return Pair{x.first * y.first, y.first * x.second + y.second};
  };
  return associative_scan(combine, Pair{a, b}).second;
}

TEST(ScanForms, AssociativeScanTakesTreesGradientsAndLayouts) {
  const Tensor a = ramp({11, 3}), b = ramp({11, 3}, 0.7);
  const auto by_steps = [](const Tensor& p, const Tensor& q) {
    return scan(
               [](const Tensor& y, const Pair& x) {
                 const Tensor next = x.first * y + x.second;
                 return Pair{next, next};
               },
               zeros({3}, DType::F64), Pair{p, q})
        .second;
  };
  expect_near(recurrence(a, b), by_steps(a, b));
  const auto slopes = grad<0, 1>(
      [](const Tensor& p, const Tensor& q) { return sum(square(recurrence(p, q))); })(a, b);
  const auto expected = grad<0, 1>(
      [&](const Tensor& p, const Tensor& q) { return sum(square(by_steps(p, q))); })(a, b);
  expect_near(std::get<0>(slopes), std::get<0>(expected));
  expect_near(std::get<1>(slopes), std::get<1>(expected));
  const Mesh mesh{{"x", 2}, {"y", 3}};
  for (const PartitionSpec& spec : {P("x"), P("y", "x"), P({"x", "y"})})
    expect_near(recurrence(a.shard(mesh, spec), b.shard(mesh, spec)), recurrence(a, b));
  const Tensor batched = vmap(recurrence)(stack({a, b}), stack({b, a}));
  expect_near(batched, stack({recurrence(a, b), recurrence(b, a)}));
}

TEST(ScanForms, RefuseWhatDoesNotFit) {
  EXPECT_EQ(error_of([] {
              associative_scan([](const Pair& x, const Pair&) { return x; },
                               Pair{zeros({3}), zeros({4})});
            }),
            "associative_scan: tensor<3> and tensor<4> differ along dimension 0");
}

}  // namespace
}  // namespace cleave
