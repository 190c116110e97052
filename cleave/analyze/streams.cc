#include "cleave/analyze/streams.h"

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <set>
#include <span>

#include "cleave/core/parallel.h"

namespace cleave::analyze {
namespace {

constexpr double kNoTime = std::numeric_limits<double>::infinity();

// One stretch on streams that are free at time 0.
class StretchLayer {
 public:
  StretchLayer(const std::vector<Task>& tasks, const std::vector<LikeCollectives>& like,
               const StreamOptions& options, int window)
      : tasks_(tasks), like_(like), options_(options), window_(window) {}

  StreamSchedule run() {
    prepare();
    for (size_t i = 0; i < tasks_.size(); ++i)
      if (waits_[i] == 0 && tasks_[i].after.empty()) release(static_cast<int>(i));
    double now = 0;
    while (left_ > 0) {
      start_compute(now);
      start_collective(Stream::Inside, now);
      start_collective(Stream::Across, now);
      keep_pace(now);
      double next = kNoTime;
      for (const Running& running : running_)
        if (!running.tasks.empty()) next = std::min(next, running.end);
      now = next;
      for (Running& running : running_)
        if (!running.tasks.empty() && running.end <= now) {
          ended_.swap(running.tasks);
          running.tasks.clear();
          for (int task : ended_) finish(task);
        }
    }
    result_.seconds = now;
    return std::move(result_);
  }

 private:
  struct Running {
    std::vector<int> tasks;
    double end = 0;
    double pace = 1;  // seconds for a second of work
  };
  template <class Key>
  using Least = std::priority_queue<std::pair<Key, int>, std::vector<std::pair<Key, int>>,
                                    std::greater<std::pair<Key, int>>>;
  // Collectives that could start, by first use and place.
  using Ready = std::set<std::pair<int, int>>;

  void prepare() {
    const size_t n = tasks_.size();
    waits_.assign(n, 0);
    ordinal_.assign(n, -1);
    first_user_.assign(n + 1, 0);
    for (size_t i = 0; i < n; ++i) {
      waits_[i] = static_cast<int>(tasks_[i].after.size());
      for (int before : tasks_[i].after) ++first_user_[before + 1];
      if (computes(tasks_[i])) ordinal_[i] = computing_++;
    }
    std::partial_sum(first_user_.begin(), first_user_.end(), first_user_.begin());
    users_.resize(first_user_.back());
    std::vector<int> next(first_user_.begin(), first_user_.end() - 1);
    for (size_t i = 0; i < n; ++i)
      for (int before : tasks_[i].after) users_[next[before]++] = static_cast<int>(i);
    begun_.assign(computing_, false);
    given_back_.assign(computing_ + 1, 0.0);
    chain_.assign(n, 0.0);
    first_use_.assign(n, computing_);
    for (size_t i = n; i-- > 0;) {
      for (int user : users(static_cast<int>(i))) {
        chain_[i] = std::max(chain_[i], chain_[user]);
        const int use = ordinal_[user] >= 0 ? ordinal_[user] : first_use_[user];
        first_use_[i] = std::min(first_use_[i], use);
      }
      chain_[i] += tasks_[i].seconds;
    }
    left_ = static_cast<int>(n);
  }

  // The tasks that wait for one.
  std::span<const int> users(int id) const {
    return std::span(users_).subspan(first_user_[id], first_user_[id + 1] - first_user_[id]);
  }

  static bool computes(const Task& task) {
    return task.stream == Stream::Compute && task.seconds > 0;
  }

  // Everything that it waits for has ended.
  void release(int id) {
    const Task& task = tasks_[id];
    if (task.seconds <= 0)
      finish(id);
    else if (task.stream == Stream::Compute)
      later_.emplace(ordinal_[id], id);
    else
      (grows(id) ? growing_ : steady_)[static_cast<size_t>(task.stream)].insert(
          {first_use_[id], id});
  }

  // What nothing computes with is a result: it is held to the end in any case.
  bool grows(int id) const { return tasks_[id].grows > 0 && first_use_[id] < computing_; }

  // Chains of tasks that take no time may be as long as the program.
  void finish(int id) {
    done_.assign(1, id);
    while (!done_.empty()) {
      const int task = done_.back();
      done_.pop_back();
      --left_;
      for (int user : users(task)) {
        if (--waits_[user] > 0) continue;
        if (tasks_[user].seconds <= 0)
          done_.push_back(user);
        else
          release(user);
      }
    }
  }

