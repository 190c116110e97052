#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/tensors.h"
#include "tests/support/error_of.h"

// Calls that mean nothing are refused where they are made, in the name of the function.
namespace cleave {
namespace {

using testing::HasSubstr;

const Mesh kMesh{{"x", 2}, {"y", 4}};

TEST(TensorErrors, sizes_are_not_negative) {
  const Tensor x = zeros({4, 6});
  EXPECT_EQ(error_of([] { randn({-1}); }), "normal: the shape <-1> has a negative size");
  EXPECT_EQ(error_of([] { rand({3, -2}); }), "uniform: the shape <3x-2> has a negative size");
  EXPECT_EQ(error_of([] { one_hot(arange(3), -1); }), "one_hot: -1 classes");
  EXPECT_EQ(error_of([&] { repeat(x, -1, 0); }), "repeat: -1 times");
  EXPECT_EQ(error_of([&] { tile(x, {2, -1}); }), "tile: dimension 1 -1 times");
}

TEST(TensorErrors, host_values_fit_their_type) {
  EXPECT_EQ(error_of([] {
              Tensor::from(DType::F32, {2, 3}, std::vector<float>(5));
            }),
            "Tensor::from: tensor<2x3xf32> has 6 elements, 5 are given");
  EXPECT_EQ(error_of([] { zeros({3}).to_vector<int32_t>(); }),
            "to_vector: elements of f32 are float, not int32_t; cast the tensor");
  EXPECT_EQ(error_of([] { zeros({3}).to_vector<double>(); }),
            "to_vector: elements of f32 are float, not double; cast the tensor");
}

TEST(TensorErrors, random_numbers_have_a_range) {
  const Tensor key = random_key(1);
  EXPECT_THAT(error_of([&] { bernoulli(key, {3}, 2); }), HasSubstr("2 is not in [0, 1]"));
  EXPECT_THAT(error_of([&] { dropout(key, zeros({3}), std::nan("")); }), HasSubstr("[0, 1]"));
  EXPECT_THAT(error_of([&] { randint(key, {3}, 0, 5, DType::F32); }), HasSubstr("of integers"));
  EXPECT_EQ(error_of([&] { select_key(split_key(key, 3), 3); }),
            "select_key: key 3 of 3; it must be in [-3, 3)");
}

TEST(TensorErrors, shapes_of_updates_and_masks) {
  EXPECT_EQ(error_of([] {
              scatter_add(zeros({4, 6}), arange(3), zeros({3, 5}));
            }),
            "scatter_add: indices <3> along dimension 0 of tensor<4x6> take updates of <3x6>, got "
            "<3x5>");
  const Tensor q = zeros({1, 4, 4, 8}), k = zeros({1, 2, 5, 8});
  EXPECT_THAT(error_of([&] {
                attention(q, k, k, {.mask = zeros({4, 5})});
              }),
              HasSubstr("the mask is tensor<4x5xf32>; it must be of bools"));
  EXPECT_THAT(error_of([&] {
                attention(q, k, k, {.mask = ones({3, 5}, DType::Bool)});
              }),
              HasSubstr("attention: the mask: shapes <3x5> and <1x4x4x5> do not broadcast"));
  EXPECT_THAT(error_of([&] {
                attention(q, k, k, {.mask = ones({7, 1, 1, 1}, DType::Bool)});
              }),
              HasSubstr("does not broadcast to the scores <1x4x4x5>"));
}

TEST(TensorErrors, letters_bits_and_places) {
  const Tensor x = zeros({4, 6});
  EXPECT_EQ(error_of([&] { einsum("ij->ii", {x}); }),
            "einsum: 'ij->ii' names 'i' twice in the result");
  EXPECT_THAT(error_of([&] { reduce_precision(x, 0, 3); }), HasSubstr("0 bits of exponent"));
  EXPECT_EQ(error_of([&] { top_k(x, 7); }),
            "top_k: the 7 largest along the last dimension of tensor<4x6>, which has 6");
  EXPECT_THAT(error_of([&] { x.shard(kMesh, P("x:(1)")); }),
              HasSubstr("axis 'x:(1)': expected an integer"));
}

TEST(TensorErrors, collectives_have_something_to_do) {
  const Tensor s = zeros({8, 8}).shard(kMesh, P("x", "y"));
  EXPECT_THAT(error_of([&] { reduce_scatter(s, "x", 0); }),
              HasSubstr(R"(nothing is pending over "x" in [{"x"}, {"y"}])"));
  EXPECT_THAT(error_of([&] {
                ppermute(s, "x", {{0, 1}, {0, 0}});
              }),
              HasSubstr("each part goes to one device"));
}

}  // namespace
}  // namespace cleave
