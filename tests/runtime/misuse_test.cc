#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/tensors.h"
#include "tests/support/error_of.h"

// Calls that used to end the program, or to name what is inside.
namespace cleave {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Mesh kMesh{{"x", 2}, {"y", 4}};

TEST(Misuse, shards_that_are_missing) {
  const ShardingSpec spec = to_sharding(P("x"), shared_mesh(kMesh), {8});
  EXPECT_EQ(error_of([&] { Tensor::from_shards(std::vector<Array>(8), {8}, spec); }),
            "Tensor::from_shards: device 0 has no shard: its array is empty");
  std::vector<Array> shards(8, ones({4}).to_host());
  shards[5] = Array();
  EXPECT_EQ(error_of([&] { Tensor::from_shards(shards, {8}, spec); }),
            "Tensor::from_shards: device 5 has no shard: its array is empty");
  EXPECT_THAT(error_of([&] { Tensor::from_shards(shards, {-8}, spec); }),
              HasSubstr("negative size"));
}

TEST(Misuse, ops_by_name_that_give_no_tensor) {
  EXPECT_EQ(error_of([] { stablehlo::op("stablehlo.return", {ones({2})}); }),
            "stablehlo.return: gives no tensor; if it should, give the types of its results");
  EXPECT_THAT(error_of([] { stablehlo::op("stablehlo.after_all", {}); }),
              HasSubstr("stablehlo.after_all: gives !stablehlo.token, which is no tensor"));
  EXPECT_THAT(error_of([] { stablehlo::op("", {ones({2})}); }), HasSubstr("no op is called ''"));
}

TEST(Misuse, functions_that_are_empty) {
  EXPECT_EQ(error_of([] { switch_case(zeros({}, DType::I32), {nullptr}); }),
            "switch_case: a branch is an empty function");
  EXPECT_EQ(error_of([] {
              manual_computation(ManualFunction(), kMesh, {ones({8})}, {P("x")}, {P("x")});
            }),
            "manual_computation: the function is empty");
}

TEST(Misuse, messages_are_one_line) {
  EXPECT_THAT(error_of([] {
                ones({8}).shard(Mesh{{"a\nb\"", 2}}, P());
              }),
              AllOf(HasSubstr("the name of axis 0 has a quote"), Not(HasSubstr("\n"))));
}

TEST(Misuse, tensors_of_two_meshes_go_by_the_host) {
  const Tensor x = ones({8}).shard(kMesh, P("x"));
  EXPECT_THAT(error_of([&] {
                x.shard(Mesh{{"x", 4}}, P("x"));
              }),
              HasSubstr("bring one over with Tensor::from(x.to_host()) and `shard`"));
}

}  // namespace
}  // namespace cleave
