#include "cleave/runtime/local_transport.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "cleave/core/error.h"
#include "cleave/kernels/combine.h"

namespace cleave {
namespace {

// One meeting of a group. Members arrive with what they bring; the last one to arrive prepares the
// result; then all work on it together, and the last one to finish lets everybody go.
struct Round {
  std::vector<std::vector<Array>> brought;  // by member
  std::vector<std::string> what;            // by member
  std::vector<bool> here;
  size_t arrived = 0, worked = 0;
  bool prepared = false;
  Array result;  // shared by all, where the collective has one
};

struct Meetings {
  std::deque<std::shared_ptr<Round>> open;  // not yet complete, oldest first
  std::map<int64_t, size_t> next;           // by device: how many of `open` it has arrived at
};

struct Waiter {
  int64_t device;
  std::string_view what;
  const std::function<bool()>& ready;
};

class LocalTransport : public Transport {
 public:
  explicit LocalTransport(int64_t num_devices)
      : num_devices_(num_devices), left_(static_cast<size_t>(num_devices), false) {}

  int64_t num_devices() const override { return num_devices_; }

  std::vector<Array> gather(const Meeting& meeting, const Array& part) override {
    const auto round = meet(meeting, {part}, nullptr);
    std::vector<Array> parts;
    for (const auto& arrays : round->brought) parts.push_back(arrays[0]);
    return parts;
  }

  std::vector<Array> exchange(const Meeting& meeting, std::vector<Array> outgoing,
                              const std::vector<bool>& /*comes*/) override {
    if (outgoing.size() != meeting.group.size())
      throw_internal("{}: {} arrays for a group of {}", meeting.what, outgoing.size(),
                     meeting.group.size());
    const size_t me = place(meeting);
    const auto round = meet(meeting, std::move(outgoing), nullptr);
    std::vector<Array> incoming;
    for (const auto& arrays : round->brought) incoming.push_back(arrays[me]);
    return incoming;
  }

  Array all_gather(const Meeting& meeting, const Array& part, int64_t dim) override {
    if (meeting.group.size() == 1) return part;
    const auto round = meet(meeting, {part}, [&](Round& round) {
      Shape shape = part.shape();
      shape[dim] = 0;
      for (const auto& arrays : round.brought) shape[dim] += arrays[0].shape()[dim];
      round.result = Array(part.dtype(), shape);
    });
    Shape start(part.rank(), 0);
    for (size_t i = 0; i < place(meeting); ++i) start[dim] += round->brought[i][0].shape()[dim];
    copy_elements(part, round->result.slice(start, part.shape()));
    finish(meeting, *round);
    return round->result;
  }

  Array all_reduce(const Meeting& meeting, const Array& part, const PartReducer& reducer) override {
    if (meeting.group.size() == 1 || reducer.combine)
      return Transport::all_reduce(meeting, part, reducer);
    const auto round = meet(meeting, {part.contiguous()}, [&](Round& round) {
      for (const auto& arrays : round.brought)
        if (arrays[0].shape() != part.shape())
          throw_user("{}: parts of shapes {} and {} cannot be reduced", meeting.what,
                     to_string(part.shape()), to_string(arrays[0].shape()));
      round.result = Array(part.dtype(), part.shape());
    });
    std::vector<const std::byte*> parts;
    for (const auto& arrays : round->brought) parts.push_back(arrays[0].raw());
    const int64_t n = part.num_elements();
    const int64_t chunk = std::max<int64_t>(ceil_div(n, static_cast<int64_t>(parts.size())), 4096);
    const int64_t begin = std::min(n, chunk * static_cast<int64_t>(place(meeting)));
    combine_parts(reducer.op, part.dtype(), parts, round->result.raw(), begin,
                  std::min(n, begin + chunk));
    finish(meeting, *round);
    return round->result;
  }

  void send(int64_t, int64_t channel, std::vector<Array> arrays) override {
    std::lock_guard lock(mutex_);
    channels_[channel].push_back(std::move(arrays));
    changed_.notify_all();
  }

  std::vector<Array> receive(int64_t device, int64_t channel, std::string_view what) override {
    std::unique_lock lock(mutex_);
    wait(
        lock, device, what, [&] { return !channels_[channel].empty(); },
        [] { return std::string(); });
    std::vector<Array> arrays = std::move(channels_[channel].front());
    channels_[channel].pop_front();
    return arrays;
  }

  void leave(int64_t device) override {
    std::lock_guard lock(mutex_);
    left_[static_cast<size_t>(device)] = true;
    changed_.notify_all();
  }

