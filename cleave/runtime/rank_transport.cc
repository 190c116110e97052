#include "cleave/runtime/rank_transport.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/type.h"
#include "cleave/kernels/combine.h"

namespace cleave {
namespace {

// Below this many bytes per member a reduction is one round of whole parts, above it two of pieces.
constexpr size_t kPieceBytes = 1024;

// FNV-1a, to notice devices that meet in different groups.
uint64_t digest_of(std::span<const int64_t> group) {
  uint64_t hash = 1469598103934665603u;
  for (int64_t device : group) hash = (hash ^ static_cast<uint64_t>(device)) * 1099511628211u;
  return hash;
}

std::string_view kind(std::string_view what) { return what.substr(0, what.find(' ')); }

size_t place(const Meeting& meeting) {
  const auto it = std::find(meeting.group.begin(), meeting.group.end(), meeting.device);
  internal_check(it != meeting.group.end(),
                 "a device in a collective of a group that it is not in");
  return static_cast<size_t>(it - meeting.group.begin());
}

std::string name_of(int64_t device) { return fmt::format("device {}", device); }

}  // namespace

RankTransport::RankTransport(World& world, int64_t num_devices, Life life)
    : world_(world),
      world_life_(world.life()),
      blocks_{num_devices, world.size()},
      session_(world.open_session(life == Life::Run ? num_devices : 0)) {
  counted_ = life == Life::Run ? blocks_.count(world.rank()) : 0;
  world_.count_running(counted_);
  begin();
}

RankTransport::~RankTransport() {
  if (world_life_.expired()) return;
  world_.count_running(-counted_);
  world_.close_session(*session_);
}

void RankTransport::begin() {
  std::lock_guard lock(world_.mutex_);
  circles_ = world_.circles_;
}

void RankTransport::check(int64_t device, std::string_view what,
                          std::span<const int64_t> group) const {
  std::lock_guard lock(world_.mutex_);
  world_.check(*session_, name_of(device), what, circles_, [&] {
    for (int64_t other : group)
      if (const std::string reason = why_not(other); !reason.empty()) return reason;
    return std::string();
  });
}

void RankTransport::post(const Meeting& meeting, uint64_t digest, std::vector<int64_t> to,
                         const Array& array) {
  std::vector<bool> ranks(static_cast<size_t>(world_.size()), false);
  std::vector<int64_t> near, far;
  for (int64_t device : to) {
    const int rank = rank_of(device);
    (rank == world_.rank() ? near : far).push_back(device);
    ranks[static_cast<size_t>(rank)] = true;
  }
  Packet packet{.kind = Packet::Kind::Part,
                .session = session_->id,
                .from = meeting.device,
                .to = std::move(far),
                .group = digest,
                .what = std::string(meeting.what),
                .arrays = {array}};
  if (!packet.to.empty()) {
    const Parcel message = encode(packet);
    for (int rank = 0; rank < world_.size(); ++rank)
      if (rank != world_.rank() && ranks[static_cast<size_t>(rank)])
        world_.wire_->send(rank, message);
  }
  if (near.empty()) return;
  packet.to = std::move(near);
  std::lock_guard lock(world_.mutex_);
  session_->accept(std::move(packet));
  world_.changed_.notify_all();
}

Array RankTransport::fetch(const Meeting& meeting, uint64_t digest, int64_t from) {
  std::unique_lock lock(world_.mutex_);
  auto& queue = session_->parts[{from, meeting.device}];
  world_.wait(
      lock, *session_, name_of(meeting.device), meeting.what, [&] { return !queue.empty(); },
      [&] { return why_not(from); });
  const Packet packet = std::move(queue.front());
  queue.pop_front();
  if (packet.group != digest || kind(packet.what) != kind(meeting.what))
    throw TransportError(fmt::format("device {} is in {} while device {} is in {}{}",
                                     meeting.device, meeting.what, from, packet.what,
                                     packet.group != digest ? ", of another group" : ""));
  return packet.arrays.at(0);
}

std::string RankTransport::why_not(int64_t device) const {
  if (session_->left.contains(device))
    return fmt::format("device {} has ended without taking part", device);
  const auto it = world_.ended_.find(rank_of(device));
  if (it == world_.ended_.end()) return {};
  return fmt::format("rank {} has ended{}{}", it->first, it->second.empty() ? "" : ": ",
                     it->second);
}

std::vector<Array> RankTransport::gather(const Meeting& meeting, const Array& part) {
  const uint64_t digest = digest_of(meeting.group);
  const size_t me = place(meeting);
  std::vector<int64_t> others(meeting.group.begin(), meeting.group.end());
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(me));
  if (!others.empty()) post(meeting, digest, std::move(others), part);
  std::vector<Array> parts;
  for (size_t i = 0; i < meeting.group.size(); ++i)
    parts.push_back(i == me ? part : fetch(meeting, digest, meeting.group[i]));
  return parts;
}

