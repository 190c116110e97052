#include "cleave/pjrt/tcp_store.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>
#include <vector>

#include "cleave/core/error.h"

namespace cleave::pjrt {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;  // of a key or a value

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

  bool send_all(const std::string& bytes) const {
    for (size_t at = 0; at < bytes.size();) {
      const ssize_t sent = send(fd_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      at += static_cast<size_t>(sent);
    }
    return true;
  }
  bool receive(void* data, size_t size) const {
    for (size_t at = 0; at < size;) {
      const ssize_t got = recv(fd_, static_cast<char*>(data) + at, size - at, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += static_cast<size_t>(got);
    }
    return true;
  }
  bool receive_text(std::string& text) const {
    uint64_t size = 0;
    if (!receive(&size, sizeof size) || size > kMostBytes) return false;
    text.resize(size);
    return receive(text.data(), size);
  }

 private:
  int fd_;
};

void add_text(std::string& bytes, std::string_view text) {
  const uint64_t size = text.size();
  bytes.append(reinterpret_cast<const char*>(&size), sizeof size);
  bytes += text;
}

struct AddressList {
  addrinfo* first = nullptr;
  ~AddressList() {
    if (first) freeaddrinfo(first);
  }
};

// "host:port" as the system knows it.
void find_address(const std::string& address, AddressList& list) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon + 1 == address.size())
    throw_user("the address '{}' of a key-value store is not HOST:PORT", address);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const int failed = getaddrinfo(address.substr(0, colon).c_str(),
                                 address.substr(colon + 1).c_str(), &hints, &list.first);
  if (failed)
    throw_user("the address '{}' of a key-value store is not known: {}", address,
               gai_strerror(failed));
}

}  // namespace

// What the threads of a server share; the last of them frees it.
struct TcpStore::Server::State {
  LocalStore store;
  Socket listening{-1};
  std::atomic<bool> over{false};
  explicit State(int fd) : listening(fd) {}
};

namespace {

// One request: what is asked ('p', 't' or 'g'), milliseconds, key, value. The answer: whether there
// is a value, and the value.
void serve_one(LocalStore& store, const std::atomic<bool>& over, int fd) {
  const Socket socket(fd);
  char what = 0;
  int32_t timeout = 0;
  std::string key, value;
  if (!socket.receive(&what, 1) || !socket.receive(&timeout, sizeof timeout) ||
      !socket.receive_text(key) || !socket.receive_text(value))
    return;
  std::optional<std::string> found;
  if (what == 'p') store.put(key, value);
  if (what == 't') found = store.try_get(key);
  // In short waits, so that a server that ends does not leave a thread behind.
  constexpr int kStep = 200;
  for (int waited = 0; what == 'g' && !found && !over; waited += kStep) {
    found = store.get(key, std::min(kStep, timeout - waited));
    if (waited + kStep >= timeout) break;
  }
  std::string answer(1, found || what == 'p' ? 1 : 0);
  add_text(answer, found.value_or(""));
  socket.send_all(answer);
}

}  // namespace

TcpStore::Server::Server(const std::string& address) {
  AddressList list;
  find_address(address, list);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw_user("a key-value store at {}: {}", address, std::strerror(errno));
  state_ = std::make_shared<State>(fd);
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(fd, list.first->ai_addr, list.first->ai_addrlen) != 0 || listen(fd, 128) != 0)
    throw_user("a key-value store cannot be served at {}: {}", address, std::strerror(errno));
  sockaddr_in bound{};
  socklen_t size = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size);
  address_ = fmt::format("{}:{}", address.substr(0, address.rfind(':')), ntohs(bound.sin_port));
  thread_ = std::thread([state = state_] {
    while (true) {
      const int client = accept4(state->listening.fd(), nullptr, nullptr, SOCK_CLOEXEC);
      if (state->over) {
        if (client >= 0) close(client);
        return;
      }
      if (client < 0) continue;
      std::thread([state, client] { serve_one(state->store, state->over, client); }).detach();
    }
  });
}

TcpStore::Server::~Server() {
  state_->over = true;
  shutdown(state_->listening.fd(), SHUT_RDWR);  // wakes the thread that accepts
  thread_.join();
}

std::optional<std::string> TcpStore::ask(char what, std::string_view key, std::string_view value,
                                         int timeout_ms) const {
  AddressList list;
  find_address(address_, list);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience_);
  while (true) {
    const Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(socket.fd(), list.first->ai_addr, list.first->ai_addrlen) == 0) {
      std::string bytes(1, what);
      const int32_t timeout = timeout_ms;
      bytes.append(reinterpret_cast<const char*>(&timeout), sizeof timeout);
      add_text(bytes, key);
      add_text(bytes, value);
      char found = 0;
      std::string answer;
      if (!socket.send_all(bytes) || !socket.receive(&found, 1) || !socket.receive_text(answer))
        throw_user("the key-value store at {} has ended", address_);
      return found ? std::optional(answer) : std::nullopt;
    }
    if (std::chrono::steady_clock::now() >= end)
      throw_user("no key-value store answers at {}: {}; process 0 serves it", address_,
                 std::strerror(errno));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

void TcpStore::put(std::string_view key, std::string_view value) { ask('p', key, value, 0); }

std::optional<std::string> TcpStore::try_get(std::string_view key) { return ask('t', key, {}, 0); }

std::optional<std::string> TcpStore::get(std::string_view key, int timeout_ms) {
  return ask('g', key, {}, timeout_ms);
}

}  // namespace cleave::pjrt