  void start_compute(double now) {
    Running& running = running_[static_cast<size_t>(Stream::Compute)];
    if (!running.tasks.empty()) return;
    while (!later_.empty() && later_.top().first < front_ + window_) {
      const int id = later_.top().second;
      later_.pop();
      near_.emplace(-chain_[id], id);
    }
    if (near_.empty()) return;
    const int id = near_.top().second;
    near_.pop();
    begun_[ordinal_[id]] = true;
    while (front_ < computing_ && begun_[front_]) ahead_ -= given_back_[front_++];
    running.tasks.push_back(id);
    start(Stream::Compute, tasks_[id].seconds, now);
  }

  // Whether it may begin now, for all that it holds until it is used.
  bool may_grow(int id) const {
    return first_use_[id] <= front_ || ahead_ == 0 ||
           ahead_ + tasks_[id].grows <= options_.prefetch_bytes;
  }

  void start_collective(Stream stream, double now) {
    std::vector<int>& together = running_[static_cast<size_t>(stream)].tasks;
    if (!together.empty()) return;
    Ready &growing = growing_[static_cast<size_t>(stream)],
          &steady = steady_[static_cast<size_t>(stream)];
    Ready* from = nullptr;
    if (!growing.empty() && may_grow(growing.begin()->second)) from = &growing;
    if (!steady.empty() && (!from || *steady.begin() < *growing.begin())) from = &steady;
    if (!from) return;
    const int first = from->begin()->second;
    together.push_back(first);
    take(*from, from->begin());
    const int like = tasks_[first].like;
    double bytes = tasks_[first].bytes;
    const double limit = like >= 0 ? like_[like].limit : 0;
    // Others that are ready, as long as all of them are small.
    for (auto it = from->begin(); bytes < limit && it != from->end();) {
      const Task& task = tasks_[it->second];
      if (from == &growing && !may_grow(it->second)) break;
      const auto next = std::next(it);
      if (task.like == like && bytes + task.bytes <= limit) {
        bytes += task.bytes;
        together.push_back(it->second);
        take(*from, it);
      }
      it = next;
    }
    start(stream, together.size() > 1 ? like_[like].cost.seconds(bytes) : tasks_[first].seconds,
          now);
  }

  void take(Ready& from, Ready::iterator it) {
    const int id = it->second;
    from.erase(it);
    if (!grows(id) || first_use_[id] < front_) return;
    ahead_ += tasks_[id].grows;
    given_back_[first_use_[id]] += tasks_[id].grows;
  }

  // What stands in the list of the stream, from now on.
  void start(Stream stream, double seconds, double now) {
    Running& running = running_[static_cast<size_t>(stream)];
    running.end = now + seconds;
    running.pace = 1;
    result_.busy[static_cast<size_t>(stream)] += seconds;
    if (options_.explains) add_events(running.tasks, stream, seconds, now);
  }

  void add_events(const std::vector<int>& tasks, Stream stream, double seconds, double now) {
    if (stream == Stream::Compute) computing_event_ = result_.events.size();
    double apart = 0;
    for (int id : tasks) apart += tasks_[id].seconds;
    double at = now;
    for (size_t i = 0; i < tasks.size(); ++i) {
      const double end =
          i + 1 == tasks.size()
              ? now + seconds
              : std::min(now + seconds, at + seconds * tasks_[tasks[i]].seconds / apart);
      result_.events.push_back({tasks_[tasks[i]].tag, stream, at, end, 1, 0});
      at = end;
    }
  }

  // What is being computed goes on as fast as the collectives beside it allow.
  void keep_pace(double now) {
    Running& kernel = running_[static_cast<size_t>(Stream::Compute)];
    if (kernel.tasks.empty()) return;
    double pace = 1;
    for (Stream stream : {Stream::Inside, Stream::Across})
      if (!running_[static_cast<size_t>(stream)].tasks.empty()) pace += options_.slowdown;
    if (pace == kernel.pace) return;
    const double end = now + (kernel.end - now) * (pace / kernel.pace);
    result_.busy[static_cast<size_t>(Stream::Compute)] += end - kernel.end;
    result_.slowed += end - kernel.end;
    kernel.end = end;
    if (options_.explains) result_.events[computing_event_].end = end;
    kernel.pace = pace;
  }

