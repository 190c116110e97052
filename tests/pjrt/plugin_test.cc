#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cleave/core/error.h"
#include "cleave/pjrt/client.h"
#include "cleave/pjrt/find_plugins.h"
#include "cleave/pjrt/loaded_program.h"
#include "cleave/pjrt/xla_executable.h"
#include "tests/pjrt/fake_plugins.h"

namespace cleave::pjrt {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The message of the UserError that loading and using a plugin gives.
template <typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return "no error";
}
std::string load_error(const std::string& path) {
  return error_of([&] { Client::create(Plugin::load(path)); });
}

TEST(BadPlugin, IsMissing) {
  EXPECT_THAT(
      load_error("/no/such/plugin.so"),
      AllOf(HasSubstr("/no/such/plugin.so: there is no such file"), HasSubstr("cleave devices")));
  EXPECT_THAT(load_error(testing::TempDir()), HasSubstr("is a directory"));
}

TEST(BadPlugin, IsNoSharedLibrary) {
  const std::string path = testing::TempDir() + "not_a_library.so";
  std::ofstream(path) << "plain text";
  EXPECT_THAT(load_error(path), AllOf(HasSubstr("cannot be loaded"), HasSubstr("plugin")));
}

TEST(BadPlugin, HasNoEntryPoint) {
  EXPECT_THAT(load_error(fake_plugin("no_entry_point")),
              HasSubstr("has no function GetPjrtApi, so it is not a PJRT plugin"));
  EXPECT_THAT(load_error(fake_plugin("fake_no_table")), HasSubstr("GetPjrtApi returns nothing"));
}

TEST(BadPlugin, SpeaksAnotherVersion) {
  EXPECT_THAT(load_error(fake_plugin("fake_old")),
              HasSubstr("speaks version 0.30 of the C interface, and Cleave needs 0.57 or a later "
                        "0.x; install a newer plugin"));
  EXPECT_THAT(load_error(fake_plugin("fake_next")), HasSubstr("speaks version 1.2"));
}

TEST(BadPlugin, HasATableThatIsTooSmall) {
  EXPECT_THAT(load_error(fake_plugin("fake_tiny")), HasSubstr("16 bytes, too few"));
  EXPECT_THAT(
      load_error(fake_plugin("fake_short")),
      AllOf(HasSubstr("has 100 bytes where version 0.81 has at least 816"), HasSubstr("damaged")));
}

TEST(BadPlugin, CannotStart) {
  EXPECT_THAT(load_error(fake_plugin("fake_broken")),
              HasSubstr("fake_broken: initialising: no accelerator; on this host"));
  EXPECT_THAT(load_error(fake_plugin("fake_clientless")),
              HasSubstr("fake_clientless: making a client: the driver is missing"));
}

TEST(BadPlugin, RefusesAProgram) {
  const auto client = Client::create(Plugin::load(fake_plugin("fake_cpu")));
  const std::string error = error_of([&] { client->compile("module { refuse }"); });
  EXPECT_THAT(error, AllOf(HasSubstr("fake_cpu: compiling: cannot compile this: it says refuse"),
                           Not(HasSubstr("stack trace"))));
}

TEST(FakeClient, HasDevices) {
  const auto client = Client::create(Plugin::load(fake_plugin("fake_cpu")), {.cpu_devices = 3});
  EXPECT_EQ(to_string(client->plugin().version()), "0.81");
  EXPECT_EQ(client->platform(), "fake");
  ASSERT_EQ(client->devices().size(), 3u);
  EXPECT_EQ(client->devices()[2].id, 102);
  EXPECT_EQ(client->devices()[0].memory->limit, int64_t{1} << 30);
  EXPECT_THAT(error_of([] { Client::shared(fake_plugin("fake_other"), 4); }),
              AllOf(HasSubstr("has 1 device (fake), and 4 are needed")));
}

TEST(FakeClient, GivesTheStoreToThePlugin) {
  auto store = std::make_shared<LocalStore>();
  const auto client = Client::create(Plugin::load(fake_plugin("fake_cpu")), {.store = store});
  EXPECT_EQ(store->try_get("hello"), "world");
}

