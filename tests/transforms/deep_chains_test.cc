#include <gtest/gtest.h>

#include <cmath>

#include "cleave/tensors.h"
#include "cleave/transforms.h"

// Long chains of ops: nothing recurses along them, and each op costs the same in a graph of any
// size.
namespace cleave {
namespace {

constexpr int kDepth = 4000;

Tensor chain(const Tensor& x) {
  Tensor y = x;
  for (int i = 0; i < kDepth; ++i) y = i % 2 ? y * 2.0 : y * 0.5;
  return sum(y);
}

TEST(DeepChains, recorded_and_dropped) {
  Tensor y = ones({2});
  for (int i = 0; i < 10 * kDepth; ++i) y = y + 1;
  EXPECT_EQ(sum(y).item(), 2 * (10 * kDepth + 1));
  for (int i = 0; i < 10 * kDepth; ++i) y = y + 1;  // never looked at
}

TEST(DeepChains, derived_batched_and_compiled) {
  EXPECT_EQ(sum(grad(chain)(ones({3}))).item(), 3);
  EXPECT_EQ(sum(vmap(chain)(ones({3, 2}))).item(), 6);
  EXPECT_EQ(compile(chain)(ones({3})).item(), 3);
  EXPECT_EQ(sum(compile(grad(chain))(ones({3}))).item(), 3);
}

TEST(DeepChains, many_tensors_in_one_op) {
  std::vector<Tensor> all;
  for (int i = 0; i < kDepth; ++i) all.push_back(full({2}, i, DType::F32));
  const double total = kDepth * (kDepth - 1.0);
  EXPECT_EQ(sum(stack(all), {0}).shape(), Shape{2});
  EXPECT_EQ(sum(cast(stack(all), DType::F64)).item(), total);
  EXPECT_EQ(sum(cast(concat(all, 0), DType::F64)).item(), total);
}

}  // namespace
}  // namespace cleave
