#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/pjrt/compile_settings.h"
#include "cleave/pjrt/device_buffer.h"
#include "cleave/pjrt/key_value_store.h"
#include "cleave/pjrt/plugin.h"

namespace cleave::pjrt {

class LoadedProgram;
struct ProgramHandles;

struct DeviceMemory {
  int64_t in_use = 0;
  std::optional<int64_t> peak, limit;
};

// A device that the client knows, in the order of the plugin.
struct DeviceInfo {
  int64_t id = 0;
  int64_t process = 0;
  std::string kind;                    // "cpu", "NVIDIA H200"
  std::optional<DeviceMemory> memory;  // now; nothing if the plugin does not say
};

// What a create option can be.
using OptionValue = std::variant<std::string, int64_t, float, bool, std::vector<int64_t>>;

struct ClientOptions {
  // Devices that a CPU plugin is to make of the host; 0: as many as it makes by itself. Only
  // plugins with "cpu" in their name are told.
  int64_t cpu_devices = 0;
  // More create options, as the plugin names them.
  std::vector<std::pair<std::string, OptionValue>> options = {};
  // If its devices are spread over processes: which one this is, of how many, and what they tell
  // each other by. The plugin learns the numbers as `node_id` and `num_nodes`.
  int64_t process = 0, processes = 1;
  std::shared_ptr<KeyValueStore> store = nullptr;
};

// Options of users, which stand in CLEAVE_XLA_OPTIONS, with spaces between them.
//   "preallocate=false memory_fraction=0.4 visible_devices=[0,1] platform_name=cuda"
std::vector<std::pair<std::string, OptionValue>> options_of_text(const std::string& text);

// The devices that a plugin drives, with the programs that were compiled for them.
class Client : public std::enable_shared_from_this<Client> {
 public:
  static std::shared_ptr<Client> create(std::shared_ptr<const Plugin> plugin,
                                        const ClientOptions& options = {});
  // One client per plugin and process, since a client may take most of a device's memory. It has at
  // least `devices` devices, or a UserError says how many there are. If there are several processes
  // (processes.h), all of them call it, and the devices are divided over them as DeviceBlocks says;
  // a single device is one of each process.
  static std::shared_ptr<Client> shared(const std::string& plugin_path, int64_t devices);
  ~Client();

  const Plugin& plugin() const { return *plugin_; }
  const std::shared_ptr<const Plugin>& shared_plugin() const { return plugin_; }
  const std::string& platform() const { return platform_; }         // "cpu", "cuda", "tpu"
  const std::string& platform_version() const { return version_; }  // in one line
  int64_t process() const { return process_; }
  const std::vector<DeviceInfo>& devices() const { return devices_; }  // of all processes
  // Devices that this process can reach, by their place in the client's list of such devices.
  int64_t num_local_devices() const { return static_cast<int64_t>(handles_.size()); }
  const std::vector<int64_t>& local_device_ids() const { return local_ids_; }
  std::optional<DeviceMemory> memory(int64_t local_device) const;  // as it is now
  // The ids of the devices that run a program of so many partitions, by partition: blocks of every
  // process's devices in turn. One partition runs on a device of this process.
  std::vector<int64_t> devices_for(int64_t partitions) const;

  // Starts to copy an array to a device, which holds the array until it is there.
  BufferPtr to_device(const Array& array, int64_t local_device) const;

  // Compiles a module's text. What was compiled before is found by text and settings: in this
  // process, and on disk if CLEAVE_XLA_CACHE names a folder and the plugin can write programs.
  std::shared_ptr<const LoadedProgram> compile(const std::string& text,
                                               const CompileSettings& settings = {}) const;
  int64_t compilations() const { return compilations_; }  // that the plugin made

  c::Client* handle() const { return client_; }
  // The local device with a handle of the plugin; -1 if there is none.
  int64_t local_device(const c::Device* handle) const;

 private:
  Client(std::shared_ptr<const Plugin> plugin, const ClientOptions& options);
  void read_devices();
  c::LoadedExecutable* compile_anew(const std::string& text, const std::string& options) const;
  c::LoadedExecutable* load_from_disk(const std::string& file, const std::string& key) const;
  void save_to_disk(const std::string& file, const std::string& key,
                    const LoadedProgram& program) const;

  std::shared_ptr<const Plugin> plugin_;
  std::shared_ptr<KeyValueStore> store_;
  c::Client* client_ = nullptr;
  std::string platform_, version_;
  int64_t process_ = 0;
  int64_t own_process_, processes_;  // as they were asked for
  std::vector<DeviceInfo> devices_;
  std::vector<c::Device*> handles_;
  std::vector<int64_t> local_ids_;

  struct Compiled {
    std::string key;
    std::shared_ptr<const ProgramHandles> program;
  };
  mutable std::mutex mutex_;
  mutable std::list<Compiled> compiled_;  // the last that was used first
  mutable int64_t compilations_ = 0;
};

}  // namespace cleave::pjrt
