#include "cleave/train/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/train/metrics.h"
#include "tests/support/error_of.h"

// The loop: what is called when, how it ends, and what is written about it.
namespace cleave::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes down what it hears: "step 1", "eval 2", "save 2".
struct Diary : LoopObserver {
  std::vector<std::string> lines;
  std::vector<StepRecord> records;
  void on_step(const StepRecord& record) override {
    lines.push_back("step " + std::to_string(record.step));
    records.push_back(record);
  }
  void on_evaluation(const EvaluationRecord& r) override {
    lines.push_back("eval " + std::to_string(r.step));
  }
  void on_save(const SaveRecord& r) override { lines.push_back("save " + std::to_string(r.step)); }
};

// The state counts the sum of its batches; the loss is the batch.
TrainLoop<Tensor> counting() {
  TrainLoop<Tensor> loop;
  loop.step = [](const Tensor& state, const Tensor& batch) {
    return std::make_pair(Metrics{{"loss", batch}, {"sum", state + batch}}, state + batch);
  };
  loop.batch = [](int64_t n) { return full({}, static_cast<double>(n), DType::F32); };
  loop.evaluate = [](const Tensor& state) { return state.item(); };
  loop.save = [](const Tensor&, int64_t) {};
  return loop;
}

TEST(Loop, StepsEvaluatesAndSavesInOrder) {
  Diary diary;
  Tensor state = zeros({});
  const LoopEnd end =
      run_loop(state, counting(), {.steps = 5, .evaluate_every = 3, .save_every = 2}, diary);
  EXPECT_THAT(diary.lines, ElementsAre("step 1", "step 2", "save 2", "step 3", "eval 3", "step 4",
                                       "save 4", "step 5", "save 5", "eval 5"));
  EXPECT_EQ(end.kind, LoopEndKind::Done);
  EXPECT_EQ(end.step, 5);
  EXPECT_EQ(end.last_save, 5);
  EXPECT_EQ(state.item(), 10);
  EXPECT_EQ(diary.records[3].loss, 3);
  EXPECT_EQ(diary.records[3].metrics.at("sum"), 6);
}

TEST(Loop, GoesOnFromAStep) {
  Diary diary;
  Tensor state = zeros({});
  run_loop(state, counting(), {.first = 3, .steps = 5}, diary);
  EXPECT_THAT(diary.lines, ElementsAre("step 4", "step 5", "save 5", "eval 5"));
  EXPECT_EQ(state.item(), 3 + 4);
  Diary nothing;
  EXPECT_EQ(run_loop(state, counting(), {.first = 5, .steps = 5}, nothing).step, 5);
  EXPECT_TRUE(nothing.lines.empty());
}

TEST(Loop, ReadsMetricsLaterButAllOfThem) {
  Diary diary;
  Tensor state = zeros({});
  run_loop(state, counting(), {.steps = 7, .read_every = 3, .save_every = 4}, diary);
  EXPECT_THAT(diary.lines, ElementsAre("step 1", "step 2", "step 3", "step 4", "save 4", "step 5",
                                       "step 6", "step 7", "save 7", "eval 7"));
}

TEST(Loop, SavesAndStopsWhenItIsAskedTo) {
  Diary diary;
  std::stop_source source;
  TrainLoop<Tensor> loop = counting();
  const auto batch = loop.batch;
  loop.batch = [&](int64_t n) {
    if (n == 2) source.request_stop();
    return batch(n);
  };
  Tensor state = zeros({});
  const LoopEnd end = run_loop(state, loop, {.steps = 9, .stop = source.get_token()}, diary);
  EXPECT_THAT(diary.lines, ElementsAre("step 1", "step 2", "step 3", "save 3"));
  EXPECT_EQ(end.kind, LoopEndKind::Stopped);
  EXPECT_EQ(end.step, 3);
}

TrainLoop<Tensor> with_nan_at(int64_t first, int64_t last) {
  TrainLoop<Tensor> loop = counting();
  loop.batch = [=](int64_t n) {
    return full({}, n >= first && n <= last ? std::nan("") : static_cast<double>(n), DType::F32);
  };
  return loop;
}

