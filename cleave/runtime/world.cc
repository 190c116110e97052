#include "cleave/runtime/world.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/runtime/roll_call.h"

namespace cleave {
namespace {

// How long to wait for the last words of others when something has gone wrong. mpirun begins to
// kill them a second after the first has died.
constexpr double kPatience = 0.7;

}  // namespace

World::World(std::shared_ptr<Wire> wire, Options options)
    : wire_(std::move(wire)), rank_(wire_->rank()), size_(wire_->size()) {
  const auto on_death = [this](int rank, const std::string& why) {
    {
      std::lock_guard lock(mutex_);
      dead_.emplace(rank, why);
      changed_.notify_all();
    }
    tell_news();
  };
  const auto on_circle = [this](uint64_t activity, const std::string& where) {
    {
      std::lock_guard lock(mutex_);
      if (wire_->activity() != activity) return;
      circle_ = where;
      ++circles_;
      changed_.notify_all();
    }
    tell_news();
  };
  const Watch::Circle circle{options.patience, [this] { return standing(); }, on_circle};
  common_ = open_session(0);
  wire_->listen([](size_t bytes) { return allocate(bytes); },
                [this](int from, Parcel message) { deliver(from, std::move(message)); },
                [this](uint64_t listener, uint64_t key) {
                  std::lock_guard lock(listening_);
                  const auto it = listeners_.find(listener);
                  if (it != listeners_.end()) it->second->done(key);
                });
  if (!options.watch || size_ == 1) return;
  if (rank_ == 0) {
    watch_ = std::make_unique<Watch>(size_, wire_->one_host(), options.silence, on_death, circle);
    send_all({.kind = Packet::Kind::Address, .what = watch_->address()});
    return;
  }
  std::string address;
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::duration<double>(join_patience()),
                           [&] { return !address_.empty(); }))
      throw_user(
          "rank {} has heard nothing from rank 0 for {} s: its machine cannot be reached from "
          "here, "
          "or it has ended (CLEAVE_JOIN_TIMEOUT){}",
          rank_, join_patience(), missing_ranks());
    address = address_;
  }
  watch_ = std::make_unique<Watch>(rank_, size_, address, options.silence, on_death, circle);
}

World::~World() {
  try {
    part({});
    release();
  } catch (const std::exception&) {
    wire_->close(false);
  }
}

std::vector<int64_t> World::devices_of(const Mesh& mesh) const {
  const DeviceBlocks blocks{mesh.num_devices(), size_};
  if (blocks.devices < size_)
    throw_user(
        "the mesh {} has {} devices, fewer than the {} ranks: some would have none; start at most "
        "{} ranks, or take a mesh of at least {} devices",
        to_string(mesh), blocks.devices, size_, blocks.devices, size_);
  std::vector<int64_t> devices(static_cast<size_t>(blocks.count(rank_)));
  std::iota(devices.begin(), devices.end(), blocks.first(rank_));
  return devices;
}

void World::deliver(int from, Parcel message) {
  Packet packet = decode(std::move(message));
  const bool is_news = packet.kind == Packet::Kind::Ended || packet.kind == Packet::Kind::Failed;
  std::vector<Session::Answer> answers;
  {
    std::lock_guard lock(mutex_);
    if (packet.kind == Packet::Kind::Ended) {
      ended_.emplace(from, packet.what);
    } else if (packet.kind == Packet::Kind::Address) {
      address_ = packet.what;
    } else {
      auto it = sessions_.find(packet.session);
      if (it == sessions_.end() && packet.session >= next_session_) {
        it = sessions_.emplace(packet.session, std::make_shared<Session>()).first;
        it->second->id = packet.session;
      }
      if (it != sessions_.end()) {
        answers = it->second->accept(std::move(packet));
        if (it->second->complete()) sessions_.erase(it);
      }
    }
    changed_.notify_all();
  }
  if (is_news) tell_news();
  for (const auto& [rank, answer] : answers) {
    if (rank == rank_)
      deliver(rank, encode(answer));
    else
      send(rank, answer);
  }
}

void World::send(int rank, const Packet& packet) { wire_->send(rank, encode(packet)); }

void World::send_all(const Packet& packet) {
  const Parcel message = encode(packet);
  for (int rank = 0; rank < size_; ++rank)
    if (rank != rank_) wire_->send(rank, message);
}

std::shared_ptr<Session> World::open_session(int64_t num_devices) {
  std::lock_guard lock(mutex_);
  auto& session = sessions_[next_session_];
  if (!session) session = std::make_shared<Session>();
  session->id = next_session_++;
  session->num_devices = num_devices;
  return session;
}

void World::close_session(Session& session) {
  std::lock_guard lock(mutex_);
  session.over = true;
  if (session.complete()) sessions_.erase(session.id);
}

