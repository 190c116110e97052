#include <gtest/gtest.h>

#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "cleave/transforms/derivative_cache.h"

// Recordings of very many ops: nothing that visits or frees them may recurse.
namespace cleave {
namespace {

constexpr int64_t kMany = 1000000;

TEST(DeepGraph, AChainOfAMillionAdds) {
  const Tensor one = ones({2}).evaluate();
  Tensor x = one;
  for (int64_t i = 0; i < kMany; ++i) x = x + one;
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(2, static_cast<float>(kMany + 1)));
}

TEST(DeepGraph, AChainThatIsNeverRead) {
  const Tensor one = ones({2}).evaluate();
  Tensor x = one;
  for (int64_t i = 0; i < kMany; ++i) x = x + one;
  x = one;  // frees it
  EXPECT_EQ(x.to_vector<float>()[0], 1);
}

TEST(DeepGraph, ATreeOfAMillionAdds) {
  std::vector<Tensor> level(kMany, ones({2}).evaluate());
  while (level.size() > 1) {
    std::vector<Tensor> next;
    for (size_t i = 0; i + 1 < level.size(); i += 2) next.push_back(level[i] + level[i + 1]);
    if (level.size() % 2) next.push_back(level.back());
    level = std::move(next);
  }
  EXPECT_EQ(level[0].to_vector<float>(), std::vector<float>(2, static_cast<float>(kMany)));
}

TEST(DeepGraph, TheGradientOfAHundredThousandOps) {
  constexpr int64_t kLength = kMany / 10;
  const auto f = [](const Tensor& t) {
    Tensor y = t;
    for (int64_t i = 0; i < kLength; ++i) y = y + t;
    return sum(y);
  };
  EXPECT_EQ(grad(f)(ones({2})).to_vector<float>(),
            std::vector<float>(2, static_cast<float>(kLength + 1)));
}

// What is derived from many different functions is not kept for ever: the first is derived again.
TEST(DeepGraph, TheCacheOfDerivativesIsBounded) {
  const auto power = [](int n) {
    return [n](const Tensor& t) {
      Tensor y = t;
      for (int i = 0; i < n; ++i) y = y * t;
      return sum(y);
    };
  };
  const Tensor x = ones({2}).evaluate();
  for (int n = 1; n <= 100; ++n) grad(power(n))(x);
  const DerivativeCacheStats before = derivative_cache_stats();
  grad(power(100))(x);
  EXPECT_EQ(derivative_cache_stats().hits, before.hits + 1);
  grad(power(1))(x);
  EXPECT_EQ(derivative_cache_stats().misses, before.misses + 1);
}

}  // namespace
}  // namespace cleave
