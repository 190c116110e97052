#include "cleave/machine/combine.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>

namespace cleave {
namespace {

using Sets = std::vector<std::vector<size_t>>;

Sets combined(std::vector<double> bytes, double limit) { return combine(bytes, limit); }

TEST(Combine, InOrderUpToTheLimit) {
  EXPECT_EQ(combined({}, 8), Sets{});
  EXPECT_EQ(combined({4, 4, 4}, 8), (Sets{{0, 1}, {2}}));
  EXPECT_EQ(combined({4, 4, 4}, 12), (Sets{{0, 1, 2}}));
  EXPECT_EQ(combined({4, 5, 4}, 8), (Sets{{0}, {1}, {2}}));
}

TEST(Combine, OneBeyondTheLimitRunsAlone) {
  EXPECT_EQ(combined({4, 9, 4}, 8), (Sets{{0, 2}, {1}}));
  EXPECT_EQ(combined({9, 9}, 8), (Sets{{0}, {1}}));
  EXPECT_EQ(combined({8}, 8), (Sets{{0}}));
}

TEST(Combine, NoLimitOfZero) { EXPECT_EQ(combined({4, 4}, 0), (Sets{{0}, {1}})); }

TEST(Combine, CountsBytesOfResults) {
  EXPECT_EQ(combine_limit(CollectiveKind::AllReduce, 30, 8), 30);
  EXPECT_EQ(combine_limit(CollectiveKind::AllGather, 30, 8), 30);
  EXPECT_EQ(combine_limit(CollectiveKind::ReduceScatter, 30, 8), 240);
}

TEST(Combine, SecondsByHand) {
  const CollectiveCost cost({{10, 1}});
  EXPECT_EQ(combined_seconds(std::vector<double>{4, 4, 4}, 0, cost), 3 * 10 + 12);
  EXPECT_EQ(combined_seconds(std::vector<double>{4, 4, 4}, 8, cost), 2 * 10 + 12);
  EXPECT_EQ(combined_seconds(std::vector<double>{4, 9, 4}, 8, cost), 2 * 10 + 17);
  EXPECT_EQ(combined_seconds(std::vector<double>{}, 8, cost), 0);
  EXPECT_EQ(combined_seconds(std::vector<double>{4}, 8, CollectiveCost()), 0);
}

// 144 gradients of the layers of a GPT-2, most of them small, as XLA and DDP combine them over 8
// GPUs.
TEST(Combine, SavesMostLatencies) {
  std::vector<double> bytes;
  for (int layer = 0; layer < 12; ++layer)
    for (double elements : {768., 768., 768. * 2304, 2304., 768. * 768, 768., 768., 768.,
                            768. * 3072, 3072., 3072. * 768, 768.})
      bytes.push_back(2 * elements);
  const CollectiveCost cost =
      collective_cost(CollectiveKind::AllReduce, {8, 8, 1}, builtin_profile("h100"));
  const double apart = combined_seconds(bytes, 0, cost);
  EXPECT_EQ(combine(bytes, kXlaCombineBytes).size(), 6u);
  EXPECT_LT(combined_seconds(bytes, kXlaCombineBytes, cost), apart / 2);
  EXPECT_LT(combined_seconds(bytes, kDdpBucketBytes, cost), apart / 2);
}

RC_GTEST_PROP(CombineProperties, EachRunsOnceAndNothingCostsMore, ()) {
  std::vector<double> bytes;
  const int count = *rc::gen::inRange(0, 30);
  for (int i = 0; i < count; ++i) bytes.push_back(std::pow(2.0, *rc::gen::inRange(4, 28)));
  const double limit = *rc::gen::arbitrary<bool>() ? std::pow(2.0, *rc::gen::inRange(4, 30)) : 0;
  const std::string machine = *rc::gen::elementOf(builtin_profile_names());
  const CollectiveCost cost =
      collective_cost(static_cast<CollectiveKind>(*rc::gen::inRange(0, kNumCollectiveKinds)),
                      {16, 8, 2}, builtin_profile(machine));
  std::vector<int> seen(bytes.size(), 0);
  for (const std::vector<size_t>& set : combine(bytes, limit)) {
    double sum = 0;
    for (size_t i : set) {
      ++seen[i];
      sum += bytes[i];
    }
    RC_ASSERT(set.size() == 1 || sum <= limit);
  }
  RC_ASSERT(seen == std::vector<int>(bytes.size(), 1));
  double apart = 0;
  for (double one : bytes) apart += cost.seconds(one);
  const double together = combined_seconds(bytes, limit, cost);
  RC_ASSERT(together <= apart * (1 + 1e-9));
  // No way to combine them takes less than all shares.
  const CollectiveCost share = share_of_combined(cost, limit);
  double shares = 0;
  for (double one : bytes) shares += share.seconds(one);
  RC_ASSERT(shares <= together * (1 + 1e-9));
}

TEST(Combine, SharesByHand) {
  const CollectiveCost share = share_of_combined(CollectiveCost({{10, 1}}), 20);
  EXPECT_EQ(share.seconds(4), 4 * 30.0 / 20);
  EXPECT_EQ(share.seconds(20), 30);
  EXPECT_EQ(share.seconds(40), 50);  // it runs alone
  EXPECT_EQ(share_of_combined(CollectiveCost({{10, 1}}), 0).seconds(4), 14);
}

}  // namespace
}  // namespace cleave