void World::wait(std::unique_lock<std::mutex>& lock, const Session& session, std::string_view who,
                 std::string_view what, const std::function<bool()>& ready,
                 const std::function<std::string()>& hopeless) {
  if (ready()) return;
  const std::string where = fmt::format("{} in {}", who, what);
  const uint64_t circles = circles_;
  waits_.push_back(where);
  --running_;
  try {
    while (!ready()) {
      check(session, who, what, circles, hopeless);
      changed_.wait(lock);
    }
  } catch (...) {
    waits_.erase(std::find(waits_.begin(), waits_.end(), where));
    ++running_;
    throw;
  }
  waits_.erase(std::find(waits_.begin(), waits_.end(), where));
  ++running_;
}

Watch::Standing World::standing() {
  Watch::Standing standing;
  bool runs = running_ > 0;
  {
    std::lock_guard lock(mutex_);
    for (const std::string& wait : waits_)
      standing.where += fmt::format("{}{}", standing.where.empty() ? "" : ", ", wait);
  }
  {
    std::lock_guard lock(listening_);
    for (const auto& [number, listener] : listeners_)
      if (!listener->waits(standing.where)) runs = true;
  }
  standing.waits = !runs && !standing.where.empty();
  standing.activity = wire_->activity();
  return standing;
}

void World::check(const Session& session, std::string_view who, std::string_view what,
                  uint64_t circles, const std::function<std::string()>& hopeless) const {
  std::string reason;
  if (!dead_.empty())
    reason = fmt::format("rank {} has died: {}", dead_.begin()->first, dead_.begin()->second);
  else if (!session.failure.empty())
    reason = session.failure;
  else if (circles != circles_)
    reason = fmt::format("every rank waits for another: {}", circle_);
  else
    reason = hopeless();
  if (!reason.empty()) throw TransportError(fmt::format("{} waits in {}: {}", who, what, reason));
}

uint64_t World::add_listener(WorldListener* listener) {
  std::lock_guard lock(listening_);
  listeners_.emplace(next_listener_, listener);
  return next_listener_++;
}

void World::remove_listener(uint64_t number) {
  std::lock_guard lock(listening_);
  listeners_.erase(number);
}

void World::keep(std::shared_ptr<const void> memory) {
  std::lock_guard lock(mutex_);
  kept_.push_back(std::move(memory));
}

void World::tell_news() {
  std::lock_guard lock(listening_);
  for (const auto& [number, listener] : listeners_) listener->news();
}

std::vector<std::vector<Array>> World::gather(std::vector<Array> arrays, std::string_view what) {
  return gather_in(*common_, std::move(arrays), what);
}

std::vector<std::vector<Array>> World::gather_in(Session& session, std::vector<Array> arrays,
                                                 std::string_view what) {
  Packet lot{
      .kind = Packet::Kind::Lot, .session = session.id, .from = rank_, .what = std::string(what)};
  lot.arrays = arrays;
  send_all(lot);
  std::vector<std::vector<Array>> all(static_cast<size_t>(size_));
  all[static_cast<size_t>(rank_)] = std::move(arrays);
  ++running_;  // the thread that calls
  const auto ends = std::shared_ptr<void>(nullptr, [&](void*) { --running_; });
  std::unique_lock lock(mutex_);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    auto& lots = session.lots[rank];
    wait(
        lock, session, fmt::format("rank {}", rank_), what, [&] { return !lots.empty(); },
        [&]() -> std::string {
          const auto it = ended_.find(rank);
          if (it == ended_.end()) return {};
          return fmt::format("rank {} has ended{}{}", rank, it->second.empty() ? "" : ": ",
                             it->second);
        });
    if (lots.front().what != what)
      throw TransportError(fmt::format("rank {} is in {} while rank {} is in {}", rank_, what, rank,
                                       lots.front().what));
    all[static_cast<size_t>(rank)] = std::move(lots.front().arrays);
    lots.pop_front();
  }
  return all;
}

std::vector<std::optional<std::string>> World::part(const std::optional<std::string>& error) {
  if (parted_) return {};
  parted_ = true;
  send_all({.kind = Packet::Kind::Ended, .from = rank_, .what = error.value_or("")});
  if (!watch_) {
    orderly_ = !error;
    return {};
  }
  const Watch::Farewells farewells = watch_->part(error.value_or(""), !error, kPatience);
  orderly_ = farewells.complete;
  std::vector<std::optional<std::string>> words = farewells.by_rank;
  for (auto& word : words)
    if (word && word->empty()) word.reset();
  return words;
}

void World::release() {
  if (released_) return;
  released_ = true;
  if (watch_) orderly_ = watch_->release(orderly_, kPatience + 0.1);
  wire_->close(orderly_);
  watch_.reset();
}

int World::speaker() const {
  std::lock_guard lock(mutex_);
  int rank = 0;
  while (dead_.contains(rank)) ++rank;
  return rank;
}

}  // namespace cleave