std::vector<Array> RankTransport::exchange(const Meeting& meeting, std::vector<Array> outgoing,
                                           const std::vector<bool>& comes) {
  if (outgoing.size() != meeting.group.size())
    throw_internal("{}: {} arrays for a group of {}", meeting.what, outgoing.size(),
                   meeting.group.size());
  const uint64_t digest = digest_of(meeting.group);
  const size_t me = place(meeting);
  for (size_t i = 0; i < outgoing.size(); ++i)
    if (i != me && outgoing[i].valid()) post(meeting, digest, {meeting.group[i]}, outgoing[i]);
  std::vector<Array> incoming(outgoing.size());
  for (size_t i = 0; i < outgoing.size(); ++i) {
    if (i == me)
      incoming[i] = outgoing[i];
    else if (comes.empty() || comes[i])
      incoming[i] = fetch(meeting, digest, meeting.group[i]);
  }
  return incoming;
}

Array RankTransport::all_reduce(const Meeting& meeting, const Array& part,
                                const PartReducer& reducer) {
  const auto count = static_cast<int64_t>(meeting.group.size());
  if (reducer.combine || count <= 2 || part.num_bytes() < kPieceBytes * meeting.group.size()) {
    const std::vector<Array> parts = gather(meeting, part);
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].shape() != part.shape() || parts[i].dtype() != part.dtype())
        throw TransportError(fmt::format(
            "{}: device {} has {} and device {} has {}; do all ranks run the same program?",
            meeting.what, meeting.device, to_string(Type::tensor(part.dtype(), part.shape())),
            meeting.group[i], to_string(Type::tensor(parts[i].dtype(), parts[i].shape()))));
    return combine(parts, reducer);
  }
  const int64_t n = part.num_elements();
  const Array flat = part.contiguous().reshape({n});
  const int64_t chunk = ceil_div(n, count);
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < count; ++i) sizes.push_back(std::clamp<int64_t>(n - i * chunk, 0, chunk));
  const Array piece = reduce_scatter(meeting, flat, 0, sizes, reducer);
  return all_gather(meeting, piece, 0).reshape(part.shape());
}

void RankTransport::to_keeper(Packet packet) {
  const auto keeper = static_cast<int>(packet.group % static_cast<uint64_t>(world_.size()));
  if (keeper != world_.rank()) return world_.send(keeper, packet);
  world_.deliver(world_.rank(), encode(packet));
}

void RankTransport::send(int64_t device, int64_t channel, std::vector<Array> arrays) {
  to_keeper({.kind = Packet::Kind::Offer,
             .session = session_->id,
             .from = device,
             .group = static_cast<uint64_t>(channel),
             .arrays = std::move(arrays)});
}

std::vector<Array> RankTransport::receive(int64_t device, int64_t channel, std::string_view what) {
  to_keeper({.kind = Packet::Kind::Request,
             .session = session_->id,
             .from = device,
             .to = {world_.rank()},
             .group = static_cast<uint64_t>(channel)});
  std::unique_lock lock(world_.mutex_);
  auto& queue = session_->grants[{device, static_cast<uint64_t>(channel)}];
  world_.wait(
      lock, *session_, name_of(device), what, [&] { return !queue.empty(); },
      [] { return std::string(); });
  std::vector<Array> arrays = std::move(queue.front());
  queue.pop_front();
  return arrays;
}

void RankTransport::tell_all(const Packet& packet) {
  world_.send_all(packet);
  {
    std::lock_guard lock(world_.mutex_);
    session_->accept(packet);
    world_.changed_.notify_all();
  }
  world_.tell_news();
}

void RankTransport::leave(int64_t device) {
  stop_counting();
  tell_all({.kind = Packet::Kind::Left, .session = session_->id, .from = device});
}

// A device has ended.
void RankTransport::stop_counting() {
  if (counted_.load() <= 0) return;
  --counted_;
  world_.count_running(-1);
}

void RankTransport::fail(int64_t device, std::string_view message) {
  stop_counting();
  {
    std::lock_guard lock(world_.mutex_);
    if (!world_.dead_.empty()) return;  // everybody learns of that anyway
  }
  tell_all(
      {.kind = Packet::Kind::Failed,
       .session = session_->id,
       .from = device,
       .what = fmt::format("device {} of rank {} failed: {}", device, world_.rank(), message)});
}

std::vector<std::vector<Array>> RankTransport::gather_ranks(std::vector<Array> arrays,
                                                            std::string_view what) {
  return world_.gather_in(*session_, std::move(arrays), what);
}

}  // namespace cleave
