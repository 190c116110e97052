#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "cleave/core/error.h"
#include "cleave/kernels/random.h"
#include "cleave/kernels/shape.h"
#include "tests/ops/op_harness.h"

namespace cleave {
namespace {

using testing::HasSubstr;

Array counted(Shape shape) {
  std::vector<int64_t> data(num_elements(shape));
  std::iota(data.begin(), data.end(), 0);
  return array<int64_t>(DType::I64, std::move(shape), data);
}

std::string reshape_rule(Shape from, Shape to) {
  return text(OneOp("stablehlo.reshape", {f32(std::move(from))}, {f32(std::move(to))}).rule());
}

TEST(ShapeOps, ReshapeWalksByCommonDivisors) {
  EXPECT_EQ(reshape_rule({8}, {2, 4}), "ab->a b a=2 b=4");
  EXPECT_EQ(reshape_rule({2, 4}, {8}), "a b->ab a=2 b=4");
  EXPECT_EQ(reshape_rule({2, 1, 4}, {2, 4}), "a b c->a c a=2 b=1 c=4");
  EXPECT_EQ(reshape_rule({3, 2}, {2, 3}), "a d->b c a=3 b=2 c=3 d=2");
  EXPECT_EQ(reshape_rule({}, {1}), "->a a=1");
  EXPECT_TRUE(OneOp("stablehlo.reshape", {f32({0, 4})}, {f32({0, 2})}).rule().empty());
}

// Every dimension is the product of its factors, whatever the shapes.
RC_GTEST_PROP(ShapeOps, ReshapeRuleIsComplete, ()) {
  const auto sizes = *rc::gen::container<std::vector<int64_t>>(4, rc::gen::inRange<int64_t>(1, 7));
  const Shape flat = {sizes[0] * sizes[1], sizes[2], sizes[3]};
  const Shape other = {sizes[3], sizes[0], sizes[1] * sizes[2]};
  const OpShardingRule rule = OneOp("stablehlo.reshape", {f32(flat)}, {f32(other)}).rule();
  auto check = [&](const TensorFactors& tensor, const Shape& shape) {
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t product = 1;
      for (FactorIndex f : tensor[d]) product *= rule.factors[f].size;
      RC_ASSERT(product == shape[d]);
    }
  };
  check(rule.operands[0], flat);
  check(rule.results[0], other);
}

RC_GTEST_PROP(ShapeOps, ReshapeOfViewsKeepsOrder, ()) {
  const auto a = *rc::gen::inRange<int64_t>(1, 5), b = *rc::gen::inRange<int64_t>(1, 5),
             c = *rc::gen::inRange<int64_t>(1, 5);
  const Array base = counted({a * 2, b, c});
  const std::vector<Array> views = {
      base.slice({0, 0, 0}, {a, b, c}, {2, 1, 1}),
      base.slice({0, 0, 0}, {a, b, c}).transpose({1, 0, 2}),
      base.slice({0, 0, 0}, {1, b, 1}).reshape({b}).broadcast({a, b, c}, {1})};
  for (const Array& view : views)
    for (const Shape& shape :
         {Shape{a * b * c}, Shape{a * b, c}, Shape{c, b * a}, Shape{1, a, b * c}})
      RC_ASSERT(values<int64_t>(view.reshape(shape)) == values<int64_t>(view));
}

TEST(ShapeOps, ReshapeOfASplatIsAView) {
  const Array splat = Array::scalar<float>(DType::F32, 1).broadcast({4, 6}, {});
  EXPECT_EQ(splat.reshape({3, 8}).buffer(), splat.buffer());
}

TEST(ShapeOps, TransposeMovesDimensions) {
  const OneOp op("stablehlo.transpose", {i64({2, 3, 4})}, {i64({4, 2, 3})},
                 attrs({{"permutation", ints_attr({2, 0, 1})}}));
  EXPECT_EQ(op.infer()[0], i64({4, 2, 3}));
  EXPECT_EQ(text(op.rule()), "b c a->a b c a=4 b=2 c=3");
  EXPECT_EQ(values<int64_t>(op.run({counted({2, 3, 4})})[0])[1], 4);
  const OneOp bad("stablehlo.transpose", {i64({2, 3})}, {},
                  attrs({{"permutation", ints_attr({0, 0})}}));
  EXPECT_THAT(error_of([&] { bad.infer(); }),
              HasSubstr("stablehlo.transpose: permutation [0, 0] must be distinct"));
}

TEST(ShapeOps, BroadcastInDimExpandsOnes) {
  const OneOp op("stablehlo.broadcast_in_dim", {i64({1, 3})}, {i64({2, 3, 2})},
                 attrs({{"broadcast_dimensions", ints_attr({2, 1})}}));
  EXPECT_EQ(text(op.rule()), "c b->a b d a=2 b=3 c=1 d=2");
  EXPECT_EQ(values<int64_t>(op.run({counted({1, 3})})[0]),
            (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
  const OneOp bad("stablehlo.broadcast_in_dim", {i64({4})}, {i64({2, 3})},
                  attrs({{"broadcast_dimensions", ints_attr({1})}}));
  EXPECT_THAT(error_of([&] { bad.infer(); }), HasSubstr("must be 1 or the size of dimension 1"));
}

TEST(ShapeOps, SliceChecksBounds) {
  auto op = [](std::vector<int64_t> start, std::vector<int64_t> limit, std::vector<int64_t> step) {
    return OneOp("stablehlo.slice", {i64({10})}, {i64({2})},
                 attrs({{"start_indices", ints_attr(std::move(start))},
                        {"limit_indices", ints_attr(std::move(limit))},
                        {"strides", ints_attr(std::move(step))}}));
  };
  EXPECT_EQ(op({1}, {10}, {4}).infer()[0], i64({3}));
  EXPECT_EQ(values<int64_t>(op({1}, {10}, {4}).run({counted({10})})[0]),
            (std::vector<int64_t>{1, 5, 9}));
  EXPECT_EQ(text(op({1}, {3}, {1}).rule()), "a->a a=10p");
  EXPECT_THAT(error_of([&] { op({1}, {11}, {1}).infer(); }),
              HasSubstr("stablehlo.slice: [1:11:1] does not fit dimension 0 of tensor<10xi64>"));
}

// Against a padding computed element by element.
RC_GTEST_PROP(ShapeOps, PadPutsElementsWhereTheyBelong, ()) {
  const auto n = *rc::gen::inRange<int64_t>(0, 6);
  const auto low = *rc::gen::inRange<int64_t>(-4, 4), interior = *rc::gen::inRange<int64_t>(0, 3);
  const int64_t without_high = padded_shape({n}, {low}, {0}, {interior})[0];
  const int64_t size = *rc::gen::inRange<int64_t>(0, std::max<int64_t>(without_high, 0) + 4);
  const int64_t high = size - without_high;
  std::vector<int64_t> expected(size, -1);
  for (int64_t i = 0; i < n; ++i)
    if (const int64_t at = low + i * (interior + 1); at >= 0 && at < size) expected[at] = i;
  const Array value = Array::scalar<int64_t>(DType::I64, -1);
  RC_ASSERT(values<int64_t>(pad(counted({n}), value, {low}, {high}, {interior})) == expected);
}

TEST(ShapeOps, PadCarriesSumsWhereTheValueIsZero) {
  OneOp op("stablehlo.pad", {f32({2}), f32({})}, {f32({3})},
           attrs({{"edge_padding_low", ints_attr({1})},
                  {"edge_padding_high", ints_attr({0})},
                  {"interior_padding", ints_attr({0})}}));
  for (const PartialRow& row : op.partial())
    EXPECT_TRUE(row.operands[1] || row.in != ReduceOp::Sum);
}

TEST(ShapeOps, ConcatenateNeedsTheWholeDimension) {
  const OneOp op("stablehlo.concatenate", {i64({2, 1}), i64({2, 2})}, {i64({2, 3})},
                 attrs({{"dimension", int_attr(1)}}));
  EXPECT_EQ(op.infer()[0], i64({2, 3}));
  EXPECT_EQ(text(op.rule()), "a b,a b->a b a=2 b=3n");
  EXPECT_EQ(values<int64_t>(op.run({counted({2, 1}), counted({2, 2})})[0]),
            (std::vector<int64_t>{0, 0, 1, 1, 2, 3}));
  const OneOp bad("stablehlo.concatenate", {i64({2, 1}), i64({3, 2})}, {},
                  attrs({{"dimension", int_attr(1)}}));
  EXPECT_THAT(error_of([&] { bad.infer(); }), HasSubstr("differ in a dimension other than 1"));
}

TEST(ShapeOps, ReverseIsAView) {
  const OneOp op("stablehlo.reverse", {i64({2, 3})}, {i64({2, 3})},
                 attrs({{"dimensions", ints_attr({1})}}));
  const Array x = counted({2, 3});
  const Array y = op.run({x})[0];
  EXPECT_EQ(y.buffer(), x.buffer());
  EXPECT_EQ(values<int64_t>(y), (std::vector<int64_t>{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(text(op.rule()), "a b->a b a=2 b=3p");
}

TEST(ShapeOps, DynamicSliceStaysInside) {
  const OneOp op("stablehlo.dynamic_slice", {i64({3, 4}), i64({}), i64({})}, {i64({3, 2})},
                 attrs({{"slice_sizes", ints_attr({3, 2})}}));
  EXPECT_EQ(text(op.rule()), "a b,,->a b a=3 b=4n!");
  const auto result = op.run({counted({3, 4}), Array::scalar<int64_t>(DType::I64, 7),
                              Array::scalar<int64_t>(DType::I64, 3)});
  EXPECT_EQ(values<int64_t>(result[0]), (std::vector<int64_t>{2, 3, 6, 7, 10, 11}));
}

TEST(ShapeOps, DynamicUpdateSliceKeepsItsOperand) {
  const OneOp op("stablehlo.dynamic_update_slice", {i64({4}), i64({2}), i64({})}, {i64({4})});
  EXPECT_EQ(text(op.rule()), "a,b,->a a=4 b=2n");
  const Array x = counted({4});
  const auto result =
      op.run({x, array<int64_t>(DType::I64, {2}, {8, 9}), Array::scalar<int64_t>(DType::I64, -5)});
  EXPECT_EQ(values<int64_t>(result[0]), (std::vector<int64_t>{8, 9, 2, 3}));
  EXPECT_EQ(values<int64_t>(x), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(ShapeOps, IotaCounts) {
  const OneOp op("stablehlo.iota", {}, {f32({2, 3})}, attrs({{"iota_dimension", int_attr(1)}}));
  EXPECT_EQ(values<float>(op.run({})[0]), (std::vector<float>{0, 1, 2, 0, 1, 2}));
  const OneOp bad("stablehlo.iota", {}, {f32({2})}, attrs({{"iota_dimension", int_attr(1)}}));
  EXPECT_THAT(error_of([&] { bad.infer(); }), HasSubstr("must lie in [0, 1)"));
}

TEST(ShapeOps, DynamicPadAndSliceReadTheirSizes) {
  const OneOp op("stablehlo.dynamic_pad", {i64({3}), i64({}), i64({1}), i64({1}), i64({1})},
                 {i64({kDynamicSize})});
  auto one = [](int64_t v) { return array<int64_t>(DType::I64, {1}, {v}); };
  EXPECT_EQ(values<int64_t>(op.run(
                {counted({3}), Array::scalar<int64_t>(DType::I64, 7), one(1), one(-1), one(1)})[0]),
            (std::vector<int64_t>{7, 0, 7, 1, 7}));
}

// Numbers that XLA's CPU backend gives for the key [1, 2, 3, 4] of 32-bit words.
TEST(Random, BitsAreThoseOfXla) {
  const Array state = array<uint32_t>(DType::U32, {4}, {1, 2, 3, 4});
  auto bits = [&](RandomAlgorithm algorithm, DType dtype, Shape shape) {
    return random_bits(algorithm, state, dtype, {shape, Shape(shape.size(), 0), shape});
  };
  EXPECT_EQ(values<uint32_t>(bits(RandomAlgorithm::ThreeFry, DType::U32, {3, 5})),
            (std::vector<uint32_t>{1576285164, 2249660814, 740599976, 2425682526, 2436392515,
                                   1335360347, 2260235687, 3981753173, 3953550934, 3812192618,
                                   2959620048, 1759477693, 3014899208, 3167314751, 1878941568}));
  EXPECT_EQ(values<uint32_t>(bits(RandomAlgorithm::ThreeFry, DType::U32, {3, 4}))[5], 1497962777u);
  EXPECT_EQ(values<uint16_t>(bits(RandomAlgorithm::ThreeFry, DType::U16, {5})),
            (std::vector<uint16_t>{13292, 6542, 43176, 64094, 26179}));
  EXPECT_EQ(values<uint64_t>(bits(RandomAlgorithm::ThreeFry, DType::U64, {5}))[4],
            16980371968582007637u);
  EXPECT_EQ(values<uint32_t>(bits(RandomAlgorithm::Philox, DType::U32, {5})),
            (std::vector<uint32_t>{512747620, 1298009047, 1267190206, 761827841, 1383286907}));
  EXPECT_EQ(values<uint64_t>(bits(RandomAlgorithm::Philox, DType::U64, {5})),
            (std::vector<uint64_t>{5574906407289874532u, 3272025663544478142u, 7043725020835825787u,
                                   9254853183523022196u, 14929923424383677111u}));
  EXPECT_EQ(values<uint8_t>(bits(RandomAlgorithm::Philox, DType::U8, {})),
            std::vector<uint8_t>{100});
  EXPECT_EQ(values<uint32_t>(advanced_state(RandomAlgorithm::ThreeFry, state, DType::U32, {3, 5})),
            (std::vector<uint32_t>{1, 2, 12, 4}));
  EXPECT_EQ(values<uint32_t>(advanced_state(RandomAlgorithm::Philox, state, DType::U64, {3, 5})),
            (std::vector<uint32_t>{1, 2, 11, 4}));
}

// A part of a random tensor is that part of the whole.
RC_GTEST_PROP(Random, PartsAgreeWithTheWhole, ()) {
  const auto rows = *rc::gen::inRange<int64_t>(1, 7), cols = *rc::gen::inRange<int64_t>(1, 7);
  const auto row = *rc::gen::inRange<int64_t>(0, rows), col = *rc::gen::inRange<int64_t>(0, cols);
  const Array state = array<uint64_t>(DType::U64, {2}, {17, ~uint64_t{0} - 3});
  const Shape shape = {rows, cols}, offset = {row, col}, size = {rows - row, cols - col};
  const RandomBox whole{shape, {0, 0}, shape}, part{shape, offset, size};
  for (RandomAlgorithm algorithm : {RandomAlgorithm::ThreeFry, RandomAlgorithm::Philox})
    for (DType dtype : {DType::U8, DType::U32, DType::U64})
      RC_ASSERT(identical(random_bits(algorithm, state, dtype, part),
                          random_bits(algorithm, state, dtype, whole).slice(offset, size).copy()));
  const Array low = Array::scalar<float>(DType::F32, -1),
              high = Array::scalar<float>(DType::F32, 1);
  RC_ASSERT(identical(random_normal(5, low, high, part),
                      random_normal(5, low, high, whole).slice(offset, size).copy()));
}

TEST(Random, UniformAndNormalHaveTheirMoments) {
  const Shape shape = {20000};
  const RandomBox box{shape, {0}, shape};
  const Array zero = Array::scalar<double>(DType::F64, 0),
              two = Array::scalar<double>(DType::F64, 2);
  auto moments = [&](const Array& x) {
    double mean = 0, square = 0;
    for (double v : values<double>(x)) mean += v / 20000, square += v * v / 20000;
    return std::pair(mean, square - mean * mean);
  };
  const auto [u_mean, u_variance] = moments(random_uniform(1, zero, two, box));
  EXPECT_NEAR(u_mean, 1, 0.02);
  EXPECT_NEAR(u_variance, 1.0 / 3, 0.02);
  const auto [n_mean, n_variance] = moments(random_normal(2, zero, two, box));
  EXPECT_NEAR(n_mean, 0, 0.06);
  EXPECT_NEAR(n_variance, 4, 0.15);
}

}  // namespace
}  // namespace cleave
