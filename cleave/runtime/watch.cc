#include "cleave/runtime/watch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/runtime/roll_call.h"

namespace cleave {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point time) {
  return std::chrono::duration<double>(Clock::now() - time).count();
}

enum class Word : uint32_t { Hello, Beat, Dead, Farewell, Release, Circle, Welcome };

// The most that a rank says at once; whatever says more is no rank.
constexpr size_t kLongestText = 1 << 16;
// Those who have connected and not said who they are: how many at a time, for how long.
constexpr size_t kMostStrangers = 256;
constexpr double kHelloSeconds = 10;
// What cannot be sent for so long is lost.
constexpr double kSendSeconds = 5;

struct Frame {
  Word word = Word::Beat;
  int32_t rank = 0;  // of Release: whether in good order; of Farewell: whether all is well
  std::string text;
};

// A socket with frames on it: 12 bytes of head, then the text.
class Line {
 public:
  Line() = default;
  explicit Line(int fd) : fd_(fd) {
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    const timeval limit{static_cast<time_t>(kSendSeconds), 0};
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  }
  Line(Line&& other) noexcept { *this = std::move(other); }
  Line& operator=(Line&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(buffer_, other.buffer_);
    std::swap(heard_, other.heard_);
    std::swap(opened_, other.opened_);
    return *this;
  }
  ~Line() { close(); }

  int fd() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  double silent_for() const { return seconds_since(heard_); }
  double open_for() const { return seconds_since(opened_); }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

  // What cannot be sent is lost: the other side is gone, and that shows when reading.
  void send(Word word, int32_t rank, const std::string& text = {}) {
    if (fd_ < 0) return;
    const size_t size = std::min(text.size(), kLongestText);
    const uint32_t head[3] = {static_cast<uint32_t>(word), static_cast<uint32_t>(rank),
                              static_cast<uint32_t>(size)};
    std::string bytes(reinterpret_cast<const char*>(head), sizeof head);
    bytes.append(text, 0, size);
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t n = ::send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      // Half a frame, and the other side would take what follows for its end.
      if (n <= 0 && at > 0) shutdown(fd_, SHUT_RDWR);
      if (n <= 0) return;
      at += static_cast<size_t>(n);
    }
  }

  // Takes what is there; false: the other side has closed, or says what no rank says.
  bool read_some(size_t longest = kLongestText) {
    char chunk[4096];
    const ssize_t n = ::recv(fd_, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    if (n == 0) return false;
    heard_ = Clock::now();
    buffer_.append(chunk, static_cast<size_t>(n));
    uint32_t head[3];
    if (buffer_.size() < sizeof head) return true;
    std::memcpy(head, buffer_.data(), sizeof head);
    return head[0] <= static_cast<uint32_t>(Word::Welcome) && head[2] <= longest;
  }

  // The first frame, where it is of this kind.
  std::optional<Frame> next_if(Word word) {
    uint32_t head[3];
    if (buffer_.size() < sizeof head) return {};
    std::memcpy(head, buffer_.data(), sizeof head);
    return head[0] == static_cast<uint32_t>(word) ? next() : std::nullopt;
  }

  std::optional<Frame> next() {
    uint32_t head[3];
    if (buffer_.size() < sizeof head) return {};
    std::memcpy(head, buffer_.data(), sizeof head);
    if (buffer_.size() < sizeof head + head[2]) return {};
    Frame frame{static_cast<Word>(head[0]), static_cast<int32_t>(head[1]),
                buffer_.substr(sizeof head, head[2])};
    buffer_.erase(0, sizeof head + head[2]);
    return frame;
  }

 private:
  int fd_ = -1;
  std::string buffer_;
  Clock::time_point heard_ = Clock::now(), opened_ = Clock::now();
};

[[noreturn]] void fail(const char* call) {
  throw_user("the ranks cannot watch each other: {}: {}", call, std::strerror(errno));
}

// A door on a free port: of this machine alone, or of all its networks.
int open_door(bool one_host, uint16_t& port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(one_host ? INADDR_LOOPBACK : INADDR_ANY);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("bind");
  if (listen(fd, SOMAXCONN) != 0) fail("listen");
  socklen_t length = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  port = ntohs(address.sin_port);
  return fd;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0) fail("gethostname");
  return name;
}

