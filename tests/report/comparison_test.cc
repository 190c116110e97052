#include "cleave/report/comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report_samples.h"

namespace cleave::report {
namespace {

using testing::HasSubstr;

const json* row_named(const json& rows, const std::string& name) {
  for (const json& row : rows)
    if (row["name"] == name) return &row;
  return nullptr;
}

TEST(Comparison, OfAPlanWithItselfHasNoRows) {
  const Sample made = model_sample("model:mlp?step=train", {.mesh = "data=2,model=2"});
  const json same = json::parse(comparison(made.plan, made.plan).dump());
  EXPECT_TRUE(same["rows"].empty()) << same["rows"];
  EXPECT_EQ((*row_named(same["totals"], "step"))["seconds"], 0);
  EXPECT_EQ(same["why"][0], "A step takes as long as before.");
}

// A limit makes a plan communicate.
TEST(Comparison, SaysWhatALimitChanged) {
  const std::string gpt = "model:gpt?layers=2&step=train";
  const Sample before = model_sample(gpt), after = model_sample(gpt, {.memory = 4 << 20});
  const json changed = json::parse(comparison(before.plan, after.plan).dump());
  const json& step = *row_named(changed["totals"], "step");
  EXPECT_NEAR(step["seconds"].get<double>(),
              after.plan.totals.step_seconds - before.plan.totals.step_seconds, 1e-8);
  double collectives = 0;
  size_t ops = 0;
  for (const json& row : changed["rows"]) {
    EXPECT_NE(row["before"], row["after"]) << row;
    if (row["what"] == "collective") collectives += row["seconds"].get<double>();
    ops += row["what"] == "op";
  }
  double delta = 0;
  for (const plan::CollectiveTotal& sum : after.plan.totals.collectives) delta += sum.seconds;
  for (const plan::CollectiveTotal& sum : before.plan.totals.collectives) delta -= sum.seconds;
  EXPECT_NEAR(collectives, delta, 1e-4 * std::abs(delta));
  EXPECT_GT(ops, 0u);
  EXPECT_THAT(changed["why"].dump(), HasSubstr("A device may hold 4.0 MiB instead of none."));
}

TEST(Comparison, SaysThatTheModulesDiffer) {
  const Sample before = model_sample("model:mlp?layers=1"),
               after = model_sample("model:mlp?layers=2");
  EXPECT_THAT(json::parse(comparison(before.plan, after.plan).dump())["why"].dump(),
              HasSubstr("The plans are of different modules"));
}

}  // namespace
}  // namespace cleave::report