TEST(FakeClient, MovesArrays) {
  const auto client = Client::create(Plugin::load(fake_plugin("fake_cpu")));
  const float values[] = {1, 2, 3, 4, 5, 6};
  const Array array = Array::from_bytes(DType::F32, {2, 3}, values);
  const BufferPtr buffer = client->to_device(array.transpose({1, 0}), 0);
  EXPECT_EQ(buffer->shape(), Shape({3, 2}));
  EXPECT_TRUE(identical(buffer->to_host(), array.transpose({1, 0}).contiguous()));
  buffer->free();
  EXPECT_TRUE(buffer->is_deleted());
  EXPECT_THAT(error_of([&] { buffer->to_host(); }), HasSubstr("the buffer was deleted"));
  EXPECT_THAT(error_of([&] { client->to_device(array, 1); }),
              HasSubstr("there is no device 1; it has 1"));
  EXPECT_THAT(error_of([&] { client->to_device(Array(DType::F6E2M3FN, {2}), 0); }),
              HasSubstr("PJRT has no name for elements of f6E2M3FN"));
}

TEST(FakeClient, FindsProgramsByTheirText) {
  const auto client = Client::create(Plugin::load(fake_plugin("fake_cpu")));
  client->compile("module { results=1 }");
  client->compile("module { results=2 }");
  EXPECT_EQ(client->compile("module { results=1 }")->num_outputs(), 1u);
  EXPECT_EQ(client->compilations(), 2);
  client->compile("module { results=1 }", {.partitions = 2, .spmd_partitioning = true});
  EXPECT_EQ(client->compilations(), 3);
}

TEST(FakeClient, FindsProgramsOnDisk) {
  const std::string folder = testing::TempDir() + "cleave_xla_cache";
  std::filesystem::remove_all(folder);
  setenv("CLEAVE_XLA_CACHE", folder.c_str(), 1);
  const auto plugin = Plugin::load(fake_plugin("fake_cpu"));
  const auto first = Client::create(plugin), second = Client::create(plugin);
  EXPECT_EQ(first->compile("module { results=7 }")->num_outputs(), 7u);
  EXPECT_EQ(second->compile("module { results=7 }")->num_outputs(), 7u);
  EXPECT_EQ(first->compilations(), 1);
  EXPECT_EQ(second->compilations(), 0);
  // A damaged file is not believed: the program is compiled again.
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    std::filesystem::resize_file(entry.path(), std::filesystem::file_size(entry.path()) - 3);
  const auto third = Client::create(plugin);
  EXPECT_EQ(third->compile("module { results=7 }")->num_outputs(), 7u);
  EXPECT_EQ(third->compilations(), 1);
  unsetenv("CLEAVE_XLA_CACHE");
  std::filesystem::remove_all(folder);
}

TEST(FindPlugins, TakesNamesAndPaths) {
  EXPECT_EQ(plugin_path("./some/plugin.so"), "./some/plugin.so");
  const std::string folder = testing::TempDir() + "cleave_env";
  const std::string packages = folder + "/lib/python3.11/site-packages";
  for (const char* file : {"xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",
                           "jax_plugins/xla_cuda13/xla_cuda_plugin.so", "libtpu/libtpu.so"}) {
    std::filesystem::create_directories((std::filesystem::path(packages) / file).parent_path());
    std::ofstream((std::filesystem::path(packages) / file).string()) << "x";
  }
  setenv("VIRTUAL_ENV", folder.c_str(), 1);
  EXPECT_EQ(plugin_path("cpu"), packages + "/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so");
  EXPECT_EQ(plugin_path("cuda13"), packages + "/jax_plugins/xla_cuda13/xla_cuda_plugin.so");
  EXPECT_EQ(plugin_path("tpu"), packages + "/libtpu/libtpu.so");
  EXPECT_THAT(
      error_of([] { plugin_path("rocm"); }),
      AllOf(HasSubstr("there is no PJRT plugin 'rocm'; found: cpu ("), HasSubstr("cuda13")));
  EXPECT_THAT(error_of([] { plugin_path(""); }), HasSubstr("several PJRT plugins were found"));
  unsetenv("VIRTUAL_ENV");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace cleave::pjrt
