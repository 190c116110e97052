#include "cleave/mpi/planned_messages.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace cleave::mpi {
namespace {

constexpr size_t kMost = size_t{1} << 30;  // bytes of one message

bool lies_in(int tag, const std::pair<int, int>& range) {
  return tag >= range.first && tag < range.second;
}

}  // namespace

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(call) + ": " + std::string(text, length));
}

PlannedMessages::PlannedMessages(int first_tag) : first_tag_(first_tag) {
  constexpr size_t kUsual = 256;
  fresh_.reserve(kUsual);
  orders_.reserve(kUsual);
  expected_.reserve(kUsual);
  early_.reserve(kUsual);
  requests_.reserve(kUsual);
  under_way_.reserve(kUsual);
  finished_.reserve(kUsual);
}

void PlannedMessages::post(std::span<const Planned> sends, std::span<const Planned> receives) {
  for (const Planned& message : receives) add(message, false);
  for (const Planned& message : sends) add(message, true);
}

// Both sides cut what is too long for one message in the same way.
void PlannedMessages::add(const Planned& message, bool is_send) {
  Planned part = message;
  while (part.size > kMost) {
    message.countdown->left.fetch_add(1);
    fresh_.push_back({part, is_send});
    fresh_.back().message.size = kMost;
    part.data += kMost;
    part.size -= kMost;
  }
  fresh_.push_back({part, is_send});
}

void PlannedMessages::forget(int begin, int end) { forgotten_.emplace_back(begin, end); }

void PlannedMessages::take_news() {
  orders_.insert(orders_.end(), fresh_.begin(), fresh_.end());
  fresh_.clear();
  dropped_.insert(dropped_.end(), forgotten_.begin(), forgotten_.end());
  for (const Range& range : forgotten_)
    std::erase_if(expected_, [&](const Planned& each) { return lies_in(each.tag, range); });
  forgotten_.clear();
}

void PlannedMessages::arrived(MPI_Message message, const MPI_Status& status) {
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  Early early{status.MPI_SOURCE, status.MPI_TAG - first_tag_, static_cast<size_t>(bytes), message};
  const auto it = std::find_if(expected_.begin(), expected_.end(), [&](const Planned& each) {
    return each.rank == early.rank && each.tag == early.tag;
  });
  if (it == expected_.end()) {
    early_.push_back(early);
    return;
  }
  receive(*it, early.size, early.message);
  expected_.erase(it);
}

void PlannedMessages::send(const Planned& message) {
  under_way_.push_back({message, true});
  ++num_sending_;
  check(MPI_Isend(message.data, static_cast<int>(message.size), MPI_BYTE, message.rank,
                  first_tag_ + message.tag, MPI_COMM_WORLD, &requests_.emplace_back()),
        "MPI_Isend");
}

void PlannedMessages::expect(const Planned& message) {
  const auto it = std::find_if(early_.begin(), early_.end(), [&](const Early& each) {
    return each.rank == message.rank && each.tag == message.tag;
  });
  if (it == early_.end()) {
    expected_.push_back(message);
    return;
  }
  receive(message, it->size, it->message);
  early_.erase(it);
}

void PlannedMessages::receive(const Planned& message, size_t size, MPI_Message& handle) {
  if (size != message.size) {
    message.countdown->wrong.store(static_cast<int64_t>(size));
    const auto [listener, key] = std::pair(message.countdown->listener, message.countdown->key);
    Early early{message.rank, message.tag, size, handle};
    drop(early);
    if (done_) done_(listener, key);
    return;
  }
  under_way_.push_back({message, false});
  check(MPI_Imrecv(message.data, static_cast<int>(size), MPI_BYTE, &handle,
                   &requests_.emplace_back()),
        "MPI_Imrecv");
}

void PlannedMessages::drop(Early& early) {
  trash_.emplace_back(new std::byte[early.size]);
  under_way_.push_back({{early.rank, early.tag, trash_.back().get(), early.size, nullptr}, false});
  check(MPI_Imrecv(trash_.back().get(), static_cast<int>(early.size), MPI_BYTE, &early.message,
                   &requests_.emplace_back()),
        "MPI_Imrecv");
}

void PlannedMessages::count(Countdown& countdown) {
  // Whoever waits may free the countdown as soon as it has ended.
  const auto [listener, key] = std::pair(countdown.listener, countdown.key);
  if (countdown.left.fetch_sub(1) == 1 && done_) done_(listener, key);
}

bool PlannedMessages::advance() {
  bool moved = !orders_.empty();
  for (const Order& order : orders_) {
    std::erase_if(dropped_, [&](const Range& range) { return lies_in(order.message.tag, range); });
    order.is_send ? send(order.message) : expect(order.message);
  }
  orders_.clear();
  if (!dropped_.empty())
    std::erase_if(early_, [&](Early& early) {
      const bool stale = std::any_of(dropped_.begin(), dropped_.end(),
                                     [&](const Range& range) { return lies_in(early.tag, range); });
      if (stale) drop(early);
      return stale;
    });
  if (requests_.empty()) return moved;
  int num_finished = 0;
  finished_.resize(requests_.size());
  check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &num_finished,
                     finished_.data(), MPI_STATUSES_IGNORE),
        "MPI_Testsome");
  if (num_finished <= 0) return moved;  // MPI_UNDEFINED is negative
  finished_.resize(static_cast<size_t>(num_finished));
  std::sort(finished_.rbegin(), finished_.rend());
  for (int index : finished_) {
    const Order order = under_way_[static_cast<size_t>(index)];
    under_way_[static_cast<size_t>(index)] = under_way_.back();
    under_way_.pop_back();
    requests_[static_cast<size_t>(index)] = requests_.back();
    requests_.pop_back();
    num_sending_ -= order.is_send;
    if (order.message.countdown)
      count(*order.message.countdown);
    else
      std::erase_if(trash_, [&](const auto& each) { return each.get() == order.message.data; });
  }
  return true;
}

}  // namespace cleave::mpi
