#include "cleave/pjrt/processes.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>

#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/runtime/packet.h"

namespace cleave::pjrt {
namespace {

constexpr int kStepMs = 500;          // between looks at whether a process is still there
constexpr double kLeaveSeconds = 30;  // that process 0 serves for others at its end
// Without MPI nobody tells that a process was killed. Each writes a number every kBeat; one that
// writes none for kSilence, or has not begun after kStart, is not waited for any longer.
constexpr std::chrono::seconds kBeat{3}, kSilence{60}, kStart{300};
constexpr const char* kSecret = "cleave/secret";

std::string variable_of(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int number_in(const char* name, int least, int most) {
  const std::string text = variable_of(name);
  const auto number = number_of<int>(text);
  if (!number || *number < least || *number > most)
    throw_user("{} must be a number from {} to {}, and is '{}'; it comes with CLEAVE_COORDINATOR",
               name, least, most, text);
  return *number;
}

// Sees the keys of one client.
class PrefixedStore : public KeyValueStore {
 public:
  PrefixedStore(std::shared_ptr<KeyValueStore> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}
  void put(std::string_view key, std::string_view value) override {
    store_->put(prefix_ + std::string(key), value);
  }
  std::optional<std::string> try_get(std::string_view key) override {
    return store_->try_get(prefix_ + std::string(key));
  }
  std::optional<std::string> get(std::string_view key, int timeout_ms) override {
    return store_->get(prefix_ + std::string(key), timeout_ms);
  }

 private:
  std::shared_ptr<KeyValueStore> store_;
  std::string prefix_;
};

// Where other machines may find this one: the addresses of its networks, then its name.
std::vector<std::string> own_hosts() {
  std::vector<std::string> hosts;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* each = list; each; each = each->ifa_next) {
      if (!each->ifa_addr || each->ifa_addr->sa_family != AF_INET || !(each->ifa_flags & IFF_UP) ||
          (each->ifa_flags & IFF_LOOPBACK))
        continue;
      char name[INET_ADDRSTRLEN] = {};
      const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      if (inet_ntop(AF_INET, &address->sin_addr, name, sizeof name)) hosts.emplace_back(name);
    }
    freeifaddrs(list);
  }
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) hosts.emplace_back(name);
  return hosts;
}

Array bytes_of(std::string_view text) {
  Array bytes(DType::U8, {static_cast<int64_t>(text.size())});
  if (!text.empty()) std::memcpy(bytes.raw(), text.data(), text.size());
  return bytes;
}

std::string text_of(const Array& bytes) {
  return {reinterpret_cast<const char*>(bytes.raw()), static_cast<size_t>(bytes.num_elements())};
}

// Rank 0 has many addresses, and some may lead to another machine: the secret tells.
std::string reachable(const std::vector<std::string>& addresses, const std::string& secret) {
  for (const std::string& address : addresses) {
    try {
      if (TcpStore(address, 3).try_get(kSecret) == secret) return address;
    } catch (const UserError&) {  // not by this one
    }
  }
  throw_user(
      "the key-value store of rank 0 is reached at none of its addresses ({}); set "
      "CLEAVE_COORDINATOR=HOST:PORT to one that leads to rank 0",
      fmt::join(addresses, ", "));
}

// The address of the store that rank 0 serves, on every rank.
std::string told_address(World& world, const TcpStore::Server* server) {
  std::string text;
  if (server) {
    const std::string& bound = server->address();
    const std::string port = bound.substr(bound.rfind(':'));
    const std::string secret = fmt::format("{:08x}{:08x}", std::random_device{}(), getpid());
    TcpStore(fmt::format("127.0.0.1{}", port)).put(kSecret, secret);
    text = secret;
    if (world.one_host())
      text += fmt::format("\n127.0.0.1{}", port);
    else
      for (const std::string& host : own_hosts()) text += fmt::format("\n{}{}", host, port);
  }
  const auto told = world.gather({bytes_of(text)}, "the address of the key-value store");
  std::vector<std::string> parts(1);
  for (char c : text_of(told[0][0]))
    if (c == '\n')
      parts.emplace_back();
    else
      parts.back() += c;
  return reachable({parts.begin() + 1, parts.end()}, parts[0]);
}

}  // namespace

