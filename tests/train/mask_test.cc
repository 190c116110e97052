#include <gtest/gtest.h>

#include "cleave/train/transformation.h"

namespace cleave::train {
namespace {

TEST(Mask, PatternsHaveStars) {
  EXPECT_TRUE(matches_pattern("*.norm", "layers[0].attention.norm"));
  EXPECT_TRUE(matches_pattern("*.norm", "norm"));
  EXPECT_FALSE(matches_pattern("*.norm", "layers[0].norm_bias"));
  EXPECT_FALSE(matches_pattern("*.b", "layers[0].wb"));
  EXPECT_TRUE(matches_pattern("layers[*].w", "layers[12].w"));
  EXPECT_FALSE(matches_pattern("layers[*].w", "layers[12].w2"));
  EXPECT_TRUE(matches_pattern("*", ""));
  EXPECT_TRUE(matches_pattern("a*b*c", "aXbYbZc"));
}

TEST(Mask, EverythingThatIsSaidMustHold) {
  const Tensor matrix = Tensor::from(Array::zeros(DType::F32, {2, 3}));
  const Tensor vector = Tensor::from(Array::zeros(DType::F32, {2}));
  EXPECT_TRUE(Mask{}.takes("w", vector));
  EXPECT_FALSE(Mask{.min_rank = 2}.takes("w", vector));
  EXPECT_TRUE((Mask{.only = {"w*"}, .except = {"*.w2"}}).takes("w1", matrix));
  EXPECT_FALSE((Mask{.only = {"w*"}, .except = {"*.w2"}}).takes("w2", matrix));
  EXPECT_FALSE(Mask{.only = {"w"}}.takes("v", matrix));
}

}  // namespace
}  // namespace cleave::train