// Where others may find this machine: the addresses of its networks, then its name, which need not
// be known everywhere.
std::string places(bool one_host) {
  if (one_host) return "127.0.0.1";
  std::string text;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) == 0) {
    for (const ifaddrs* each = list; each; each = each->ifa_next) {
      const bool usable = each->ifa_addr && each->ifa_addr->sa_family == AF_INET &&
                          (each->ifa_flags & IFF_UP) && !(each->ifa_flags & IFF_LOOPBACK);
      if (!usable) continue;
      char name[INET_ADDRSTRLEN] = {};
      const auto* address = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      if (inet_ntop(AF_INET, &address->sin_addr, name, sizeof name))
        text += std::string(name) + ",";
    }
    freeifaddrs(list);
  }
  return text + host_name();
}

// Begins to connect, without waiting.
int knock(const std::string& host, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  in_addr number;
  if (inet_pton(AF_INET, host.c_str(), &number) == 1) hints.ai_flags = AI_NUMERICHOST;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0 || !found) return -1;
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int result = fd < 0 ? -1 : connect(fd, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  if (result == 0 || (fd >= 0 && errno == EINPROGRESS)) return fd;
  if (fd >= 0) ::close(fd);
  return -1;
}

// Whether something becomes of the socket in time.
bool becomes(int fd, short what, double seconds) {
  pollfd poll_one{fd, what, 0};
  return poll(&poll_one, 1, static_cast<int>(std::max(0.0, seconds) * 1e3)) > 0;
}

// Says hello through a connection that has begun, and waits for the answer that only rank 0 gives.
std::optional<Line> enter(int fd, int rank, const std::string& secret, double seconds) {
  const auto begin = Clock::now();
  int error = 0;
  socklen_t length = sizeof error;
  const bool connected = becomes(fd, POLLOUT, seconds) &&
                         getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
  if (connected) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  Line line(fd);
  if (!connected) return std::nullopt;
  line.send(Word::Hello, rank, secret);
  while (seconds_since(begin) < seconds) {
    if (!becomes(fd, POLLIN, seconds - seconds_since(begin)) || !line.read_some()) return {};
    if (const auto frame = line.next_if(Word::Welcome)) return line;
  }
  return std::nullopt;
}

// Rank 0 has many addresses, not all of which lead to it from here; some may lead elsewhere.
Line go_through(const std::string& hosts, const std::string& port, int rank,
                const std::string& secret) {
  const auto begin = Clock::now();
  const double patience = join_patience();
  std::vector<std::string> names;
  for (size_t at = 0; at <= hosts.size();) {
    const size_t end = std::min(hosts.find(',', at), hosts.size());
    names.push_back(hosts.substr(at, end - at));
    at = end + 1;
  }
  // All but the name at once; that is asked for last, because the question may take long.
  for (double share : {0.25, 1.0}) {
    std::vector<int> doors;
    for (size_t i = 0; i + (share < 1 && names.size() > 1 ? 1 : 0) < names.size(); ++i)
      doors.push_back(knock(names[i], port));
    std::optional<Line> line;
    for (size_t i = 0; i < doors.size(); ++i) {
      if (doors[i] < 0) continue;
      const double left = patience * share - seconds_since(begin);
      const double most = left / static_cast<double>(doors.size() - i);
      if (line)
        ::close(doors[i]);
      else
        line = enter(doors[i], rank, secret, most);
    }
    if (line) return std::move(*line);
  }
  throw_user(
      "rank {} cannot reach rank 0 at {}, port {}, within {} s (CLEAVE_JOIN_TIMEOUT): the ranks "
      "watch each other through this port",
      rank, hosts, port, patience);
}

}  // namespace

struct Watch::State {
  int rank = 0, size = 1;
  double timeout = 60;
  OnDeath on_death;
  std::string address, secret;
  int door = -1;
  std::vector<Line> lines;  // of rank 0: by rank; of the others: one, to rank 0
  std::vector<Line> strangers;
  std::vector<bool> came;  // of rank 0: by rank
  double join_seconds = join_patience();
  Clock::time_point begin = Clock::now();
  int wake[2] = {-1, -1};

  std::mutex mutex;
  std::condition_variable changed;
  std::set<int> dead;
  std::vector<std::optional<std::string>> farewells;
  Circle circle;
  struct Seen {
    Standing standing;
    Clock::time_point since = Clock::now();
  };
  std::vector<Seen> seen;                    // of rank 0: by rank
  std::string found;                         // the circle
  std::optional<Clock::time_point> trouble;  // the first death, or farewell that is not well
  std::optional<bool> released;
  bool stop = false;
  std::thread thread;

  bool is_hub() const { return rank == 0; }

