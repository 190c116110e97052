#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "cleave/core/error.h"
#include "tests/ops/op_harness.h"

namespace cleave {
namespace {

using testing::HasSubstr;

bool carries(const PartialTransfer& rows, ReduceOp in, std::vector<bool> operands, ReduceOp out) {
  for (const PartialRow& row : rows)
    if (row == PartialRow{in, operands, out}) return true;
  return false;
}

TEST(ElementwiseOps, InferKeepsTheMostStaticShape) {
  const OneOp op("stablehlo.add", {f32({2, kDynamicSize}), f32({kDynamicSize, 3})}, {});
  EXPECT_EQ(op.infer()[0], f32({2, 3}));
}

TEST(ElementwiseOps, ErrorsNameOpAndTypes) {
  EXPECT_EQ(error_of([] {
              OneOp("stablehlo.add", {f32({2}), f32({3})}, {}).infer();
            }),
            "stablehlo.add: operands must have one type, got tensor<2xf32>, tensor<3xf32>");
  EXPECT_EQ(error_of([] { OneOp("stablehlo.sine", {i64({2})}, {}).infer(); }),
            "stablehlo.sine: is defined on float, complex elements, got tensor<2xi64>");
  EXPECT_EQ(error_of([] {
              OneOp("stablehlo.exponential", {f32({2}), f32({2})}, {}).infer();
            }),
            "stablehlo.exponential: takes 1 operand(s), got 2");
  EXPECT_THAT(
      error_of([] {
        OneOp("stablehlo.compare", {tensor(DType::C64, {1}), tensor(DType::C64, {1})}, {},
              attrs({{"comparison_direction", EnumAttr{"stablehlo.comparison_direction", "LT"}}}))
            .infer();
      }),
      HasSubstr("EQ and NE alone"));
  EXPECT_THAT(error_of([] {
                OneOp("stablehlo.select", {f32({2}), f32({2}), f32({2})}, {}).infer();
              }),
              HasSubstr("operand 0 must be i1"));
  EXPECT_THAT(error_of([] {
                OneOp("stablehlo.bitcast_convert", {f32({3})}, {tensor(DType::F64, {})}).infer();
              }),
              HasSubstr("must be 2"));
}

TEST(ElementwiseOps, ResultTypesFollow) {
  EXPECT_EQ(OneOp("stablehlo.abs", {tensor(DType::C64, {2})}, {}).infer()[0], f32({2}));
  EXPECT_EQ(OneOp("stablehlo.complex", {f32({2}), f32({2})}, {}).infer()[0],
            tensor(DType::C64, {2}));
  EXPECT_EQ(OneOp("stablehlo.is_finite", {f32({2})}, {}).infer()[0], tensor(DType::Bool, {2}));
}

TEST(ElementwiseOps, ScalarsBesideTensorsTakeNoPartInRules) {
  const OneOp op("stablehlo.clamp", {f32({}), f32({2, 4}), f32({})}, {f32({2, 4})});
  EXPECT_EQ(text(op.rule()), ",a b,->a b a=2 b=4");
  const OneOp cast("stablehlo.bitcast_convert", {tensor(DType::U32, {4})},
                   {tensor(DType::U8, {4, 4})});
  EXPECT_EQ(text(cast.rule()), "a->a b a=4 b=4n");
}

TEST(ElementwiseOps, PartialTransferFollowsAlgebra) {
  const auto add = OneOp("stablehlo.add", {f32({2}), f32({2})}, {f32({2})}).partial();
  EXPECT_TRUE(carries(add, ReduceOp::Sum, {true, true}, ReduceOp::Sum));
  EXPECT_FALSE(carries(add, ReduceOp::Sum, {true, false}, ReduceOp::Sum));
  const auto negate = OneOp("stablehlo.negate", {f32({2})}, {f32({2})}).partial();
  EXPECT_TRUE(carries(negate, ReduceOp::Max, {true}, ReduceOp::Min));
  const auto wrap = OneOp("stablehlo.negate", {i64({2})}, {i64({2})}).partial();
  EXPECT_FALSE(carries(wrap, ReduceOp::Max, {true}, ReduceOp::Min));
  const auto log = OneOp("stablehlo.log", {f32({2})}, {f32({2})}).partial();
  EXPECT_TRUE(carries(log, ReduceOp::Min, {true}, ReduceOp::Min));
  EXPECT_FALSE(carries(log, ReduceOp::Max, {true}, ReduceOp::Max));
  const auto narrow = OneOp("stablehlo.convert", {f32({2})}, {tensor(DType::F16, {2})}).partial();
  EXPECT_FALSE(carries(narrow, ReduceOp::Sum, {true}, ReduceOp::Sum));
  EXPECT_TRUE(carries(narrow, ReduceOp::Max, {true}, ReduceOp::Max));
  const auto integer = OneOp("stablehlo.convert", {f32({2})}, {i64({2})}).partial();
  EXPECT_TRUE(integer.empty());
}

TEST(ChloOps, BroadcastingFollowsNumpy) {
  const OneOp op("chlo.broadcast_add", {f32({3, 1}), f32({4})}, {f32({3, 4})});
  EXPECT_EQ(op.infer()[0], f32({3, 4}));
  EXPECT_EQ(text(op.rule()), "a c,b->a b a=3 b=4 c=1");
  const auto sum = op.run(
      {array<float>(DType::F32, {3, 1}, {0, 10, 20}), array<float>(DType::F32, {4}, {1, 2, 3, 4})});
  EXPECT_EQ(values<float>(sum[0]),
            (std::vector<float>{1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24}));
  EXPECT_THAT(error_of([] {
                OneOp("chlo.broadcast_add", {f32({3}), f32({4})}, {}).infer();
              }),
              HasSubstr("chlo.broadcast_add: dimension 0 of shape 4 can't be broadcast to 3"));
}

TEST(ChloOps, TopKIsStableAndPutsNanFirst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const OneOp op("chlo.top_k", {f32({2, 4})}, {f32({2, 2}), tensor(DType::I32, {2, 2})},
                 attrs({{"k", int_attr(2)}}));
  const auto result = op.run({array<float>(DType::F32, {2, 4}, {1, 3, 3, 2, -1, nan, 5, -2})});
  EXPECT_EQ(values<int32_t>(result[1]), (std::vector<int32_t>{1, 2, 1, 2}));
  EXPECT_EQ(values<float>(result[0])[0], 3);
  EXPECT_EQ(text(op.rule()), "a b->a b,a b a=2 b=4n!");
  EXPECT_THAT(error_of([] {
                OneOp("chlo.top_k", {f32({4})}, {}, attrs({{"k", int_attr(5)}})).infer();
              }),
              HasSubstr("chlo.top_k: k 5 must lie in [0, 4]"));
}

TEST(ChloOps, ConstantLikeTakesTheShape) {
  const OneOp op("chlo.constant_like", {f32({2})}, {f32({2})},
                 attrs({{"value", FloatAttr{1.5, Type::scalar(DType::F32)}}}));
  EXPECT_EQ(values<float>(op.run({array<float>(DType::F32, {2}, {0, 0})})[0]),
            (std::vector<float>{1.5, 1.5}));
}

}  // namespace
}  // namespace cleave
