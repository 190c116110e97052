// The port through which ranks watch each other is open to everybody: whoever is no rank is not
// listened to for long, and the ranks do not notice.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/runtime/watch.h"

namespace cleave {
namespace {

using testing::HasSubstr;

// "127.0.0.1 PORT SECRET"
int connect_to(const std::string& address) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.find(' ')))));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  const timeval limit{60, 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  return fd;
}

// Whether the other side hangs up on somebody who sends this, or sends it again and again.
bool hangs_up_on(const std::string& address, const std::string& bytes, bool endless) {
  const int fd = connect_to(address);
  bool closed = false;
  for (int i = 0; i < (endless ? 100'000 : 1) && !closed; ++i)
    closed = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN;
  char byte;
  if (!closed) {
    const ssize_t n = recv(fd, &byte, 1, 0);
    closed = n == 0 || (n < 0 && errno != EAGAIN);
  }
  close(fd);
  return closed;
}

std::string head(uint32_t word, uint32_t rank, uint32_t size) {
  const uint32_t numbers[3] = {word, rank, size};
  return {reinterpret_cast<const char*>(numbers), sizeof numbers};
}

TEST(WatchPort, HangsUpOnStrangersAndStillLetsRanksIn) {
  const auto nobody_dies = [](int rank, const std::string& why) {
    ADD_FAILURE() << "rank " << rank << " counts as dead: " << why;
  };
  Watch hub(2, true, 60, nobody_dies, {});
  const std::string address = hub.address();
  EXPECT_TRUE(hangs_up_on(address, "GET / HTTP/1.1\r\n\r\n", false));
  EXPECT_TRUE(hangs_up_on(address, std::string(100'000, 'x'), true));
  // A greeting without an end, one of the wrong length, and one with the wrong secret.
  EXPECT_TRUE(hangs_up_on(address, head(0, 1, 4'000'000'000u) + std::string(50'000, 'a'), true));
  EXPECT_TRUE(hangs_up_on(address, head(0, 1, 1000) + std::string(1000, 'a'), false));
  const std::string secret = address.substr(address.rfind(' ') + 1);
  EXPECT_TRUE(hangs_up_on(
      address, head(0, 1, static_cast<uint32_t>(secret.size())) + std::string(secret.size(), 'a'),
      false));
  // Many who say nothing.
  std::vector<int> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connect_to(address));
  Watch rank(1, 2, address, 60, nobody_dies, {});
  rank.part("", true, 1);
  EXPECT_TRUE(hub.part("", true, 1).complete);
  EXPECT_TRUE(hub.release(true, 1));
  EXPECT_TRUE(rank.release(true, 1));
  for (int fd : silent) close(fd);
}

TEST(WatchPort, ARankThatCannotReachRank0SaysSoInTime) {
  setenv("CLEAVE_JOIN_TIMEOUT", "1", 1);
  // Nobody listens at this port, and the name means nothing.
  try {
    Watch rank(1, 2, "127.0.0.1,no-such-host.invalid 1 secret", 60, {}, {});
    ADD_FAILURE() << "there is nobody";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 cannot reach rank 0 at 127.0.0.1,no-such-host"));
    EXPECT_THAT(error.what(), HasSubstr("within 1 s (CLEAVE_JOIN_TIMEOUT)"));
  }
  unsetenv("CLEAVE_JOIN_TIMEOUT");
}

TEST(WatchPort, ARankThatNeverComesCountsAsDead) {
  setenv("CLEAVE_JOIN_TIMEOUT", "0.5", 1);
  std::mutex mutex;
  std::condition_variable changed;
  std::string news;
  {
    Watch hub(2, true, 60,
              [&](int rank, const std::string& why) {
                std::lock_guard lock(mutex);
                news = std::to_string(rank) + ": " + why;
                changed.notify_all();
              },
              {});
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return !news.empty(); });
  }
  unsetenv("CLEAVE_JOIN_TIMEOUT");
  EXPECT_EQ(news, "1: it has not joined within 0.5 s");
}

}  // namespace
}  // namespace cleave