  void start() {
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe");
    farewells.resize(static_cast<size_t>(size));
    seen.resize(static_cast<size_t>(size));
    came.resize(static_cast<size_t>(size));
    thread = std::thread([this] { run(); });
  }

  void end() {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    [[maybe_unused]] const ssize_t n = write(wake[1], "x", 1);
    if (thread.joinable()) thread.join();
    for (int fd : {door, wake[0], wake[1]})
      if (fd >= 0) ::close(fd);
  }

  void run() {
    auto last_beat = Clock::now();
    while (true) {
      std::vector<pollfd> fds{{wake[0], POLLIN, 0}};
      if (door >= 0)
        fds.push_back(
            {door, static_cast<short>(strangers.size() < kMostStrangers ? POLLIN : 0), 0});
      for (const auto* list : {&lines, &strangers})
        for (const Line& line : *list)
          if (line.open()) fds.push_back({line.fd(), POLLIN, 0});
      poll(fds.data(), fds.size(), static_cast<int>(std::min(0.5, beat_seconds()) * 1e3));
      std::vector<std::pair<int, std::string>> died;
      std::string in_circle;
      const bool beats = seconds_since(last_beat) > beat_seconds();
      const Standing standing = beats && circle.standing ? circle.standing() : Standing();
      {
        std::lock_guard lock(mutex);
        if (stop) return;
        if (door >= 0 && (fds[1].revents & POLLIN)) let_in();
        greet();
        for (size_t i = 0; i < lines.size(); ++i) read_line(static_cast<int>(i), died);
        if (is_hub()) miss(died);
        if (beats) {
          last_beat = Clock::now();
          for (Line& line : lines) line.send(Word::Beat, rank, encode(standing));
          if (is_hub()) look_for_circle(standing);
        }
        in_circle = std::exchange(found, {});
        changed.notify_all();
      }
      for (const auto& [who, why] : died) on_death(who, why);
      const auto activity = number_of<uint64_t>(in_circle.substr(0, in_circle.find(' ')));
      if (activity && circle.on_circle)
        circle.on_circle(*activity, in_circle.substr(in_circle.find(' ') + 1));
    }
  }

  double beat_seconds() const { return std::min({2.0, timeout / 4, circle.patience / 4}); }

  static std::string encode(const Standing& standing) {
    return fmt::format("{} {} {}", standing.waits ? 1 : 0, standing.activity, standing.where);
  }
  void note(int who, const Standing& standing) {
    Seen& last = seen[static_cast<size_t>(who)];
    if (standing.waits != last.standing.waits || standing.activity != last.standing.activity)
      last.since = Clock::now();
    last.standing = standing;
  }
  void note(int who, const std::string& text) {
    Standing standing;
    const size_t space = text.find(' ', 2);
    if (text.size() < 3 || space == std::string::npos) return;
    standing.waits = text[0] == '1';
    const auto activity = number_of<uint64_t>(text.substr(2, space - 2));
    if (!activity) return;
    standing.activity = *activity;
    standing.where = text.substr(space + 1);
    note(who, standing);
  }
  void look_for_circle(const Standing& own) {
    note(0, own);
    if (!dead.empty()) return;
    std::string where;
    for (int i = 0; i < size; ++i) {
      const Seen& each = seen[static_cast<size_t>(i)];
      const bool is_quiet = each.standing.waits && each.standing.activity % 2 == 0 &&
                            seconds_since(each.since) > circle.patience;
      if (farewells[static_cast<size_t>(i)] || !is_quiet) return;
      where += fmt::format("{}rank {}: {}", where.empty() ? "" : "; ", i, each.standing.where);
    }
    for (int i = 0; i < size; ++i) {
      const std::string text =
          fmt::format("{} {}", seen[static_cast<size_t>(i)].standing.activity, where);
      if (i == 0)
        found = text;
      else
        lines[static_cast<size_t>(i)].send(Word::Circle, 0, text);
    }
    for (Seen& each : seen) each = Seen();
  }