  void fail(int64_t device, std::string_view message) override {
    std::lock_guard lock(mutex_);
    left_[static_cast<size_t>(device)] = true;
    if (failure_.empty()) failure_ = fmt::format("device {} failed: {}", device, message);
    changed_.notify_all();
  }

 private:
  static size_t place(const Meeting& meeting) {
    const auto it = std::find(meeting.group.begin(), meeting.group.end(), meeting.device);
    internal_check(it != meeting.group.end(),
                   "a device in a collective of a group that it is not in");
    return static_cast<size_t>(it - meeting.group.begin());
  }

  // Waits until all of the group have arrived. The first of them to wake up calls `prepare`.
  std::shared_ptr<Round> meet(const Meeting& meeting, std::vector<Array> brings,
                              const std::function<void(Round&)>& prepare) {
    const size_t me = place(meeting);
    const std::vector<int64_t> key(meeting.group.begin(), meeting.group.end());
    std::unique_lock lock(mutex_);
    Meetings& meetings = meetings_[key];
    size_t& next = meetings.next[meeting.device];
    if (next == meetings.open.size()) {
      auto round = std::make_shared<Round>();
      round->brought.resize(key.size());
      round->what.resize(key.size());
      round->here.resize(key.size());
      meetings.open.push_back(std::move(round));
    }
    const std::shared_ptr<Round> round = meetings.open[next++];
    round->brought[me] = std::move(brings);
    round->what[me] = meeting.what;
    round->here[me] = true;
    if (++round->arrived == key.size()) {
      meetings.open.pop_front();
      for (auto& [device, count] : meetings.next) --count;
      changed_.notify_all();
    }
    wait(
        lock, meeting.device, meeting.what, [&] { return round->arrived == key.size(); },
        [&] { return hopeless(key, *round); });
    for (size_t i = 0; i < key.size(); ++i)
      if (round->brought[i].size() != round->brought[me].size() ||
          kind(round->what[i]) != kind(meeting.what))
        throw TransportError(fmt::format("device {} is in {} while device {} is in {}",
                                         meeting.device, meeting.what, key[i], round->what[i]));
    if (prepare && !round->prepared) {
      prepare(*round);
      round->prepared = true;
    }
    return round;
  }

  // After the common work on round.result: nobody goes on before it is whole.
  void finish(const Meeting& meeting, Round& round) {
    std::unique_lock lock(mutex_);
    if (++round.worked == meeting.group.size()) changed_.notify_all();
    wait(
        lock, meeting.device, meeting.what, [&] { return round.worked == meeting.group.size(); },
        [] { return std::string(); });
  }

  static std::string_view kind(std::string_view what) { return what.substr(0, what.find(' ')); }

  // Why the round can never be complete, or empty.
  std::string hopeless(const std::vector<int64_t>& group, const Round& round) const {
    for (size_t i = 0; i < group.size(); ++i)
      if (!round.here[i] && left_[static_cast<size_t>(group[i])])
        return fmt::format("device {} has ended without taking part", group[i]);
    return {};
  }

  // Blocks until `ready`. `hopeless` says why that can never be, or nothing.
  void wait(std::unique_lock<std::mutex>& lock, int64_t device, std::string_view what,
            const std::function<bool()>& ready, const std::function<std::string()>& hopeless) {
    if (ready()) return;
    const Waiter self{device, what, ready};
    waiters_.push_back(&self);
    std::string reason;
    while (!ready()) {
      if (failure_.empty() && (reason = hopeless()).empty()) find_deadlock();
      if (reason.empty()) reason = failure_;
      if (!reason.empty()) break;
      changed_.wait(lock);
    }
    std::erase(waiters_, &self);
    if (!reason.empty())
      throw TransportError(fmt::format("device {} waits in {}: {}", device, what, reason));
  }

  // Every device that has not left waits, and none has what it waits for.
  void find_deadlock() {
    const auto running = std::count(left_.begin(), left_.end(), false);
    if (static_cast<int64_t>(waiters_.size()) < running) return;
    for (const Waiter* waiter : waiters_)
      if (waiter->ready()) return;
    failure_ = "every device waits for another:";
    for (const Waiter* waiter : waiters_)
      failure_ += fmt::format(" device {} in {};", waiter->device, waiter->what);
    failure_.pop_back();
    changed_.notify_all();
  }

  const int64_t num_devices_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> left_;
  std::string failure_;
  std::vector<const Waiter*> waiters_;
  std::map<std::vector<int64_t>, Meetings> meetings_;
  std::map<int64_t, std::deque<std::vector<Array>>> channels_;
};

}  // namespace

std::unique_ptr<Transport> make_local_transport(int64_t num_devices) {
  return std::make_unique<LocalTransport>(num_devices);
}

}  // namespace cleave
