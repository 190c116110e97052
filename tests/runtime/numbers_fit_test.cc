#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cleave/tensors.h"
#include "tests/support/error_of.h"

// Numbers of a program are what they say: none is wrapped into a dtype that does not hold it.
namespace cleave {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST(NumbersFit, a_number_beyond_the_dtype_is_refused) {
  EXPECT_EQ(error_of([] { full({2}, 300, DType::I8); }),
            "the number 300 does not fit in i8, which holds -128 to 127; cast to a wider dtype");
  EXPECT_EQ(error_of([] { ones({2}, DType::U8) - 1000; }),
            "the number 1000 does not fit in ui8, which holds 0 to 255; cast to a wider dtype");
  EXPECT_THAT(error_of([] { ones({2}, DType::U32) * -1; }), HasSubstr("holds 0 to 4294967295"));
  EXPECT_THAT(error_of([] { ones({2}, DType::I32) + (int64_t{1} << 40); }),
              HasSubstr("does not fit in i32"));
  EXPECT_THAT(error_of([] { full({2}, ~uint64_t{0}, DType::I64); }),
              HasSubstr("the number 18446744073709551615 does not fit in i64"));
  for (double number : {kNan, kInfinity, -kInfinity, 1e30})
    EXPECT_THAT(error_of([&] { full({2}, number, DType::I32); }),
                HasSubstr("does not fit in i32, which holds -2147483648 to 2147483647"));
}

TEST(NumbersFit, the_ends_of_a_dtype_are_in_it) {
  EXPECT_THAT(full({1}, -128, DType::I8).to_vector<int8_t>(), ElementsAre(-128));
  EXPECT_THAT(full({1}, 255, DType::U8).to_vector<uint8_t>(), ElementsAre(255));
  EXPECT_THAT(full({1}, kLeast, DType::I64).to_vector<int64_t>(), ElementsAre(kLeast));
  EXPECT_THAT(full({1}, ~uint64_t{0}, DType::U64).to_vector<uint64_t>(), ElementsAre(~uint64_t{0}));
  EXPECT_THAT((ones({1}) * ~uint64_t{0}).to_vector<float>(), ElementsAre(0x1p64f));
}

TEST(NumbersFit, counting_stays_within_the_dtype) {
  EXPECT_EQ(error_of([] { arange(0, 300, 1, DType::I8); }),
            "arange: it counts to 299, and i8 holds -128 to 127; give a wider dtype");
  EXPECT_THAT(error_of([] { arange(int64_t{1} << 40, (int64_t{1} << 40) + 3); }),
              HasSubstr("and i32 holds"));
  EXPECT_THAT(error_of([] { iota({300}, 0, DType::I8); }), HasSubstr("iota: it counts to 299"));
  EXPECT_THAT(error_of([] { arange(0.0, kNan, 1.0); }), HasSubstr("arange: from 0 to nan by 1"));
  EXPECT_EQ(arange(-128, 128, 1, DType::I8).dim(0), 256);
  EXPECT_THAT(arange(5.0, 8.0, 1.0, DType::I32).to_vector<int32_t>(), ElementsAre(5, 6, 7));
}

TEST(NumbersFit, random_numbers_stay_within_the_dtype) {
  const Tensor key = random_key(1);
  EXPECT_EQ(error_of([&] { randint(key, {2}, 5, 500, DType::I8); }),
            "randint: [5, 500) is not within i8, which holds -128 to 127; give a wider dtype");
  EXPECT_THAT(error_of([&] { randint(key, {2}, -5, 5, DType::U8); }), HasSubstr("holds 0 to 255"));
  EXPECT_THAT(error_of([&] { randint(key, {2}, kLeast, kMost, DType::I64); }),
              HasSubstr("beyond 2^53"));
  EXPECT_THAT(error_of([&] { random_bits(key, {2}, DType::F32); }), HasSubstr("f32 is not"));
  EXPECT_EQ(error_of([&] { uniform(key, {2}, 1, 0); }),
            "uniform: no number in [1, 0); give finite bounds, the lower one first");
  EXPECT_THAT(error_of([&] { uniform(key, {2}, 0, kInfinity); }), HasSubstr("finite"));
}

TEST(NumbersFit, parameters_are_numbers) {
  EXPECT_THAT(error_of([] { var(ones({3}), {}, false, 5); }),
              HasSubstr("var: a correction of 5 for 3 elements"));
  EXPECT_THAT(error_of([] { var(ones({3}), {}, false, kNan); }), HasSubstr("correction of nan"));
  EXPECT_THAT(error_of([] { norm(ones({3}), 0); }), HasSubstr("norm: the order is 0"));
  EXPECT_THAT(error_of([] { norm(ones({3}), kNan); }), HasSubstr("norm: the order is nan"));
  EXPECT_THAT(error_of([] {
                layer_norm(ones({2, 3}), {}, {}, -1);
              }),
              HasSubstr("layer_norm: epsilon is -1"));
  EXPECT_THAT(error_of([] { irfft(complex(ones({3}), ones({3})), -1); }),
              HasSubstr("irfft: a length of -1"));
}

TEST(NumbersFit, diagonals_beyond_the_corners) {
  for (int64_t k : {kMost, int64_t{1} << 40, int64_t{3}})
    EXPECT_THAT(triu(ones({2, 2}), k).to_vector<float>(), ElementsAre(0, 0, 0, 0)) << k;
  for (int64_t k : {kLeast, -(int64_t{1} << 40), int64_t{-3}})
    EXPECT_THAT(triu(ones({2, 2}), k).to_vector<float>(), ElementsAre(1, 1, 1, 1)) << k;
  EXPECT_THAT(tril(ones({2, 2}), kMost).to_vector<float>(), ElementsAre(1, 1, 1, 1));
}

TEST(NumbersFit, layers_of_integers_give_floats) {
  const Tensor x = Tensor::from(DType::I32, {1, 2}, std::vector<int32_t>{0, 2});
  EXPECT_EQ(layer_norm(x).dtype(), DType::F32);
  EXPECT_NEAR(layer_norm(x).to_vector<float>()[1], 1, 1e-4);
  EXPECT_EQ(rms_norm(x).dtype(), DType::F32);
  const Tensor q = ones({1, 1, 2, 2}, DType::I32);
  EXPECT_THAT(attention(q, q, q).to_vector<float>(), testing::Each(1.0f));
}

TEST(NumbersFit, nothing_is_dropped_on_the_way) {
  EXPECT_THAT(error_of([] { scatter_add(ones({3}, DType::I32), arange(2), ones({2})); }),
              HasSubstr("scatter_add: updates of tensor<2xf32> do not fit into tensor<3xi32>"));
  EXPECT_THAT(error_of([] { rfft(complex(ones({3}), ones({3}))); }),
              HasSubstr("rfft: takes real numbers"));
  EXPECT_THAT(error_of([] {
                avg_pool(ones({1, 5, 1}), {2}, {.groups = 3});
              }),
              HasSubstr("avg_pool: 3 groups"));
  const Tensor q = ones({1, 1, 5, 4}), k = ones({1, 1, 3, 4});
  EXPECT_THAT(error_of([&] { attention(q, k, k, {.causal = true}); }),
              HasSubstr("the first 2 queries would see no key"));
}

}  // namespace
}  // namespace cleave
