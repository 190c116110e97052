#include <gtest/gtest.h>

#include <cstdio>

#include "cleave/runtime/world.h"

namespace {

// Of several ranks, rank 0 reports; the others only what fails there.
class FailuresOnly : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", cleave::World::rank_of_process(),
                 result.file_name() ? result.file_name() : "?", result.line_number(),
                 result.summary());
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (cleave::World::rank_of_process() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailuresOnly);
  }
  return RUN_ALL_TESTS();
}