Processes::Processes(World* world, const std::string& coordinator, int process, int size)
    : world_(world), process_(process), size_(size) {
  std::string address = coordinator;
  if (process == 0)
    server_ = std::make_unique<TcpStore::Server>(!address.empty()    ? address
                                                 : world->one_host() ? "127.0.0.1:0"
                                                                     : "0.0.0.0:0");
  if (address.empty()) address = told_address(*world, server_.get());
  store_ = std::make_shared<TcpStore>(address);
  if (!world_) heart_ = std::jthread([this](const std::stop_token& stop) { beat(stop); });
}

void Processes::beat(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any waiting;
  const std::string key = fmt::format("cleave/beat/{}", process_);
  for (int64_t count = 0; !stop.stop_requested(); ++count) {
    try {
      store_->put(key, std::to_string(count));
    } catch (const UserError&) {
      return;  // process 0 is gone, which every other call says
    }
    std::unique_lock lock(mutex);
    waiting.wait_for(lock, stop, kBeat, [] { return false; });
  }
}

// Process 0 serves until the others have left, or long enough.
Processes::~Processes() {
  if (world_) return;
  heart_ = {};
  try {
    store_->put(fmt::format("cleave/left/{}", process_), "");
    if (!server_) return;
    for (int other = 1; other < size_; ++other)
      store_->get(fmt::format("cleave/left/{}", other), static_cast<int>(1e3 * kLeaveSeconds));
  } catch (const std::exception&) {  // there is nobody left to tell
  }
}

Processes* Processes::of_process() {
  static const std::unique_ptr<Processes> known = []() -> std::unique_ptr<Processes> {
    const std::string coordinator = variable_of("CLEAVE_COORDINATOR");
    if (World* world = World::of_process())
      return std::unique_ptr<Processes>(
          new Processes(world, coordinator, world->rank(), world->size()));
    if (coordinator.empty()) return nullptr;
    const int size = number_in("CLEAVE_PROCESSES", 1, 1 << 20);
    const int process = number_in("CLEAVE_PROCESS", 0, size - 1);
    if (size == 1) return nullptr;
    return std::unique_ptr<Processes>(new Processes(nullptr, coordinator, process, size));
  }();
  return known.get();
}

std::shared_ptr<KeyValueStore> Processes::new_store() {
  return std::make_shared<PrefixedStore>(store_, fmt::format("client {}/", clients_++));
}

std::string Processes::wait_for(int process, const std::string& key, std::string_view what) {
  const std::string left = fmt::format("cleave/left/{}", process);
  std::optional<std::string> beat;
  auto heard = std::chrono::steady_clock::now();
  while (true) {
    if (std::optional<std::string> value = store_->get(key, kStepMs)) return *value;
    if (!store_->try_get(left)) {
      const std::optional<std::string> now =
          store_->try_get(fmt::format("cleave/beat/{}", process));
      if (now != beat) heard = std::chrono::steady_clock::now();
      beat = now;
      const auto silence = std::chrono::steady_clock::now() - heard;
      if (silence > (beat ? kSilence : kStart))
        throw_user("{}: process {} {}", what, process,
                   beat ? "has not been heard of for a minute; it was killed, or cannot reach "
                          "the coordinator"
                        : "was not started within five minutes");
      continue;
    }
    if (std::optional<std::string> value = store_->try_get(key)) return *value;
    throw_user("{}: process {} has ended before it came there", what, process);
  }
}

std::vector<std::vector<Array>> Processes::gather(std::vector<Array> arrays,
                                                  std::string_view what) {
  if (world_) return world_->gather(std::move(arrays), what);
  const int number = gatherings_++;
  const auto key = [&](int process) { return fmt::format("cleave/gather/{}/{}", number, process); };
  Packet own;
  own.kind = Packet::Kind::Lot;
  own.from = process_;
  own.arrays = std::move(arrays);
  const Parcel sent = encode(own);
  store_->put(key(process_), {reinterpret_cast<const char*>(sent.data.get()), sent.size});
  std::vector<std::vector<Array>> all;
  for (int process = 0; process < size_; ++process) {
    const std::string bytes = wait_for(process, key(process), what);
    Parcel parcel{allocate(bytes.size()), bytes.size()};
    std::memcpy(parcel.data.get(), bytes.data(), bytes.size());
    all.push_back(decode(std::move(parcel)).arrays);
  }
  // Whoever comes to a gathering has read the one before it.
  if (number > 0) store_->put(fmt::format("cleave/gather/{}/{}", number - 1, process_), "");
  return all;
}

}  // namespace cleave::pjrt
