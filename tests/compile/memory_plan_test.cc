#include "cleave/compile/memory_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace cleave {
namespace {

TEST(MemoryPlan, ReusesWhatIsFree) {
  const MemoryPlan plan = plan_memory({{100, 0, 1}, {100, 1, 2}, {100, 2, 3}});
  EXPECT_EQ(plan.offsets, (std::vector<size_t>{0, 128, 0}));
  EXPECT_EQ(plan.bytes, 256u);
  EXPECT_EQ(plan.lower_bound, 256u);
}

RC_GTEST_PROP(MemoryPlan, PiecesThatLiveTogetherDoNotOverlap, ()) {
  const auto raw = *rc::gen::container<std::vector<std::tuple<size_t, int64_t, int64_t>>>(
      rc::gen::tuple(rc::gen::inRange<size_t>(0, 5000), rc::gen::inRange<int64_t>(0, 40),
                     rc::gen::inRange<int64_t>(0, 10)));
  std::vector<MemoryRequest> requests;
  for (const auto& [bytes, begin, length] : raw) requests.push_back({bytes, begin, begin + length});
  const MemoryPlan plan = plan_memory(requests);
  RC_ASSERT(plan.lower_bound <= plan.bytes);
  for (size_t i = 0; i < requests.size(); ++i) {
    RC_ASSERT(plan.offsets[i] % 64 == 0u);
    RC_ASSERT(plan.offsets[i] + requests[i].bytes <= plan.bytes);
    for (size_t j = 0; j < i; ++j) {
      if (requests[i].end < requests[j].begin || requests[j].end < requests[i].begin) continue;
      RC_ASSERT(plan.offsets[i] + requests[i].bytes <= plan.offsets[j] ||
                plan.offsets[j] + requests[j].bytes <= plan.offsets[i] || requests[i].bytes == 0u ||
                requests[j].bytes == 0u);
    }
  }
}

}  // namespace
}  // namespace cleave
