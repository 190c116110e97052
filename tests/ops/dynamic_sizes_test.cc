#include <gtest/gtest.h>

#include "tests/ops/module_harness.h"

// Ops whose declared sizes are dynamic take those of the arrays at hand.
namespace cleave {
namespace {

TEST(DynamicSizes, Broadcast) {
  const Module m(R"(func.func @main(%x: tensor<?xf32>) -> tensor<2x?xf32> {
    %0 = "stablehlo.broadcast"(%x) {broadcast_sizes = array<i64: 2>} : (tensor<?xf32>) -> tensor<2x?xf32>
    return %0 : tensor<2x?xf32>
  })");
  const Array y = m.run({make<float>(DType::F32, {3}, {1, 2, 3})})[0];
  EXPECT_EQ(y.shape(), (Shape{2, 3}));
  EXPECT_EQ(values<float>(y), (std::vector<float>{1, 2, 3, 1, 2, 3}));
}

TEST(DynamicSizes, TorchIndexSelect) {
  const Module m(
      R"(func.func @main(%x: tensor<?x2xf32>, %i: tensor<?xi32>) -> tensor<?x2xf32> {
    %0 = "stablehlo.torch_index_select"(%x, %i) <{dim = 0 : i64, batch_dims = 0 : i64}> : (tensor<?x2xf32>, tensor<?xi32>) -> tensor<?x2xf32>
    return %0 : tensor<?x2xf32>
  })");
  const Array y = m.run({make<float>(DType::F32, {3, 2}, {1, 2, 3, 4, 5, 6}),
                         make<int32_t>(DType::I32, {2}, {2, 0})})[0];
  EXPECT_EQ(y.shape(), (Shape{2, 2}));
  EXPECT_EQ(values<float>(y), (std::vector<float>{5, 6, 1, 2}));
}

// The sizes of a dynamic_gather may be of any integer type.
TEST(DynamicSizes, GatherWithUnsignedSizes) {
  const Module m(
      R"(func.func @main(%x: tensor<4xf32>, %i: tensor<2x1xi32>, %s: tensor<1xui32>) -> tensor<2x?xf32> {
    %0 = "stablehlo.dynamic_gather"(%x, %i, %s) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>}> : (tensor<4xf32>, tensor<2x1xi32>, tensor<1xui32>) -> tensor<2x?xf32>
    return %0 : tensor<2x?xf32>
  })");
  const Array y =
      m.run({make<float>(DType::F32, {4}, {1, 2, 3, 4}), make<int32_t>(DType::I32, {2, 1}, {0, 2}),
             make<uint32_t>(DType::U32, {1}, {2})})[0];
  EXPECT_EQ(values<float>(y), (std::vector<float>{1, 2, 3, 4}));
}

// A padding beyond any tensor is the user's error, not an overflow.
TEST(DynamicSizes, ConvolutionWithAbsurdPadding) {
  const Module m(
      R"(func.func @main(%x: tensor<1x4x1xf32>, %k: tensor<2x1x1xf32>, %p: tensor<1x2xi64>) -> tensor<1x?x1xf32> {
    %0 = "stablehlo.dynamic_conv"(%x, %k, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, f]x[0, i, o]->[b, 0, f]>, feature_group_count = 1 : i64}> : (tensor<1x4x1xf32>, tensor<2x1x1xf32>, tensor<1x2xi64>) -> tensor<1x?x1xf32>
    return %0 : tensor<1x?x1xf32>
  })");
  const Array x = make<float>(DType::F32, {1, 4, 1}, {1, 2, 3, 4});
  const Array k = make<float>(DType::F32, {2, 1, 1}, {1, 1});
  EXPECT_EQ(values<float>(m.run({x, k, make<int64_t>(DType::I64, {1, 2}, {0, 0})})[0]),
            (std::vector<float>{3, 5, 7}));
  EXPECT_THROW(m.run({x, k, make<int64_t>(DType::I64, {1, 2}, {INT64_MIN, 0})}), UserError);
}

}  // namespace
}  // namespace cleave
