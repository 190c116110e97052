#include "cleave/compile/rank_devices.h"

#include "cleave/core/error.h"

namespace cleave {

RankDevices::RankDevices(World& world, int64_t num_devices, std::vector<int64_t> own)
    : world_(world),
      world_life_(world.life()),
      own_(std::move(own)),
      transport_(world, num_devices, RankTransport::Life::Program),
      states_(own_.size(), State::Ended),
      waits_(own_.size(), nullptr) {
  ready_.reserve(own_.size());
  number_ = world_.add_listener(this);
}

RankDevices::~RankDevices() {
  if (!world_life_.expired()) world_.remove_listener(number_);
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
}

int RankDevices::first_tag() const {
  const int64_t places = Wire::kTags / kTags;
  return static_cast<int>(transport_.number() % places * kTags);
}

void RankDevices::attach(Countdown& countdown, int64_t device) const {
  countdown.listener = number_;
  countdown.key = static_cast<uint64_t>(device);
}

void RankDevices::wake_index(size_t index) {
  State& state = states_[index];
  if (state == State::Running) state = State::Nudged;
  if (state != State::Aside) return;
  state = State::Ready;
  ready_.push_back(index);
  changed_.notify_all();
}

void RankDevices::wake(int64_t device) {
  std::lock_guard lock(mutex_);
  wake_index(static_cast<size_t>(device - own_[0]));
}

void RankDevices::news() {
  std::lock_guard lock(mutex_);
  for (size_t index = 0; index < states_.size(); ++index) wake_index(index);
}

bool RankDevices::waits(std::string& where) {
  std::lock_guard lock(mutex_);
  bool all = true;
  for (size_t index = 0; index < states_.size(); ++index) {
    if (states_[index] == State::Ended) continue;
    // Who waits inside of an op is known to the world.
    if (states_[index] != State::Aside)
      all = all && blocks_;
    else if (waits_[index])
      where +=
          fmt::format("{}device {} in {}", where.empty() ? "" : ", ", own_[index], *waits_[index]);
  }
  return all;
}

void RankDevices::fail(size_t index, std::exception_ptr error, bool is_consequence,
                       const char* message) {
  transport_.fail(own_[index], message);
  std::lock_guard lock(mutex_);
  std::exception_ptr& kept = is_consequence ? consequence_ : cause_;
  if (!kept) kept = std::move(error);
  failed_ = true;
  states_[index] = State::Ended;
  --left_;
  changed_.notify_all();
}

void RankDevices::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return left_ == 0 || !ready_.empty(); });
    if (left_ == 0) return;
    const size_t index = ready_.front();
    ready_.erase(ready_.begin());
    states_[index] = State::Running;
    lock.unlock();
    bool ended = false, threw = false;
    try {
      ended = (*advance_)(index);
    } catch (const TransportError& error) {
      threw = true;
      fail(index, std::current_exception(), true, error.what());
    } catch (const std::exception& error) {
      threw = true;
      fail(index, std::current_exception(), false, error.what());
    }
    lock.lock();
    if (threw) continue;
    if (ended) {
      states_[index] = State::Ended;
      if (--left_ == 0) changed_.notify_all();
    } else if (states_[index] == State::Nudged) {
      states_[index] = State::Ready;
      ready_.push_back(index);
    } else {
      states_[index] = State::Aside;
    }
  }
}

void RankDevices::run(int workers, bool blocks, const std::function<bool(size_t)>& advance) {
  transport_.begin();
  {
    std::lock_guard lock(mutex_);
    if (failed_) throw TransportError("a program that has failed on one of its ranks runs again");
    advance_ = &advance;
    blocks_ = blocks;
    ready_.clear();
    for (size_t index = 0; index < own_.size(); ++index) {
      states_[index] = State::Ready;
      ready_.push_back(index);
    }
    left_ = own_.size();
    ++generation_;
    while (threads_.size() + 1 < static_cast<size_t>(workers))
      threads_.emplace_back([this, seen = generation_ - 1]() mutable {
        std::unique_lock lock(mutex_);
        while (true) {
          changed_.wait(lock, [&] { return quit_ || generation_ != seen; });
          if (quit_) return;
          seen = generation_;
          lock.unlock();
          work();
          lock.lock();
          if (--active_ == 0) changed_.notify_all();
        }
      });
    active_ = threads_.size();
    changed_.notify_all();
  }
  work();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return active_ == 0; });
  if (!failed_) return;
  const int begin = first_tag();
  lock.unlock();
  if (!world_life_.expired()) world_.forget(begin, begin + static_cast<int>(kTags));
  std::rethrow_exception(cause_ ? cause_ : consequence_);
}

}  // namespace cleave
