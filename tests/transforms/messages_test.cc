#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/autoshard/shard_map.h"
#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/partition_spec.h"
#include "cleave/transforms/grad.h"
#include "cleave/transforms/trace.h"

// Errors speak of what the caller wrote, and not of what a transform made of it.

namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

template <typename F>
std::string error_of(const F& f) {
  try {
    f();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

Tensor product(const Tensor& x, const Tensor& y) { return sum(x * y); }

TEST(Messages, TangentsAndCotangentsOfOtherTypes) {
  const Tensor x = ones({2, 3}), y = ones({2, 3}), wrong = ones({3});
  EXPECT_THAT(error_of([&] { jvp(product, std::tuple(x, y), std::tuple(x, wrong)); }),
              AllOf(HasSubstr("jvp: the tangent of argument [1] is tensor<3xf32>"),
                    HasSubstr("the argument is tensor<2x3xf32>"), Not(HasSubstr("main"))));
  EXPECT_THAT(
      error_of([&] { vjp(product)(x, y).second(wrong); }),
      AllOf(HasSubstr("vjp: the cotangent of result 0 is tensor<3xf32>"), Not(HasSubstr("main"))));
}

TEST(Messages, EmptyTensors) {
  EXPECT_THAT(error_of([] { trace([](const Tensor& x) { return sum(x); })(Tensor()); }),
              HasSubstr("argument 0 of a traced function is an empty Tensor"));
  EXPECT_THAT(error_of([] { trace(product)(ones({2}), Tensor()); }),
              HasSubstr("argument 1 of a traced function is an empty Tensor"));
}

TEST(Messages, CollectivesByTheirNamesHere) {
  const ShardMapOptions options{.in = {P("x")}, .out = {P()}, .mode = ShardMapMode::Manual};
  EXPECT_THAT(
      error_of([&] {
        shard_map([](const Tensor& x) { return x * x; }, Mesh({{"x", 2}}), options)(ones({4}));
      }),
      AllOf(HasSubstr("(all_reduce, all_gather)"), Not(HasSubstr("psum"))));
}

TEST(PartitionSpec, NullMeansADimensionThatIsNotSharded) {
  const PartitionSpec spec = P(nullptr, "x");
  ASSERT_EQ(spec.entries.size(), 2u);
  EXPECT_TRUE(spec.entries[0].axes.empty());
  EXPECT_EQ(spec.entries[1].axes, std::vector<std::string>{"x"});
  EXPECT_TRUE(P(SpecEntry{nullptr}).entries[0].axes.empty());
}

}  // namespace
}  // namespace cleave
