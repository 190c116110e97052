#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "cleave/core/error.h"
#include "cleave/runtime/local_transport.h"
#include "cleave/runtime/run_devices.h"
#include "tests/support/error_of.h"

namespace cleave {
namespace {

Array ints(std::vector<int32_t> values, Shape shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  return Array::from_bytes(DType::I32, shape, values.data());
}
std::vector<int32_t> values(const Array& array) {
  const Array packed = array.contiguous();
  return {packed.data<int32_t>(), packed.data<int32_t>() + packed.num_elements()};
}
using Ints = std::vector<int32_t>;

// Runs one task per device and gives what each returned.
std::vector<Array> on_devices(int64_t n, const std::function<Array(Transport&, Meeting)>& task) {
  const auto transport = make_local_transport(n);
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  std::vector<Array> results(static_cast<size_t>(n));
  run_devices(*transport, all, [&](int64_t device) {
    results[static_cast<size_t>(device)] = task(*transport, {device, all, "test.op"});
  });
  return results;
}

TEST(RunDevices, KeepsItsThreads) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  for (int round = 0; round < 100; ++round)
    on_devices(5, [&](Transport& transport, Meeting meeting) {
      std::unique_lock lock(mutex);
      threads.insert(std::this_thread::get_id());
      lock.unlock();
      return transport.all_gather(meeting, ints({1}), 0);
    });
  EXPECT_LE(threads.size(), 40u) << "400 would be a thread for every task";
}

TEST(RunDevices, RunsInsideATaskToo) {
  const std::vector<Array> results = on_devices(4, [](Transport&, Meeting) {
    return on_devices(3, [](Transport& transport, Meeting meeting) {
      return transport.all_gather(meeting, ints({static_cast<int32_t>(meeting.device)}), 0);
    })[0];
  });
  for (const Array& array : results) EXPECT_EQ(values(array), (Ints{0, 1, 2}));
}

TEST(LocalTransport, GathersUnevenParts) {
  const std::vector<Ints> parts = {{1, 2}, {3}, {}, {4, 5, 6}};
  for (const Array& array : on_devices(
           4, [&](Transport&t, Meeting m) { return t.all_gather(m, ints(parts[m.device]), 0); }))
    EXPECT_EQ(values(array), (Ints{1, 2, 3, 4, 5, 6}));
}

TEST(LocalTransport, GathersAlongAnInnerDimension) {
  for (const Array& array : on_devices(2, [&](Transport&t, Meeting m) {
         const int32_t d = 10 * static_cast<int32_t>(m.device);
         return t.all_gather(m, ints({d, d + 1}, {2, 1}), 1);
       }))
    EXPECT_EQ(values(array), (Ints{0, 10, 1, 11}));
}

TEST(LocalTransport, ReducesByEveryOperatorAndByAFunction) {
  auto reduced = [](PartReducer reducer) {
    return values(on_devices(3, [&](Transport& t, Meeting m) {
      const auto d = static_cast<int32_t>(m.device);
      return t.all_reduce(m, ints({d + 1, 6 - d}), reducer);
    })[2]);
  };
  EXPECT_EQ(reduced({ReduceOp::Sum, {}}), (Ints{6, 15}));
  EXPECT_EQ(reduced({ReduceOp::Prod, {}}), (Ints{6, 120}));
  EXPECT_EQ(reduced({ReduceOp::Max, {}}), (Ints{3, 6}));
  EXPECT_EQ(reduced({ReduceOp::Min, {}}), (Ints{1, 4}));
  EXPECT_EQ(reduced({ReduceOp::Or, {}}), (Ints{3, 7}));
  EXPECT_EQ(reduced({ReduceOp::Sum,
                     [](const Array& a, const Array& b) {
                       return ints({values(a)[0] * 10 + values(b)[0], values(a)[1] - values(b)[1]});
                     }}),
            (Ints{123, 6 - 5 - 4}));
}

TEST(LocalTransport, LongSumsAreSplitOverTheMembers) {
  constexpr int64_t n = 50'001;
  for (const Array& array : on_devices(3, [&](Transport&t, Meeting m) {
         Array part(DType::I32, {n});
         for (int64_t i = 0; i < n; ++i)
           part.data<int32_t>()[i] = static_cast<int32_t>(i * (m.device + 1));
         return t.all_reduce(m, part, {});
       }))
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(array.data<int32_t>()[i], 6 * i);
}

TEST(LocalTransport, HalfSumsAreAccumulatedWide) {
  // 2048 + 1 + 1: in half precision every step would stay at 2048.
  const std::array<_Float16, 3> parts = {2048, 1, 1};
  const auto sums = on_devices(3, [&](Transport& t, Meeting m) {
    return t.all_reduce(m, Array::from_bytes(DType::F16, {1}, &parts[m.device]), {});
  });
  EXPECT_EQ(static_cast<float>(*sums[0].data<_Float16>()), 2050.0f);
}

TEST(LocalTransport, ReduceScatterGivesUnevenPieces) {
  const std::array<int64_t, 3> sizes = {2, 2, 1};
  const auto pieces = on_devices(3, [&](Transport& t, Meeting m) {
    const auto d = static_cast<int32_t>(m.device);
    return t.reduce_scatter(m, ints({d, d + 1, d + 2, d + 3, d + 4}), 0, sizes, {});
  });
  EXPECT_EQ(values(pieces[0]), (Ints{3, 6}));
  EXPECT_EQ(values(pieces[1]), (Ints{9, 12}));
  EXPECT_EQ(values(pieces[2]), (Ints{15}));
}

TEST(LocalTransport, AllToAllSplitsAndJoins) {
  // Rows of a 2x3 matrix per device, split by columns 2 + 1, joined along rows.
  const std::array<int64_t, 2> sizes = {2, 1};
  const auto out = on_devices(2, [&](Transport& t, Meeting m) {
    const int32_t d = 3 * static_cast<int32_t>(m.device);
    return t.all_to_all(m, ints({d, d + 1, d + 2}, {1, 3}), 1, 0, sizes);
  });
  EXPECT_EQ(out[0].shape(), (Shape{2, 2}));
  EXPECT_EQ(values(out[0]), (Ints{0, 1, 3, 4}));
  EXPECT_EQ(values(out[1]), (Ints{2, 5}));
}

TEST(LocalTransport, PermuteLeavesThoseWithoutSourceEmpty) {
  const std::vector<std::pair<int64_t, int64_t>> pairs = {{0, 1}, {1, 2}};
  const auto out = on_devices(3, [&](Transport& t, Meeting m) {
    return t.permute(m, ints({static_cast<int32_t>(m.device)}), pairs);
  });
  EXPECT_FALSE(out[0].valid());
  EXPECT_EQ(values(out[1]), (Ints{0}));
  EXPECT_EQ(values(out[2]), (Ints{1}));
}

TEST(LocalTransport, BroadcastsFromARoot) {
  for (const Array& array : on_devices(3, [&](Transport&t, Meeting m) {
         return t.broadcast(m, ints({static_cast<int32_t>(m.device)}), 1);
       }))
    EXPECT_EQ(values(array), (Ints{1}));
}

TEST(LocalTransport, GroupsDoNotDisturbEachOtherOverManyRounds) {
  on_devices(4, [&](Transport& t, Meeting m) {
    const std::array<int64_t, 2> row = {m.device / 2 * 2, m.device / 2 * 2 + 1};
    const std::array<int64_t, 2> column = {m.device % 2, m.device % 2 + 2};
    int32_t x = static_cast<int32_t>(m.device);
    for (int round = 0; round < 200; ++round) {
      x = values(t.all_reduce({m.device, row, "row"}, ints({x}), {}))[0] % 1000;
      x = values(t.all_reduce({m.device, column, "column"}, ints({x}), {}))[0] % 1000;
    }
    EXPECT_EQ(x, values(t.broadcast(m, ints({x}), 0))[0]);
    return Array();
  });
}

std::string failure(int64_t n, const std::function<void(Transport&, Meeting)>& task) {
  return error_of<std::exception>([&] {
    on_devices(n, [&](Transport& t, Meeting m) {
      task(t, m);
      return Array();
    });
  });
}

TEST(LocalTransport, AThrowReachesEveryoneAndIsReported) {
  std::mutex mutex;
  std::vector<std::string> seen;
  const std::string message = failure(3, [&](Transport& t, Meeting m) {
    if (m.device == 1) throw_user("out of numbers");
    try {
      t.all_gather(m, ints({1}), 0);
    } catch (const TransportError& error) {
      std::lock_guard lock(mutex);
      seen.push_back(error.what());
      throw;
    }
  });
  EXPECT_EQ(message, "out of numbers");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_THAT(seen[0], testing::HasSubstr("waits in test.op: device 1 failed: out of numbers"));
}

TEST(LocalTransport, AMemberThatHasEndedIsNamed) {
  EXPECT_THAT(failure(2,
                      [&](Transport& t, Meeting m) {
                        if (m.device == 0) t.all_gather(m, ints({1}), 0);
                      }),
              testing::HasSubstr("device 0 waits in test.op: device 1 has ended"));
}

TEST(LocalTransport, UnlikeCollectivesAreNamed) {
  EXPECT_THAT(failure(2,
                      [&](Transport& t, Meeting m) {
                        m.what = m.device == 0 ? "all_gather %1" : "all_reduce %2";
                        t.gather(m, ints({1}));
                      }),
              testing::HasSubstr("while device"));
}

TEST(LocalTransport, DeadlockIsAnError) {
  EXPECT_THAT(failure(3,
                      [&](Transport& t, Meeting m) {
                        const std::array<int64_t, 2> pair = {m.device, (m.device + 1) % 3};
                        t.gather({m.device, pair, "ring"}, ints({1}));
                      }),
              testing::HasSubstr("every device waits for another"));
}

TEST(LocalTransport, ChannelsKeepTheOrder) {
  on_devices(2, [&](Transport& t, Meeting m) {
    for (int32_t i = 0; i < 5; ++i) {
      if (m.device == 0) {
        t.send(0, 7, {ints({i})});
      } else {
        EXPECT_EQ(values(t.receive(1, 7, "recv")[0]), (Ints{i}));
      }
    }
    return Array();
  });
}

}  // namespace
}  // namespace cleave
