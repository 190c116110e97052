#include <gtest/gtest.h>

#include "cleave/transforms.h"
#include "tensor_cases.h"
#include "tests/support/error_of.h"

// What functions on Tensors refuse, in one line that names the function.
namespace cleave {
namespace {

TEST(TensorErrors, indices_are_within_the_tensor) {
  const Tensor x = zeros({4, 6});
  EXPECT_EQ(error_of([&] { x[4]; }),
            "index: 4 along dimension 0 of tensor<4x6>; it must be in [-4, 4)");
  EXPECT_EQ(error_of([&] { x(0, -7); }),
            "index: -7 along dimension 1 of tensor<4x6>; it must be in [-6, 6)");
  EXPECT_EQ(error_of([&] { x(0, 0, 0); }), "index: 3 indices for tensor<4x6> of rank 2");
  EXPECT_EQ(error_of([&] { x(ellipsis, ellipsis); }),
            "index: an ellipsis stands for all dimensions left; 2 are given");
  EXPECT_EQ(error_of([&] { x(slice(0, 4, 0)); }),
            "index: a slice has the step 0; it must be another number");
  EXPECT_EQ(error_of([&] { x(zeros({2})); }),
            "index: a Tensor of indices has integers, got tensor<2xf32>; cast it");
  EXPECT_EQ(error_of([&] { x(sum); }),
            "index: a function is no index; `all` alone stands for a whole dimension");
  EXPECT_EQ(error_of([&] { x(arange(3), arange(2)); }).substr(0, 41),
            "index: shapes <3> and <2> do not broadcas");
}

TEST(TensorErrors, masks_have_a_size_that_is_known) {
  const Tensor x = zeros({4, 6});
  EXPECT_EQ(error_of([&] { x(x[0] > 0); }),
            "index: a mask <6> does not have the first sizes of tensor<4x6>");
  EXPECT_EQ(error_of([&] { x(0, x[0] > 0); }),
            "index: a mask stands alone; 2 indices are given, so use where");
  EXPECT_EQ(error_of([&] { trace([](const Tensor& y) { return y(y > 0); })(x); }),
            "index: in a trace the number of true elements of a mask tensor<4x6xi1> is not known; "
            "use where, or x.at(mask).set(...)");
}

TEST(TensorErrors, values_fit_their_place) {
  const Tensor x = zeros({4, 6}), n = arange(5);
  EXPECT_EQ(error_of([&] { x.at(0).set(zeros({5})); }).substr(0, 42),
            "index: shapes <5> and <6> do not broadcast");
  EXPECT_EQ(error_of([&] { x.at(0, 0).set(zeros({6})); }),
            "index: values <6> do not broadcast to the place <>");
  EXPECT_EQ(error_of([&] { n.at(0).add(0.5); }),
            "index: values of f32 do not fit into tensor<5xi32>; cast one of them");
}

TEST(TensorErrors, lists_are_nested_alike) {
  EXPECT_EQ(error_of([] {
              tensor({{1, 2}, {3}});
            }),
            "tensor: lists of 2 and of 1 stand side by side along dimension 1; give all the same "
            "length");
  EXPECT_EQ(error_of([] {
              tensor({{1, 2}, 3});
            }),
            "tensor: a number stands beside lists; all must be nested alike");
  EXPECT_EQ(error_of([] {
              tensor({1, {2, 3}});
            }),
            "tensor: a list stands beside numbers; all must be nested alike");
  EXPECT_EQ(error_of([] { tensor({300}, DType::I8); }),
            "the number 300 does not fit in i8, which holds -128 to 127; cast to a wider dtype");
}

TEST(TensorErrors, factors_are_of_matrices) {
  EXPECT_EQ(error_of([] {
              inv(zeros({2, 3}));
            }),
            "inv: takes square matrices [..., n, n], got tensor<2x3>");
  EXPECT_EQ(error_of([] { svd(zeros({3})); }), "svd: takes matrices [..., m, n], got tensor<3>");
  EXPECT_EQ(error_of([] {
              eigh(zeros({2, 2}, DType::F16));
            }),
            "eigh: matrices of f16 have no kernel; cast them to f32");
  EXPECT_EQ(error_of([] {
              solve(zeros({3, 3}), zeros({2, 2}));
            }),
            "solve: <3x3> x = <2x2>: right sides are [3] or [..., 3, k]");
  EXPECT_EQ(error_of([] {
              lstsq(zeros({3, 2}), zeros({2}));
            }),
            "lstsq: <3x2> x = <2>: takes a matrix [m, n] and right sides [m] or [m, k]");
}

TEST(TensorErrors, options_are_in_range) {
  const Tensor x = zeros({2, 6});
  EXPECT_EQ(error_of([&] { quantile(x, 2); }), "quantile: q is 2; it must be in [0, 1]");
  EXPECT_EQ(error_of([&] { group_norm(x, 4); }), "group_norm: 6 channels in 4 groups of one size");
  EXPECT_EQ(error_of([&] { glu(zeros({3})); }), "glu: dimension -1 of tensor<3> has no two halves");
  EXPECT_EQ(error_of([&] { interpolate(x, {4}); }),
            "interpolate: tensor<2x6> to <4>: the ranks differ");
  EXPECT_EQ(error_of([&] { einsum("...i->i", {x}); }),
            "einsum: '...i->i': the result needs the dimensions of '...' too");
  EXPECT_EQ(error_of([&] {
              cross_entropies(x, tensor({7, -100}), {.ignore_index = -100});
            }).substr(0, 32),
            "cross_entropy: there is a label ");
}

}  // namespace
}  // namespace cleave
