#include "cleave/pjrt/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "cleave/core/error.h"
#include "cleave/pjrt/client.h"
#include "tests/pjrt/fake_plugins.h"

namespace cleave::pjrt {
namespace {

using ::testing::HasSubstr;

TEST(TcpStore, HoldsWhatProcessesPutThere) {
  const TcpStore::Server server("127.0.0.1:0");
  TcpStore one(server.address()), two(server.address());
  EXPECT_EQ(one.try_get("a"), std::nullopt);
  one.put("a", std::string("with\0zero", 9));
  EXPECT_EQ(two.try_get("a"), std::string("with\0zero", 9));
  one.put("a", "");
  EXPECT_EQ(two.try_get("a"), "");
  const std::string large(5 << 20, 'x');
  two.put("large", large);
  EXPECT_EQ(one.get("large", 1000), large);
}

TEST(TcpStore, WaitsForAKey) {
  const TcpStore::Server server("127.0.0.1:0");
  TcpStore one(server.address()), two(server.address());
  std::optional<std::string> found;
  std::thread waiting([&] { found = one.get("later", 60000); });
  two.put("later", "now");
  waiting.join();
  EXPECT_EQ(found, "now");
  EXPECT_EQ(one.get("never", 10), std::nullopt);
}

TEST(TcpStore, SaysWhatIsWrong) {
  const auto error = [](const std::string& address) -> std::string {
    try {
      TcpStore(address, 0).put("a", "b");
    } catch (const UserError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("nonsense"), HasSubstr("is not HOST:PORT"));
  EXPECT_THAT(error("127.0.0.1:1"), HasSubstr("no key-value store answers at 127.0.0.1:1"));
  const TcpStore::Server server("127.0.0.1:0");
  EXPECT_THROW(TcpStore::Server(server.address()), UserError);
}

// Two processes that make clients of one store: the child greets, the parent finds the greeting.
// The child uses no test macros; its status says how it went.
TEST(TcpStore, ServesClientsOfTwoProcesses) {
  const TcpStore::Server server("127.0.0.1:0");
  const std::string address = server.address(), plugin = fake_plugin("fake_cpu");
  const pid_t child = fork();
  if (child == 0) {
    int status = 1;
    try {
      auto store = std::make_shared<TcpStore>(address);
      const auto client = Client::create(Plugin::load(plugin), {.store = store});
      store->put("child", "is done");
      status = client->num_local_devices() == 1 ? 0 : 2;
    } catch (...) {
      status = 3;
    }
    _exit(status);
  }
  auto store = std::make_shared<TcpStore>(address);
  const auto client = Client::create(Plugin::load(plugin), {.store = store});
  EXPECT_EQ(store->get("child", 60000), "is done");
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(store->try_get("hello"), "world");
}

}  // namespace
}  // namespace cleave::pjrt
