#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cleave/core/small_vector.h"
#include "cleave/machine/collective.h"
#include "cleave/machine/profile.h"

namespace cleave::analyze {

// A device works on several things at once: it computes, and it communicates inside its node and
// across nodes. Each is a stream, and does one thing after the other.
enum class Stream : uint8_t { Compute, Inside, Across };
inline constexpr int kNumStreams = 3;
std::string_view name(Stream stream);  // "compute", "inside a node", "across nodes"

// Collectives of one kind over one group, which may run as one.
struct LikeCollectives {
  CollectiveCost cost;
  double limit = 0;  // bytes of those that run as one; 0: each runs alone
};

// A piece of work: an op, or one step of a change of layout.
struct Task {
  int64_t tag = -1;  // whose it is: for the caller
  Stream stream = Stream::Compute;
  double seconds = 0;
  double grows = 0;  // bytes: how much larger its result is than what it takes
  double bytes = 0;  // of a collective that may be combined: the larger side of its buffer
  int like = -1;     // of a collective: its place in Work::like
  SmallVector<int, 4> after{};  // tasks of the same stretch, earlier ones, that must have ended
};

// Each task that it waits for once, in their order.
void sort_waits(Task& task);

// What one device does, in the order of the program. A loop or a condition stands between
// stretches: everything before it ends first, and nothing after it begins earlier.
struct Work {
  struct Stretch {
    std::vector<Task> tasks;
    int inner = -1;  // then, if not negative: a Work of `inners`, so many times
    double times = 1;
  };
  std::vector<Stretch> stretches;
  std::vector<Work> inners;
  std::vector<LikeCollectives> like;
};

bool takes_time(const Work& work);

// How the streams are filled.
struct StreamOptions {
  bool overlaps = true;  // false: one task after the other, in the order of the program
  // Computation may go ahead of the first op that has not begun by so many ops; 1: in order.
  int window = 1;
  bool tries_in_order = true;  // with a window: whether computing in order may be quicker
  bool explains = true;        // false: only how long it takes, without events
  int threads = 1;             // both orders are tried side by side
  // Values that collectives make larger ahead of time (gathered weights) hold at most so much.
  double prefetch_bytes = 0;
  // What is computed without any collective, for gathers alone, runs on the stream of the gather:
  // FSDP converts parameters there. Products whose sums are scattered do not.
  bool prepares_aside = false;
  // Beside each stream of collectives a kernel takes longer by this share of its time.
  double slowdown = 0;
};
StreamOptions stream_options(const MachineProfile& profile);

// One execution of a task. Collectives that run as one follow each other, and end together for
// those that wait for them.
struct StreamEvent {
  int64_t tag = -1;
  Stream stream = Stream::Compute;
  double start = 0, end = 0;  // of the first execution
  double executions = 1;
  double exposed = 0;        // seconds of [start, end) in which nothing is computed, shared between
                             // collectives of different streams; 0 for what computes
  bool is_critical = false;  // on the chain of tasks without a gap that makes the schedule as long
};

// The trips of a loop after the first one, whose events are there.
struct MoreTrips {
  double start = 0, end = 0;
  double trips = 0;
};

struct StreamSchedule {
  double seconds = 0;                      // from the first start to the last end
  std::array<double, kNumStreams> busy{};  // by stream, all executions
  double slowed = 0;                       // of the computation: for collectives beside it
  double exposed = 0;                      // seconds in which the device communicates only
  std::vector<StreamEvent> events;         // by stretch, then by start
  std::vector<MoreTrips> more_trips;

  double communication() const {
    return busy[static_cast<size_t>(Stream::Inside)] + busy[static_cast<size_t>(Stream::Across)];
  }
  // Under computation, or beside other communication.
  double hidden() const { return communication() - exposed; }
};

// A task starts when what it waits for has ended and its stream is free. Of the collectives that
// wait for a stream, the one whose result is computed with first goes first. Of the ops that can
// run within the window, the one goes first after which the longest chain of tasks follows; if
// computing in order is quicker, that is done. Kernels slow down while collectives run:
//
//   4 s of kernels and 2 s of collectives beside them, slowdown 0.25:
//   in 2 s, 1.6 s of kernels are done; the other 2.4 s follow: 4.4 s, of which 0.4 s are `slowed`
//
// Some stream is always busy, and one second of collectives slows kernels by less than a second. So
// the length is at most the sum over all tasks, and at least the longest chain and the work of each
// stream.
StreamSchedule lay_out(const Work& work, const StreamOptions& options);

}  // namespace cleave::analyze