  void let_in() {
    const int fd = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) strangers.emplace_back(fd);
  }

  // Somebody who knows the secret is the rank that it says. Nobody else is listened to for long.
  void greet() {
    for (Line& line : strangers) {
      if (!line.read_some(secret.size()) || line.open_for() > kHelloSeconds) {
        line.close();
        continue;
      }
      const std::optional<Frame> frame = line.next();
      if (!frame) continue;
      if (frame->word == Word::Hello && frame->text == secret && frame->rank > 0 &&
          frame->rank < size) {
        line.send(Word::Welcome, 0);
        lines[static_cast<size_t>(frame->rank)] = std::move(line);
        came[static_cast<size_t>(frame->rank)] = true;
      }
      line.close();
    }
    std::erase_if(strangers, [](const Line& line) { return !line.open(); });
  }

  // Ranks that have never come.
  void miss(std::vector<std::pair<int, std::string>>& died) {
    if (seconds_since(begin) < join_seconds) return;
    for (int i = 1; i < size; ++i) {
      const Line& line = lines[static_cast<size_t>(i)];
      if (!line.open() && !came[static_cast<size_t>(i)])
        bury(i, fmt::format("it has not joined within {} s", join_seconds), died);
    }
  }

  void read_line(int index, std::vector<std::pair<int, std::string>>& died) {
    Line& line = lines[static_cast<size_t>(index)];
    if (!line.open()) return;
    const bool there = line.read_some();
    while (const auto frame = line.next()) hear(index, *frame, died);
    const bool parted =
        is_hub() ? farewells[static_cast<size_t>(index)].has_value() : released.has_value();
    const bool silent = line.silent_for() > timeout;
    if (there && !silent) return;
    line.close();
    if (parted) return;
    bury(is_hub() ? index : 0,
         there ? fmt::format("nothing has been heard from it for {} s", timeout)
               : "its process has ended without a word",
         died);
  }

  void hear(int index, const Frame& frame, std::vector<std::pair<int, std::string>>& died) {
    if (frame.word == Word::Dead) bury(frame.rank, frame.text, died);
    if (frame.word == Word::Beat && is_hub()) note(index, frame.text);
    if (frame.word == Word::Circle) found = frame.text;
    if (frame.word == Word::Release) released = frame.rank != 0;
    if (frame.word == Word::Farewell) {
      farewells[static_cast<size_t>(index)] = frame.text;
      if (!frame.rank && !trouble) trouble = Clock::now();
    }
  }

  void bury(int who, const std::string& why, std::vector<std::pair<int, std::string>>& died) {
    if (!dead.insert(who).second) return;
    if (!trouble) trouble = Clock::now();
    died.emplace_back(who, why);
    if (is_hub())
      for (Line& line : lines) line.send(Word::Dead, who, why);
  }

  bool all_said() const {
    for (int i = 0; i < size; ++i)
      if (!farewells[static_cast<size_t>(i)] && !dead.contains(i)) return false;
    return true;
  }
};

Watch::Watch(int size, bool one_host, double timeout, OnDeath on_death, Circle circle)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.size = size;
  state.timeout = timeout;
  state.on_death = std::move(on_death);
  state.circle = std::move(circle);
  state.lines.resize(static_cast<size_t>(size));
  std::random_device random;
  state.secret = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  uint16_t port = 0;
  state.door = open_door(one_host, port);
  state.address = fmt::format("{} {} {}", places(one_host), port, state.secret);
  state.start();
}

Watch::Watch(int rank, int size, const std::string& address, double timeout, OnDeath on_death,
             Circle circle)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.rank = rank;
  state.size = size;
  state.timeout = timeout;
  state.on_death = std::move(on_death);
  state.circle = std::move(circle);
  const size_t a = address.find(' '), b = address.rfind(' ');
  state.lines.push_back(go_through(address.substr(0, a), address.substr(a + 1, b - a - 1), rank,
                                   address.substr(b + 1)));
  state.start();
}

Watch::~Watch() { state_->end(); }

const std::string& Watch::address() const { return state_->address; }

Watch::Farewells Watch::part(const std::string& words, bool well, double seconds) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.farewells[static_cast<size_t>(state.rank)] = words;
  if (!well && !state.trouble) state.trouble = Clock::now();
  if (!state.is_hub()) {
    state.lines[0].send(Word::Farewell, well, words);
    return {state.farewells, false};
  }
  while (!state.all_said() && !(state.trouble && seconds_since(*state.trouble) > seconds))
    state.changed.wait_for(lock, std::chrono::milliseconds(50));
  return {state.farewells, state.all_said() && state.dead.empty()};
}

bool Watch::release(bool orderly, double seconds) {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  if (state.is_hub()) {
    for (Line& line : state.lines) line.send(Word::Release, orderly);
    state.released = orderly;
    return orderly;
  }
  while (!state.released && !state.dead.contains(0) &&
         !(state.trouble && seconds_since(*state.trouble) > seconds))
    state.changed.wait_for(lock, std::chrono::milliseconds(50));
  return state.released.value_or(false);
}

}  // namespace cleave
