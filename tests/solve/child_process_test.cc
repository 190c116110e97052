#include "cleave/solve/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace cleave::solver {
namespace {

TEST(ChildProcess, GivesNumbersOrIsEnded) {
  const auto numbers = run_in_child([] { return std::vector<double>{1, 2.5}; }, 60, {});
  ASSERT_TRUE(numbers);
  EXPECT_THAT(*numbers, testing::ElementsAre(1, 2.5));
  const auto forever = []() -> std::vector<double> {
    while (true) pause();
  };
  EXPECT_FALSE(run_in_child(forever, 0.05, {}));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(run_in_child(forever, 60, stop.get_token()));
  EXPECT_FALSE(run_in_child([]() -> std::vector<double> { throw 1; }, 60, {}));
}

}  // namespace
}  // namespace cleave::solver
