#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "cleave/tensors.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;

constexpr int64_t kBig = int64_t{1} << 40;

TEST(TensorSizes, TypesWhoseElementsCannotBeCountedAreRefused) {
  const std::vector<std::function<void()>> makers = {
      [] {
        zeros({kBig, kBig});
      },
      [] {
        ones({kBig, kBig});
      },
      [] {
        full({kBig, kBig}, 2, DType::F32);
      },
      [] {
        iota({kBig, kBig}, 0);
      },
      [] { eye(kBig); },
      [] { arange(Scalar(0.0), Scalar(1e30), Scalar(1.0)); },
      [] {
        broadcast_to(zeros({1, 1}), {kBig, kBig});
      },
      [] {
        add(broadcast_to(zeros({1, 1}), {kBig, 1}), broadcast_to(zeros({1, 1}), {1, kBig}));
      },
  };
  for (size_t i = 0; i < makers.size(); ++i)
    EXPECT_THAT(error_of(makers[i]), HasSubstr("more")) << i;
  // Nothing of anything is fine.
  EXPECT_EQ(zeros({kBig, 0, kBig}).size(), 0);
}

TEST(TensorSizes, WhatDoesNotFitIsRefusedWhenItIsComputed) {
  const Tensor large = iota({kBig, 1024}, 0, DType::F32);
  EXPECT_EQ(large.size(), kBig * 1024);
  EXPECT_THAT(error_of([&] { (large + 1).evaluate(); }),
              testing::AllOf(HasSubstr(" are needed, and "), HasSubstr("are available")));
}

}  // namespace
}  // namespace cleave
