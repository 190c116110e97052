#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/cleave.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

using testing::HasSubstr;

constexpr int64_t kBig = int64_t{1} << 40;

TEST(TensorSizes, TypesWhoseElementsCannotBeCountedAreRefused) {
  for (const auto& make : std::vector<std::function<Tensor()>>{
           [] {
             return zeros({kBig, kBig});
           },
           [] {
             return ones({kBig, kBig});
           },
           [] {
             return full({kBig, kBig}, 2);
           },
           [] {
             return iota({kBig, kBig}, 0);
           },
           [] { return eye(kBig); }, [] { return arange(0.0, 1e30); },
           [] {
             return broadcast_to(zeros({1, 1}), {kBig, kBig});
           },
           [] {
             return reshape(broadcast_to(zeros({1}), {kBig}), {kBig, 1}) *
                    broadcast_to(zeros({1}), {kBig});
           }})
    EXPECT_THAT(error_of([&] { make(); }), HasSubstr("more")) << "made";
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
