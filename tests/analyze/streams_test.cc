#include "cleave/analyze/streams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace cleave::analyze {
namespace {

Task compute(double seconds, const std::vector<int>& after = {}) {
  Task task;
  task.seconds = seconds;
  task.after.assign(after.begin(), after.end());
  return task;
}

Task collective(double seconds, const std::vector<int>& after = {},
                Stream stream = Stream::Inside) {
  Task task = compute(seconds, after);
  task.stream = stream;
  return task;
}

Task gather(double seconds, double grows) {
  Task task = collective(seconds);
  task.grows = grows;
  return task;
}

Work work_of(std::vector<Task> tasks) {
  Work work;
  for (size_t i = 0; i < tasks.size(); ++i) tasks[i].tag = static_cast<int64_t>(i);
  work.stretches.emplace_back();
  work.stretches.back().tasks = std::move(tasks);
  return work;
}

const StreamEvent& event_of(const StreamSchedule& schedule, int64_t tag) {
  return *std::find_if(schedule.events.begin(), schedule.events.end(),
                       [&](const StreamEvent& event) { return event.tag == tag; });
}

TEST(Streams, WhatNothingWaitsForIsHidden) {
  // A gradient is reduced while the next one is computed, and is used at the end.
  const Work work = work_of({compute(4), collective(3, {0}), compute(5), compute(1, {1, 2})});
  const StreamSchedule schedule = lay_out(work, {});
  EXPECT_DOUBLE_EQ(schedule.seconds, 10);
  EXPECT_DOUBLE_EQ(schedule.exposed, 0);
  EXPECT_DOUBLE_EQ(schedule.hidden(), 3);
  EXPECT_DOUBLE_EQ(event_of(schedule, 1).start, 4);
}

TEST(Streams, WhatTheNextOpNeedsIsExposed) {
  const Work work = work_of({compute(4), collective(3, {0}), compute(5, {1})});
  const StreamSchedule schedule = lay_out(work, {});
  EXPECT_DOUBLE_EQ(schedule.seconds, 12);
  EXPECT_DOUBLE_EQ(schedule.exposed, 3);
  EXPECT_DOUBLE_EQ(event_of(schedule, 1).exposed, 3);
}

TEST(Streams, TheCriticalChainIsWhatMakesTheScheduleAsLong) {
  // The reduction of the first gradient is hidden, that of the second one is not.
  const Work work = work_of({compute(4), collective(3, {0}), compute(5), collective(2, {2}),
                             compute(1, {1}), compute(1, {3})});
  const StreamSchedule schedule = lay_out(work, {});
  EXPECT_DOUBLE_EQ(schedule.seconds, 12);
  for (int64_t tag : {0, 2, 3, 5}) EXPECT_TRUE(event_of(schedule, tag).is_critical) << tag;
  for (int64_t tag : {1, 4}) EXPECT_FALSE(event_of(schedule, tag).is_critical) << tag;
}

TEST(Streams, PartsAreExposed) {
  // 6 s to reduce, 4 s to compute beside it.
  const Work work = work_of({compute(1), collective(6, {0}), compute(4), compute(1, {1, 2})});
  const StreamSchedule schedule = lay_out(work, {});
  EXPECT_DOUBLE_EQ(schedule.seconds, 1 + 6 + 1);
  EXPECT_DOUBLE_EQ(schedule.exposed, 2);
  EXPECT_DOUBLE_EQ(schedule.hidden(), 4);
}

// The backward pass of a row-parallel product: the gradient of the weight (1) is independent of the
// sum (3) that the next op needs, and comes first in the program.
TEST(Streams, TheWindowMovesWhatIsIndependentUnderACollective) {
  const Work work = work_of({compute(1), compute(3, {0}), compute(3, {0}), collective(3, {2}),
                             compute(1, {3}), compute(1, {1})});
  EXPECT_DOUBLE_EQ(lay_out(work, {}).seconds, 12);
  const StreamSchedule ahead = lay_out(work, {.window = 4});
  EXPECT_DOUBLE_EQ(ahead.seconds, 9);
  EXPECT_DOUBLE_EQ(ahead.exposed, 0);
}

TEST(Streams, KernelsSlowDownBesideCollectives) {
  // In the 2 s of the collective 1.6 s are computed; 2.4 s follow.
  const Work one = work_of({collective(2), compute(4), compute(1, {0, 1})});
  const StreamSchedule slow = lay_out(one, {.slowdown = 0.25});
  EXPECT_NEAR(slow.seconds, 5.4, 1e-12);
  EXPECT_NEAR(slow.slowed, 0.4, 1e-12);
  EXPECT_NEAR(slow.exposed, 0, 1e-12);
  EXPECT_NEAR(event_of(slow, 1).end, 4.4, 1e-12);
  // Beside two, both slow it down: 3 s in which 2 s are done, then 1 s of 4 / 5, then as alone.
  const Work two = work_of(
      {collective(4), collective(3, {}, Stream::Across), compute(4), compute(1, {0, 1, 2})});
  const StreamSchedule slower = lay_out(two, {.slowdown = 0.25});
  EXPECT_NEAR(slower.seconds, 3 + 1 + 1.2 + 1, 1e-12);
  EXPECT_NEAR(slower.slowed, 1.2, 1e-12);
  // What waits for the collective is not slowed by it.
  const StreamSchedule after = lay_out(work_of({collective(2), compute(4, {0})}), {.slowdown = 1});
  EXPECT_NEAR(after.seconds, 6, 1e-12);
  EXPECT_NEAR(after.slowed, 0, 1e-12);
}

// A conversion of a parameter runs on the stream of its gather, and what makes a gradient does not
// run on the stream of its sum, nor what waits for a collective on that of a gather.
TEST(Streams, OnlyWhatIsGatheredIsPreparedAside) {
  Task gathered = gather(2, 100);
  gathered.after = {0};
  Task later = gather(1, 10);
  later.after = {3};
  const Work work = work_of({compute(1), gathered, compute(5), compute(4, {1}), later,
                             collective(3, {2}), compute(1, {4, 5})});
  const StreamSchedule aside = lay_out(work, {.prefetch_bytes = 1000, .prepares_aside = true});
  EXPECT_EQ(event_of(aside, 0).stream, Stream::Inside);
  EXPECT_EQ(event_of(aside, 2).stream, Stream::Compute);
  EXPECT_EQ(event_of(aside, 3).stream, Stream::Compute);
  EXPECT_DOUBLE_EQ(aside.busy[0], 10);
}

TEST(Streams, StreamsOfCommunicationRunBesideEachOther) {
  const Work work = work_of({collective(4), collective(3, {}, Stream::Across), compute(1, {0, 1})});
  const StreamSchedule schedule = lay_out(work, {});
  EXPECT_DOUBLE_EQ(schedule.seconds, 5);
  EXPECT_DOUBLE_EQ(schedule.exposed, 4);
  EXPECT_DOUBLE_EQ(schedule.hidden(), 3);
  // Both are exposed for 3 s, of which each has half; then one of them for 1 s.
  EXPECT_DOUBLE_EQ(event_of(schedule, 0).exposed, 2.5);
  EXPECT_DOUBLE_EQ(event_of(schedule, 1).exposed, 1.5);
}

TEST(Streams, WithoutOverlapEverythingIsASum) {
  const Work work = work_of({compute(4), collective(3, {0}), compute(5), compute(1, {1, 2})});
  const StreamSchedule schedule = lay_out(work, {.overlaps = false});
  EXPECT_DOUBLE_EQ(schedule.seconds, 13);
  EXPECT_DOUBLE_EQ(schedule.exposed, 3);
  EXPECT_DOUBLE_EQ(schedule.hidden(), 0);
}

// Four weights, each gathered for a layer of its own; a gather takes as long as a layer.
TEST(Streams, GathersAheadHoldALimitedAmount) {
  std::vector<Task> tasks;
  for (int layer = 0; layer < 4; ++layer) {
    tasks.push_back(gather(1, 100));
    tasks.push_back(compute(4, {2 * layer}));
    if (layer > 0) tasks.back().after.push_back(2 * layer - 1);
  }
  const Work work = work_of(tasks);
  const StreamSchedule all = lay_out(work, {.prefetch_bytes = 1000});
  EXPECT_DOUBLE_EQ(event_of(all, 6).start, 3);
  const StreamSchedule one = lay_out(work, {.prefetch_bytes = 100});
  // Layer 1 begins at 5, and makes room for the gather of layer 2; layer 3's follows at 9.
  EXPECT_DOUBLE_EQ(event_of(one, 2).start, 1);
  EXPECT_DOUBLE_EQ(event_of(one, 4).start, 5);
  EXPECT_DOUBLE_EQ(event_of(one, 6).start, 9);
  EXPECT_DOUBLE_EQ(one.seconds, 17);
  // One that is larger than the limit still comes in time to be of use.
  EXPECT_DOUBLE_EQ(lay_out(work, {.prefetch_bytes = 1}).seconds, 17);
}

TEST(Streams, SmallCollectivesThatAreReadyRunAsOne) {
  Work work = work_of({compute(1), collective(2, {0}), collective(2, {0}), compute(1, {1, 2})});
  work.like.push_back({CollectiveCost({{1.0, 0.1}}), 20});
  for (int i : {1, 2}) {
    work.stretches[0].tasks[i].like = 0;
    work.stretches[0].tasks[i].bytes = 10;
  }
  const StreamSchedule schedule = lay_out(work, {});
  EXPECT_DOUBLE_EQ(schedule.seconds, 1 + 3 + 1);
  EXPECT_DOUBLE_EQ(schedule.communication(), 3);
  EXPECT_DOUBLE_EQ(event_of(schedule, 1).end, event_of(schedule, 2).start);
  work.like[0].limit = 19;
  EXPECT_DOUBLE_EQ(lay_out(work, {}).seconds, 6);
}

TEST(Streams, ALoopTakesItsTripsAndLetsNothingPass) {
  Work work = work_of({compute(1), collective(2)});
  Work body = work_of({compute(3), collective(1), compute(1, {1})});
  work.inners.push_back(body);
  work.stretches[0].inner = 0;
  work.stretches[0].times = 5;
  work.stretches.emplace_back();
  work.stretches.back().tasks = {compute(1)};
  const StreamSchedule schedule = lay_out(work, {});
  EXPECT_DOUBLE_EQ(schedule.seconds, 2 + 5 * 4 + 1);
  EXPECT_DOUBLE_EQ(schedule.communication(), 2 + 5);
  EXPECT_DOUBLE_EQ(schedule.exposed, 1);
  ASSERT_EQ(schedule.more_trips.size(), 1u);
  EXPECT_DOUBLE_EQ(schedule.more_trips[0].start, 6);
  EXPECT_DOUBLE_EQ(schedule.more_trips[0].end, 22);
}

Work random_work(std::mt19937& random) {
  auto upto = [&](int most) {
    return static_cast<int>(random() % static_cast<uint32_t>(most + 1));
  };
  std::vector<Task> tasks;
  const int count = upto(40);
  for (int i = 0; i < count; ++i) {
    Task task;
    task.seconds = upto(3) == 0 ? 0 : 1 + upto(99) / 10.0;
    task.stream = static_cast<Stream>(upto(3) % kNumStreams);
    for (int k = upto(2); k > 0 && i > 0; --k) task.after.push_back(upto(i - 1));
    sort_waits(task);
    if (task.stream != Stream::Compute) {
      if (upto(1)) task.grows = upto(100);
      if (upto(1)) {
        task.like = static_cast<int>(task.stream);
        task.bytes = upto(100);
        task.seconds = 1 + task.bytes * 0.05;
      }
    }
    tasks.push_back(std::move(task));
  }
  Work work = work_of(std::move(tasks));
  for (int s = 0; s < kNumStreams; ++s)
    work.like.push_back({CollectiveCost({{1.0, 0.05}}), static_cast<double>(upto(200))});
  return work;
}

TEST(Streams, RandomWorkIsLaidOutWithinItsBounds) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const Work work = random_work(random);
    const std::vector<Task>& tasks = work.stretches[0].tasks;
    StreamOptions options;
    options.window = 1 + static_cast<int>(random() % 8);
    options.prefetch_bytes = static_cast<double>(random() % 200);
    options.overlaps = random() % 8 != 0;
    options.slowdown = static_cast<double>(random() % 4) / 4;
    const StreamSchedule schedule = lay_out(work, options);
    StreamOptions briefly = options;
    briefly.explains = false;
    const StreamSchedule brief = lay_out(work, briefly);
    EXPECT_EQ(brief.seconds, schedule.seconds);
    EXPECT_EQ(brief.busy, schedule.busy);
    double sum = 0, chain = 0;
    std::vector<double> until(tasks.size());
    for (size_t i = 0; i < tasks.size(); ++i) {
      // Combined, a collective takes no less than its bytes do.
      const Task& task = tasks[i];
      const bool combines = task.like >= 0 && work.like[task.like].limit > 0;
      for (int before : task.after) until[i] = std::max(until[i], until[before]);
      until[i] += combines ? task.bytes * 0.05 : task.seconds;
      chain = std::max(chain, until[i]);
      sum += task.seconds;
    }
    constexpr double kRounding = 1e-9;
    EXPECT_LE(schedule.seconds, sum + kRounding);
    EXPECT_GE(schedule.seconds, chain - kRounding);
    for (double busy : schedule.busy) EXPECT_GE(schedule.seconds, busy - kRounding);
    EXPECT_NEAR(schedule.exposed + schedule.hidden(), schedule.communication(), kRounding);
    EXPECT_NEAR(schedule.exposed + schedule.busy[0], schedule.seconds, 1e-6);
    EXPECT_GE(schedule.hidden(), -kRounding);
    // Every second of communication costs kernels this share of it at least.
    const double share = options.slowdown / (1 + 2 * options.slowdown);
    EXPECT_GE(schedule.slowed, 0);
    EXPECT_GE(schedule.seconds,
              schedule.busy[0] - schedule.slowed + share * schedule.communication() - kRounding);
    double critical = 0;
    for (const StreamEvent& event : schedule.events)
      if (event.is_critical) critical += event.end - event.start;
    EXPECT_NEAR(critical, schedule.seconds, 1e-6) << "the critical chain has gaps";
    std::vector<const StreamEvent*> by_task(tasks.size(), nullptr);
    std::array<double, kNumStreams> free{};
    for (const StreamEvent& event : schedule.events) {
      by_task[static_cast<size_t>(event.tag)] = &event;
      double& until_now = free[static_cast<size_t>(event.stream)];
      EXPECT_GE(event.start, until_now - kRounding) << "events of a stream overlap";
      until_now = event.end;
      EXPECT_LE(event.exposed, event.end - event.start + kRounding);
    }
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (tasks[i].seconds <= 0) continue;
      ASSERT_TRUE(by_task[i]) << "a task did not run";
      for (int before : tasks[i].after)
        if (by_task[before]) {
          EXPECT_GE(by_task[i]->start, by_task[before]->end - kRounding);
        }
    }
  }
}

}  // namespace
}  // namespace cleave::analyze
