#include <mpi.h>
#include <sched.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <list>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cleave/mpi/planned_messages.h"
#include "cleave/runtime/wire.h"

namespace cleave {
namespace {

using Clock = std::chrono::steady_clock;
using mpi::check;
constexpr int kTag = 0;       // of messages with a head
constexpr int kFirstTag = 1;  // of planned ones

// One thread makes all calls to MPI, from MPI_Init to MPI_Finalize. The others hand it messages and
// get those that arrive. It never blocks inside MPI, where waiting means spinning: it tests, and
// between tests it sleeps, the longer the longer nothing has happened; whoever sends wakes it up.
class MpiWire : public Wire {
 public:
  MpiWire() : thread_([this] { run(); }) {}

  // Until MPI has started, which takes all ranks. Where that does not happen, the wire must stay:
  // its thread is inside MPI.
  void await() {
    std::unique_lock lock(mutex_);
    const double seconds = patience();
    if (!changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return started_ || !error_.empty(); }))
      throw std::runtime_error("not all ranks have joined within " + text_of(seconds) +
                               " s (CLEAVE_JOIN_TIMEOUT)");
    if (!error_.empty()) {
      lock.unlock();
      if (thread_.joinable()) thread_.join();
      throw std::runtime_error(error_);
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool one_host() const override { return one_host_; }

  void listen(Allocate allocate, Deliver deliver, Done done) override {
    std::lock_guard lock(mutex_);
    allocate_ = std::move(allocate);
    deliver_ = std::move(deliver);
    planned_.set_done(std::move(done));
    changed_.notify_all();
  }

  void send(int to, Parcel message) override {
    std::lock_guard lock(mutex_);
    outbox_.push_back({to, std::move(message)});
    changed_.notify_all();
  }

  void post(std::span<const Planned> sends, std::span<const Planned> receives) override {
    std::lock_guard lock(mutex_);
    planned_.post(sends, receives);
    changed_.notify_all();
  }

  void forget(int begin, int end) override {
    std::lock_guard lock(mutex_);
    planned_.forget(begin, end);
    changed_.notify_all();
  }

  uint64_t activity() const override { return activity_.load(); }

  void close(bool orderly) override {
    {
      std::lock_guard lock(mutex_);
      (orderly ? closing_ : abandoned_) = true;
      // What a run that failed has sent is taken, so that its sender can end as well.
      planned_.forget(0, kTags);
      changed_.notify_all();
    }
    // The end takes all ranks as well. One that has died in the middle of it is not waited for.
    std::unique_lock lock(mutex_);
    const bool ended =
        changed_.wait_for(lock, std::chrono::duration<double>(patience()), [&] { return ended_; });
    abandoned_ = true;
    changed_.notify_all();
    lock.unlock();
    if (!thread_.joinable()) return;
    if (ended)
      thread_.join();
    else
      thread_.detach();
  }

 private:
  // Seconds that the ranks have to join and to part; as in cleave/runtime/roll_call.cc, of which
  // this library knows nothing.
  static double patience() {
    const char* text = std::getenv("CLEAVE_JOIN_TIMEOUT");
    const double seconds = text ? std::strtod(text, nullptr) : 0;
    return seconds > 0 ? seconds : 60;
  }
  static std::string text_of(double seconds) {
    std::string text = std::to_string(seconds);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  }

  struct Outgoing {
    int to;
    Parcel message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Incoming {
    int from;
    Parcel message;
    MPI_Request request = MPI_REQUEST_NULL;
    bool done = false;
  };

  void run() {
    try {
      start();
      loop();
      if (!abandoned_) MPI_Finalize();
    } catch (const std::exception& error) {
      std::lock_guard lock(mutex_);
      error_ = error.what();
    }
    std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

  void start() {
    // Ranks share processors, with each other and with the threads of their devices. Memory of
    // other processes cannot be read directly in containers.
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    setenv("HWLOC_HIDE_ERRORS", "2", 0);  // no lines about a missing /sys
    prctl(PR_SET_TIMERSLACK, 1000);       // sleep as short as asked, not 50 us longer
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    MPI_Comm host;
    check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
          "MPI_Comm_split_type");
    int here = 0;
    MPI_Comm_size(host, &here);
    MPI_Comm_free(&host);
    one_host_ = here == size_;
    check(MPI_Type_contiguous(static_cast<int>(Parcel::kLine), MPI_BYTE, &line_),
          "MPI_Type_contiguous");
    check(MPI_Type_commit(&line_), "MPI_Type_commit");
    std::lock_guard lock(mutex_);
    started_ = true;
    changed_.notify_all();
  }

  void loop() {
    auto last = Clock::now();
    while (true) {
      const bool moved = send_some() | receive_some() | finish_some() | planned_.advance();
      moves_ += moved;
      activity_.store(2 * moves_ + (!arriving_.empty() || planned_.is_receiving()));
      std::unique_lock lock(mutex_);
      if (abandoned_) return;
      if (closing_ && outbox_.empty() && sending_.empty() && !planned_.is_sending()) break;
      if (moved) {
        last = Clock::now();
        continue;
      }
      rest(lock, Clock::now() - last);
    }
    say_goodbye();
  }

  // A short while of giving way, then sleep: a fraction of the time that nothing has happened.
  void rest(std::unique_lock<std::mutex>& lock, Clock::duration idle) {
    using std::chrono::microseconds;
    if (idle < microseconds(200)) {
      lock.unlock();
      sched_yield();
      return;
    }
    // Large messages move only while somebody looks after them.
    const microseconds most(planned_.is_idle() && sending_.empty() && arriving_.empty() ? 1000
                                                                                        : 100);
    changed_.wait_for(lock, std::min<Clock::duration>(idle / 4, most), [&] {
      return !outbox_.empty() || planned_.has_news() || closing_ || abandoned_;
    });
  }

  bool send_some() {
    fresh_.clear();
    {
      std::lock_guard lock(mutex_);
      planned_.take_news();
      fresh_.swap(outbox_);
    }
    for (Outgoing& out : fresh_) {
      check(MPI_Isend(out.message.data.get(), static_cast<int>(out.message.size / Parcel::kLine),
                      line_, out.to, kTag, MPI_COMM_WORLD, &out.request),
            "MPI_Isend");
      sending_.push_back(std::move(out));
    }
    return !fresh_.empty();
  }

  bool receive_some() {
    {
      std::lock_guard lock(mutex_);
      if (!deliver_) return false;  // once set, it stays
    }
    bool any = false;
    while (true) {
      int found = 0;
      MPI_Message message;
      MPI_Status status;
      check(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &found, &message, &status),
            "MPI_Improbe");
      if (!found) return any;
      any = true;
      if (status.MPI_TAG >= kFirstTag) {
        planned_.arrived(message, status);
        continue;
      }
      int lines = 0;
      MPI_Get_count(&status, line_, &lines);
      Incoming& in = arriving_.emplace_back();
      in.from = status.MPI_SOURCE;
      in.message.size = static_cast<size_t>(lines) * Parcel::kLine;
      in.message.data = allocate_(in.message.size);
      check(MPI_Imrecv(in.message.data.get(), lines, line_, &message, &in.request), "MPI_Imrecv");
    }
  }

  // Messages of one rank are delivered in the order in which they were sent, even where a small one
  // is complete before the large one ahead of it.
  bool finish_some() {
    bool any = false;
    for (auto it = sending_.begin(); it != sending_.end();) {
      int done = 0;
      check(MPI_Test(&it->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      any |= done != 0;
      it = done ? sending_.erase(it) : std::next(it);
    }
    std::set<int> behind;
    for (auto it = arriving_.begin(); it != arriving_.end();) {
      int done = it->done;
      if (!done) check(MPI_Test(&it->request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      it->done = done != 0;
      if (!done || behind.contains(it->from)) {
        behind.insert(it->from);
        ++it;
        continue;
      }
      deliver_(it->from, std::move(it->message));
      it = arriving_.erase(it);
      any = true;
    }
    return any;
  }

  // Nobody ends before everybody has sent and received all.
  void say_goodbye() {
    MPI_Request request;
    check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
    for (int done = 0; !done;) {
      receive_some();
      finish_some();
      planned_.advance();
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      std::unique_lock lock(mutex_);
      if (abandoned_) return;
      if (!done) changed_.wait_for(lock, std::chrono::microseconds(200));
    }
  }

  std::atomic<uint64_t> activity_{0};
  uint64_t moves_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false, closing_ = false, abandoned_ = false, ended_ = false;
  std::string error_;
  int rank_ = 0, size_ = 1;
  bool one_host_ = true;
  MPI_Datatype line_ = MPI_DATATYPE_NULL;
  Allocate allocate_;
  Deliver deliver_;
  std::vector<Outgoing> outbox_;
  std::vector<Outgoing> fresh_;  // only the thread's own, as the next
  std::list<Outgoing> sending_;
  std::list<Incoming> arriving_;
  mpi::PlannedMessages planned_{kFirstTag};
  std::thread thread_;
};

}  // namespace
}  // namespace cleave

extern "C" __attribute__((visibility("default"))) cleave::Wire* cleave_open_wire() {
  static cleave::MpiWire* wire = new cleave::MpiWire;
  wire->await();
  return wire;
}
