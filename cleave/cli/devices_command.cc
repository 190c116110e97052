#include <fmt/format.h>

#include <map>
#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/cli/xla_run.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/pjrt/client.h"
#include "cleave/pjrt/find_plugins.h"

namespace cleave::cli {
namespace {

// "8 x cpu", "1 x NVIDIA H200, 120.4 GiB of 139 GiB free".
std::string devices_text(const pjrt::Client& client) {
  struct Kind {
    int64_t count = 0;
    std::optional<pjrt::DeviceMemory> memory;
  };
  std::map<std::string, Kind> kinds;
  for (const pjrt::DeviceInfo& device : client.devices()) {
    Kind& kind = kinds[device.kind];
    ++kind.count;
    if (device.memory) kind.memory = device.memory;
  }
  std::string text;
  for (const auto& [name, kind] : kinds) {
    text += fmt::format("{}{} x {}", text.empty() ? "" : "; ", kind.count, name);
    if (kind.memory && kind.memory->limit)
      text += fmt::format(", {} of memory, {} in use", bytes_text(*kind.memory->limit),
                          bytes_text(kind.memory->in_use));
    else
      text += ", memory not stated";
  }
  return text.empty() ? "no devices" : text;
}

void print_plugin(const pjrt::PluginPlace& place, int64_t cpu_devices) {
  fmt::print("{}\n  path       {}\n", place.name, place.path);
  try {
    const std::shared_ptr<const pjrt::Plugin> plugin = pjrt::Plugin::load(place.path);
    fmt::print("  interface  PJRT C {}\n", to_string(plugin->version()));
    const auto client = pjrt::Client::create(plugin, {.cpu_devices = cpu_devices});
    fmt::print("  platform   {}, {}\n  devices    {}\n", client->platform(),
               client->platform_version(), devices_text(*client));
  } catch (const UserError& error) {  // the others are listed all the same
    fmt::print("  error      {}\n", error.what());
  }
}

void list(const std::vector<std::string>& paths, int64_t cpu_devices) {
  quiet_plugins();
  std::vector<pjrt::PluginPlace> places;
  for (const std::string& path : paths) {
    pjrt::Plugin::load(pjrt::plugin_path(path));  // one that was asked for must be there
    places.push_back({path, pjrt::plugin_path(path)});
  }
  if (paths.empty()) places = pjrt::find_plugins();
  if (places.empty())
    fmt::print(
        "no PJRT plugin was found; install one (pip install xla-cpu-pjrt), activate the Python "
        "environment that has it, or name its file: cleave devices PATH.so\n");
  for (const pjrt::PluginPlace& place : places) print_plugin(place, cpu_devices);
}

}  // namespace

void add_devices_command(CLI::App& app) {
  struct Options {
    std::vector<std::string> plugins;
    int64_t cpu_devices = 0;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "devices", "List PJRT plugins, which --engine xla takes, with their devices");
  command->add_option("plugins", options->plugins,
                      "names or paths (default: all that Python environments at hand have)");
  command
      ->add_option("--cpu-devices", options->cpu_devices,
                   "how many devices a CPU plugin makes of the host (default: its own)")
      ->check(CLI::Range(1, 4096));
  command->callback([options] { list(options->plugins, options->cpu_devices); });
}

}  // namespace cleave::cli