  const std::vector<Task>& tasks_;
  const std::vector<LikeCollectives>& like_;
  const StreamOptions& options_;
  const int window_;
  std::vector<int> waits_;       // by task: how many others it waits for
  std::vector<int> users_;       // of all tasks, one after the other
  std::vector<int> first_user_;  // by task: where its users begin
  std::vector<int> ordinal_;     // by task that computes: its number among those
  std::vector<int> first_use_;   // by task: the first number that needs it
  std::vector<double> chain_;    // by task: the longest chain that begins with it
  int computing_ = 0;
  int left_ = 0;
  std::vector<bool> begun_;         // by number
  int front_ = 0;                   // the first number that has not begun
  double ahead_ = 0;                // bytes that were made larger for ops that have not begun
  std::vector<double> given_back_;  // by number: bytes that are not ahead once it begins
  Least<int> later_;                // ready, by number
  Least<double> near_;              // ready within the window, the longest chain first
  std::array<Ready, kNumStreams> growing_, steady_;
  std::array<Running, kNumStreams> running_;
  std::vector<int> ended_, done_;  // for `run` and `finish`
  size_t computing_event_ = 0;     // of what is being computed
  StreamSchedule result_;
};

// By stream, the numbers of its events, which follow each other in time.
using ByStream = std::array<std::vector<size_t>, kNumStreams>;

ByStream by_stream(const StreamSchedule& schedule) {
  ByStream of;
  for (size_t e = 0; e < schedule.events.size(); ++e)
    of[static_cast<size_t>(schedule.events[e].stream)].push_back(e);
  return of;
}

// How long collectives run while nothing is computed, by a sweep over all starts and ends.
void find_exposed(StreamSchedule& schedule, const ByStream& of) {
  std::array<size_t, kNumStreams> edges{};  // that were passed, by stream
  const auto time_of = [&](int s, size_t edge) {
    const StreamEvent& event = schedule.events[of[s][edge / 2]];
    return edge % 2 == 0 ? event.start : event.end;
  };
  double last = 0;
  while (true) {
    int next = -1;
    for (int s = 0; s < kNumStreams; ++s)
      if (edges[s] < 2 * of[s].size() &&
          (next < 0 || time_of(s, edges[s]) < time_of(next, edges[next])))
        next = s;
    if (next < 0) return;
    const double time = time_of(next, edges[next]), passed = time - last;
    last = time;
    // A stream is busy after a start, and before the end that follows.
    const auto busy = [&](int s) { return edges[s] % 2 == 1; };
    constexpr int kCompute = static_cast<int>(Stream::Compute);
    if (passed > 0 && !busy(kCompute)) {
      int running = 0;
      for (int s = 0; s < kNumStreams; ++s) running += busy(s);
      for (int s = 0; s < kNumStreams; ++s)
        if (busy(s)) schedule.events[of[s][edges[s] / 2]].exposed += passed / running;
    }
    ++edges[next];
  }
}

// From the last end back to the start: a task begins when its stream is free, or when the last one
// that it waits for ends.
void find_critical(StreamSchedule& schedule, const ByStream& of) {
  std::array<size_t, kNumStreams> left{};  // of the events of a stream, those that end in time
  for (int s = 0; s < kNumStreams; ++s) left[s] = of[s].size();
  double at = schedule.seconds;
  int stream = -1;
  while (true) {
    int found = -1;
    for (int s = 0; s < kNumStreams; ++s) {
      const auto event = [&]() -> const StreamEvent& {
        return schedule.events[of[s][left[s] - 1]];
      };
      while (left[s] > 0 && (event().end > at || event().end == event().start)) --left[s];
      if (left[s] == 0 || event().end != at) continue;
      if (found < 0 || s == stream ||
          (found != stream && of[s][left[s] - 1] < of[found][left[found] - 1]))
        found = s;
    }
    if (found < 0) return;
    StreamEvent& event = schedule.events[of[found][left[found] - 1]];
    event.is_critical = true;
    stream = found;
    at = event.start;
  }
}

StreamSchedule one_after_the_other(const std::vector<Task>& tasks) {
  StreamSchedule schedule;
  for (const Task& task : tasks) {
    if (task.seconds <= 0) continue;
    const double end = schedule.seconds + task.seconds;
    schedule.events.push_back({task.tag, task.stream, schedule.seconds, end, 1, 0});
    schedule.busy[static_cast<size_t>(task.stream)] += task.seconds;
    schedule.seconds = end;
  }
  return schedule;
}

std::vector<Task> with_preparation_aside(std::vector<Task> tasks) {
  std::vector<bool> is_early(tasks.size());  // waits for no collective
  for (size_t i = 0; i < tasks.size(); ++i)
    is_early[i] = tasks[i].stream == Stream::Compute &&
                  std::all_of(tasks[i].after.begin(), tasks[i].after.end(),
                              [&](int before) { return is_early[before]; });
  std::vector<Stream> goes_to(tasks.size(), Stream::Compute);  // of the collectives that use it
  std::vector<int> users(tasks.size()), aside(tasks.size());
  for (size_t i = tasks.size(); i-- > 0;) {
    // All that uses it is on its way to a gather; so is a collective whose next step gathers.
    const bool is_for_gather = users[i] > 0 && aside[i] == users[i];
    const bool gathers =
        tasks[i].stream != Stream::Compute && (tasks[i].grows > 0 || is_for_gather);
    const bool prepares = is_early[i] && is_for_gather;
    for (int before : tasks[i].after) {
      ++users[before];
      if (!gathers && !prepares) continue;
      ++aside[before];
      goes_to[before] = gathers ? tasks[i].stream : goes_to[i];
    }
    if (prepares) tasks[i].stream = goes_to[i];
  }
  return tasks;
}

bool communicates(const std::vector<Task>& tasks) {
  return std::any_of(tasks.begin(), tasks.end(), [](const Task& task) {
    return task.stream != Stream::Compute && task.seconds > 0;
  });
}

StreamSchedule lay_out_stretch(const std::vector<Task>& given,
                               const std::vector<LikeCollectives>& like,
                               const StreamOptions& options) {
  std::vector<Task> prepared;
  if (options.prepares_aside) prepared = with_preparation_aside(given);
  const std::vector<Task>& tasks = options.prepares_aside ? prepared : given;
  StreamSchedule schedule;
  if (options.overlaps) {
    const bool tries_both = options.tries_in_order && options.window > 1 && communicates(tasks);
    const int first = options.tries_in_order ? 1 : options.window;
    StreamSchedule ahead;
    run_parallel(tries_both ? 2 : 1, options.threads, [&](int task) {
      (task == 0 ? schedule : ahead) =
          StretchLayer(tasks, like, options, task == 0 ? first : options.window).run();
    });
    if (tries_both && ahead.seconds < schedule.seconds) schedule = std::move(ahead);
  } else {
    schedule = one_after_the_other(tasks);
  }
  if (!options.explains) return schedule;
  const ByStream of = by_stream(schedule);
  find_exposed(schedule, of);
  find_critical(schedule, of);
  schedule.exposed = 0;
  for (const StreamEvent& event : schedule.events) schedule.exposed += event.exposed;
  return schedule;
}

void append(StreamSchedule& to, const StreamSchedule& more, double times) {
  for (StreamEvent event : more.events) {
    event.start += to.seconds;
    event.end += to.seconds;
    event.executions *= times;
    to.events.push_back(event);
  }
  for (MoreTrips again : more.more_trips) {
    again.start += to.seconds;
    again.end += to.seconds;
    to.more_trips.push_back(again);
  }
  if (times > 1)
    to.more_trips.push_back(
        {to.seconds + more.seconds, to.seconds + more.seconds * times, times - 1});
  to.seconds += more.seconds * times;
  to.exposed += more.exposed * times;
  to.slowed += more.slowed * times;
  for (int s = 0; s < kNumStreams; ++s) to.busy[s] += more.busy[s] * times;
}

StreamSchedule lay_out_work(const Work& work, const std::vector<LikeCollectives>& like,
                            const StreamOptions& options) {
  StreamSchedule whole;
  if (work.stretches.size() == 1 && work.stretches[0].inner < 0)
    return lay_out_stretch(work.stretches[0].tasks, like, options);
  for (const Work::Stretch& stretch : work.stretches) {
    if (!stretch.tasks.empty()) append(whole, lay_out_stretch(stretch.tasks, like, options), 1);
    if (stretch.inner >= 0 && stretch.times > 0)
      append(whole, lay_out_work(work.inners[stretch.inner], like, options), stretch.times);
  }
  return whole;
}

}  // namespace

std::string_view name(Stream stream) {
  constexpr std::string_view kNames[] = {"compute", "inside a node", "across nodes"};
  return kNames[static_cast<size_t>(stream)];
}

void sort_waits(Task& task) {
  std::sort(task.after.begin(), task.after.end());
  const int* end = std::unique(task.after.begin(), task.after.end());
  task.after.truncate(static_cast<uint32_t>(end - task.after.begin()));
}

bool takes_time(const Work& work) {
  return std::any_of(work.stretches.begin(), work.stretches.end(), [](const auto& stretch) {
    return stretch.inner >= 0 || std::any_of(stretch.tasks.begin(), stretch.tasks.end(),
                                             [](const Task& task) { return task.seconds > 0; });
  });
}

StreamSchedule lay_out(const Work& work, const StreamOptions& options) {
  return lay_out_work(work, work.like, options);
}

}  // namespace cleave::analyze
