#include <algorithm>
#include <cstdlib>
#include <map>
#include <sstream>

#include "cleave/core/error.h"
#include "cleave/core/number_text.h"
#include "cleave/pjrt/client.h"
#include "cleave/pjrt/processes.h"

namespace cleave::pjrt {
namespace {

OptionValue value_of_text(const std::string& text, const std::string& option) {
  if (text == "true" || text == "false") return text == "true";
  if (text.starts_with('[') && text.ends_with(']')) {
    std::vector<int64_t> list;
    std::istringstream elements(text.substr(1, text.size() - 2));
    for (std::string element; std::getline(elements, element, ',');) {
      const auto number = number_of<int64_t>(element);
      if (!number)
        throw_user("CLEAVE_XLA_OPTIONS: {}: a list is of whole numbers, such as [0,1]", option);
      list.push_back(*number);
    }
    return list;
  }
  if (const auto integer = number_of<int64_t>(text)) return *integer;
  if (const auto number = number_of<double>(text)) return static_cast<float>(*number);
  return text;
}

bool has_option(const ClientOptions& options, std::string_view name) {
  return std::any_of(options.options.begin(), options.options.end(),
                     [&](const auto& option) { return option.first == name; });
}

bool is_for_gpus(const Plugin& plugin) {
  for (const char* part : {"cuda", "rocm", "gpu"})
    if (plugin.name().find(part) != std::string::npos) return true;
  return false;
}

// Ranks on one host share its GPUs, each taking its own; a client would else take all of them.
void choose_gpus(ClientOptions& options, const DeviceBlocks& blocks) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  const auto rank = number_of<int64_t>(local ? local : "");
  if (visible || !rank || has_option(options, "visible_devices")) return;
  std::vector<int64_t> own;
  for (int64_t i = 0; i < blocks.count(static_cast<int>(options.process)); ++i)
    own.push_back(*rank * blocks.largest() + i);
  options.options.emplace_back("visible_devices", std::move(own));
}

ClientOptions shared_options(const Plugin& plugin, int64_t devices) {
  ClientOptions options;
  const char* more = std::getenv("CLEAVE_XLA_OPTIONS");
  options.options = options_of_text(more ? more : "");
  options.cpu_devices = std::max<int64_t>(1, devices);
  if (Processes* processes = Processes::of_process()) {
    const DeviceBlocks blocks{std::max<int64_t>(devices, processes->size()), processes->size()};
    options.process = processes->process();
    options.processes = processes->size();
    options.store = processes->new_store();
    options.cpu_devices = blocks.count(processes->process());
    if (is_for_gpus(plugin) && processes->are_ranks()) choose_gpus(options, blocks);
  }
  return options;
}

}  // namespace

std::vector<std::pair<std::string, OptionValue>> options_of_text(const std::string& text) {
  std::vector<std::pair<std::string, OptionValue>> options;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const size_t at = word.find('=');
    if (at == 0 || at == std::string::npos)
      throw_user("CLEAVE_XLA_OPTIONS: '{}' is not NAME=VALUE; options have spaces between them",
                 word);
    options.emplace_back(word.substr(0, at), value_of_text(word.substr(at + 1), word));
  }
  return options;
}

std::vector<int64_t> Client::devices_for(int64_t partitions) const {
  const auto s = [](int64_t count) { return count == 1 ? "" : "s"; };
  if (processes_ == 1 || partitions == 1) {
    if (num_local_devices() < partitions)
      throw_user("{}: has {} device{} ({}), and {} are needed; take a smaller mesh",
                 plugin_->name(), num_local_devices(), s(num_local_devices()),
                 devices_.empty() ? "none" : devices_[0].kind, partitions);
    return {local_ids_.begin(), local_ids_.begin() + partitions};
  }
  if (partitions < processes_)
    throw_user("a mesh of {} devices is not enough for {} processes; each needs at least one",
               partitions, processes_);
  std::map<int64_t, std::vector<int64_t>> by_process;
  for (const DeviceInfo& device : devices_) by_process[device.process].push_back(device.id);
  if (by_process.size() == 1)
    throw_user(
        "the plugin {} makes every process process 0 with devices of its own, so it cannot run "
        "over {} processes; start one process, which can have all devices",
        plugin_->name(), processes_);
  const DeviceBlocks blocks{partitions, static_cast<int>(processes_)};
  std::vector<int64_t> ids;
  for (int process = 0; process < blocks.ranks; ++process) {
    const std::vector<int64_t>& own = by_process[process];
    const int64_t count = blocks.count(process), there = static_cast<int64_t>(own.size());
    if (there < count)
      throw_user(
          "{}: process {} has {} device{}, and a mesh of {} over {} processes needs {} there",
          plugin_->name(), process, there, s(there), partitions, processes_, count);
    ids.insert(ids.end(), own.begin(), own.begin() + count);
  }
  return ids;
}

std::shared_ptr<Client> Client::shared(const std::string& plugin_path, int64_t devices) {
  static std::mutex mutex;
  // Each with how many devices it was asked for, so that all processes make new ones together.
  static auto& clients = *new std::map<std::string, std::pair<std::shared_ptr<Client>, int64_t>>;
  const std::shared_ptr<const Plugin> plugin = Plugin::load(plugin_path);
  std::lock_guard lock(mutex);
  auto& [client, asked] = clients[plugin->path()];
  if (!client || (plugin->is_for_cpus() && asked < devices)) {
    client = create(plugin, shared_options(*plugin, devices));
    asked = devices;
  }
  client->devices_for(devices);
  return client;
}

}  // namespace cleave::pjrt