TEST(Loop, EndsAtALossThatIsNotFinite) {
  Diary diary;
  Tensor state = zeros({});
  const LoopEnd end = run_loop(state, with_nan_at(4, 9), {.steps = 9, .save_every = 3}, diary);
  EXPECT_EQ(end.kind, LoopEndKind::NotFinite);
  EXPECT_EQ(end.step, 5);
  EXPECT_EQ(end.last_save, 3);
  EXPECT_THAT(end.reason,
              HasSubstr("the loss is nan at step 5; the last checkpoint is that of step 3"));
}

TEST(Loop, GoesOnIfTheStepLeavesSuchBatchesOut) {
  Diary diary;
  Tensor state = zeros({});
  const LoopEnd end = run_loop(state, with_nan_at(2, 3), {.steps = 6, .most_skipped = 2}, diary);
  EXPECT_EQ(end.kind, LoopEndKind::Done);
  EXPECT_TRUE(diary.records[2].skipped);
  EXPECT_FALSE(diary.records[4].skipped);
  const LoopEnd bad = run_loop(state, with_nan_at(2, 5), {.steps = 6, .most_skipped = 2}, diary);
  EXPECT_THAT(bad.reason, HasSubstr("was not finite 3 times in a row"));
}

TEST(Loop, NeedsALoss) {
  TrainLoop<Tensor> loop = counting();
  loop.step = [](const Tensor& s, const Tensor&) { return std::make_pair(Metrics{}, s); };
  Diary diary;
  Tensor state = zeros({});
  EXPECT_THAT(error_of([&] { run_loop(state, loop, {.steps = 1}, diary); }),
              HasSubstr("no metric 'loss'"));
}

TEST(MetricsLines, AreJson) {
  EXPECT_EQ(
      to_json_line(StepRecord{.step = 3, .loss = 1.5, .metrics = {{"rate", 0.25}}, .seconds = 2}),
      R"({"step":3,"loss":1.5,"rate":0.25,"seconds":2.0})");
  EXPECT_EQ(to_json_line(StepRecord{.step = 3, .loss = std::nan("")}),
            R"({"step":3,"loss":"nan","seconds":0.0})");
  EXPECT_EQ(to_json_line(EvaluationRecord{4, 2.5, 1}),
            R"({"step":4,"eval_loss":2.5,"seconds":1.0})");
}

TEST(MetricsLines, OfStepsAfterTheCheckpointAreDropped) {
  const auto path =
      std::filesystem::temp_directory_path() / ("cleave-metrics-" + std::to_string(getpid()));
  write_file(path, "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n{\"ste");  // killed while it wrote
  MetricsFile file(path, 2);
  file.add("{\"step\":3}");
  EXPECT_EQ(read_input_file(path.string()), "{\"step\":1}\n{\"step\":2}\n{\"step\":3}\n");
  std::filesystem::remove(path);
}

// Published values of CRC-32C: RFC 3720, B.4.
TEST(Events, HaveTheChecksumsOfTheStandard) {
  using events_detail::crc32c;
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
}

// Byte by byte: a double, a number, and a message of one value with its name and a float.
TEST(Events, AreProtocolBuffersInRecords) {
  using namespace events_detail;
  std::string expected = "\x09";
  const double seconds = 1.5;
  expected.append(reinterpret_cast<const char*>(&seconds), 8);
  expected += std::string("\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x20\x40", 18);
  EXPECT_EQ(event(300, 1.5, {{"loss", 2.5}}), expected);
  const std::string record = tf_record(expected);
  ASSERT_EQ(record.size(), expected.size() + 16);
  uint64_t length = 0;
  uint32_t first = 0, second = 0;
  std::memcpy(&length, record.data(), 8);
  std::memcpy(&first, record.data() + 8, 4);
  std::memcpy(&second, record.data() + 12 + expected.size(), 4);
  EXPECT_EQ(length, expected.size());
  EXPECT_EQ(first, masked_crc32c(record.substr(0, 8)));
  EXPECT_EQ(second, masked_crc32c(expected));
  EXPECT_EQ(record.substr(12, expected.size()), expected);
}

}  // namespace
}  // namespace cleave::train
