#include "cleave/pjrt/client.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/pjrt/dense_layout.h"
#include "cleave/pjrt/element_type.h"
#include "cleave/pjrt/loaded_program.h"

namespace cleave::pjrt {
namespace {

constexpr size_t kMostPrograms = 64;
constexpr int64_t kMostDevices = 4096;

// XLA's CPU client has as many threads as NPROC says when it is made, else as the host has cores or
// the client devices. A collective keeps its thread while it waits for other devices, and a device
// may wait in several: if all threads wait, the program never ends. So there are many, unless the
// user has set a number.
class EnoughThreads {
 public:
  explicit EnoughThreads(int64_t devices) : is_set_(devices > 1 && !std::getenv("NPROC")) {
    if (is_set_)
      setenv("NPROC", std::to_string(std::clamp<int64_t>(16 * devices, 64, 1024)).c_str(), 0);
  }
  ~EnoughThreads() {
    if (is_set_) unsetenv("NPROC");
  }
  EnoughThreads(const EnoughThreads&) = delete;
  EnoughThreads& operator=(const EnoughThreads&) = delete;

 private:
  bool is_set_;
};

c::NamedValue named(const std::string& name, const OptionValue& value) {
  c::NamedValue option;
  option.name = name.data();
  option.name_size = name.size();
  if (const auto* text = std::get_if<std::string>(&value)) {
    option.kind = c::kString;
    option.text = text->data();
    option.value_size = text->size();
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    option.kind = c::kInt64;
    option.integer = *integer;
  } else if (const auto* number = std::get_if<float>(&value)) {
    option.kind = c::kFloat;
    option.number = *number;
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    option.kind = c::kInt64List;
    option.integers = list->data();
    option.value_size = list->size();
  } else {
    option.kind = c::kBool;
    option.integer = 0;
    option.flag = std::get<bool>(value);
  }
  return option;
}

DeviceInfo describe(const Plugin& plugin, c::Device* device) {
  c::DeviceGetDescription get;
  get.device = device;
  plugin.call(get, "asking for a device");
  DeviceInfo info;
  c::DescriptionId id;
  id.description = get.description;
  plugin.call(id, "asking for a device's id");
  info.id = id.id;
  c::DescriptionProcessIndex process;
  process.description = get.description;
  plugin.call(process, "asking for a device's process");
  info.process = process.process_index;
  c::DescriptionKind kind;
  kind.description = get.description;
  plugin.call(kind, "asking for a device's kind");
  info.kind.assign(kind.text, kind.text_size);
  return info;
}

// What the plugin says of a device's memory, if it says anything.
std::optional<DeviceMemory> memory_of(const Plugin& plugin, c::Device* device) {
  c::DeviceMemoryStats stats;
  stats.device = device;
  try {
    plugin.call(stats, "asking for a device's memory");
  } catch (const PluginError&) {  // CPU plugins do not count it
    return std::nullopt;
  }
  DeviceMemory memory;
  memory.in_use = stats.bytes_in_use;
  if (stats.peak_bytes_in_use.is_set) memory.peak = stats.peak_bytes_in_use.value;
  if (stats.bytes_limit.is_set) memory.limit = stats.bytes_limit.value;
  return memory;
}

uint64_t fnv(std::string_view text, uint64_t hash) {
  for (unsigned char byte : text) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

// Holds what an asynchronous copy reads.
struct Held {
  const Plugin* plugin;
  Array array;
};

void let_go(c::Error* error, void* user) {
  const std::unique_ptr<Held> held(static_cast<Held*>(user));
  held->plugin->drop(error);
}

}  // namespace

Client::Client(std::shared_ptr<const Plugin> plugin, const ClientOptions& options)
    : plugin_(std::move(plugin)),
      store_(options.store),
      own_process_(options.process),
      processes_(options.processes) {
  const std::string count_name = "cpu_device_count", node = "node_id", nodes = "num_nodes";
  std::vector<c::NamedValue> values;
  if (options.cpu_devices < 0 || options.cpu_devices > kMostDevices)
    throw_user("a client of {} CPU devices is asked for; 1 to {} can be made", options.cpu_devices,
               kMostDevices);
  if (options.cpu_devices > 0 && plugin_->is_for_cpus())
    values.push_back(named(count_name, options.cpu_devices));
  // TPUs know of each other by themselves.
  if (processes_ > 1 && plugin_->name().find("tpu") == std::string::npos) {
    values.push_back(named(node, own_process_));
    values.push_back(named(nodes, processes_));
  }
  for (const auto& [name, value] : options.options) values.push_back(named(name, value));
  c::ClientCreate args;
  args.options = values.data();
  args.num_options = values.size();
  if (store_) connect(*store_, args);
  const EnoughThreads threads(plugin_->is_for_cpus() ? options.cpu_devices : 0);
  plugin_->call(args, "making a client");
  client_ = args.client;
}

Client::~Client() {
  if (!client_) return;
  compiled_.clear();
  c::ClientDestroy args;
  args.client = client_;
  plugin_->call_silently(args);
}

std::shared_ptr<Client> Client::create(std::shared_ptr<const Plugin> plugin,
                                       const ClientOptions& options) {
  std::shared_ptr<Client> client(new Client(std::move(plugin), options));
  client->read_devices();
  return client;
}

void Client::read_devices() {
  c::ClientPlatformName name;
  name.client = client_;
  plugin_->call(name, "asking for the platform");
  platform_.assign(name.text, name.text_size);
  c::ClientPlatformVersion version;
  version.client = client_;
  plugin_->call(version, "asking for the platform's version");
  version_ = in_one_line({version.text, version.text_size});
  c::ClientProcessIndex process;
  process.client = client_;
  plugin_->call(process, "asking for the process");
  process_ = process.process_index;
  c::ClientAddressableDevices own;
  own.client = client_;
  plugin_->call(own, "asking for devices");
  handles_.assign(own.devices, own.devices + own.num_devices);
  for (c::Device* handle : handles_) local_ids_.push_back(describe(*plugin_, handle).id);
  c::ClientDevices all;
  all.client = client_;
  plugin_->call(all, "asking for devices");
  for (size_t i = 0; i < all.num_devices; ++i) {
    DeviceInfo info = describe(*plugin_, all.devices[i]);
    if (local_device(all.devices[i]) >= 0) info.memory = memory_of(*plugin_, all.devices[i]);
    devices_.push_back(std::move(info));
  }
}

int64_t Client::local_device(const c::Device* handle) const {
  const auto it = std::find(handles_.begin(), handles_.end(), handle);
  return it == handles_.end() ? -1 : it - handles_.begin();
}

std::optional<DeviceMemory> Client::memory(int64_t local_device) const {
  return memory_of(*plugin_, handles_.at(static_cast<size_t>(local_device)));
}

BufferPtr Client::to_device(const Array& array, int64_t local_device) const {
  require_transferable(Type::tensor(array.dtype(), array.shape()), "an array");
  if (local_device < 0 || local_device >= num_local_devices())
    throw_user("{}: there is no device {}; it has {}", plugin_->name(), local_device,
               num_local_devices());
  auto held = std::make_unique<Held>(Held{plugin_.get(), array.contiguous()});
  DenseLayout layout(array.rank());
  c::BufferFromHost args;
  args.client = client_;
  args.data = held->array.raw();
  args.type = *element_type(array.dtype());
  args.dims = held->array.shape().data();
  args.num_dims = array.rank();
  args.device = handles_[static_cast<size_t>(local_device)];
  args.device_layout = layout.get();
  plugin_->call(args, "copying an array to a device");
  auto buffer = std::make_shared<DeviceBuffer>(shared_from_this(), args.buffer);
  if (args.done_with_host_buffer) {
    c::EventOnReady ready;
    ready.event = args.done_with_host_buffer;
    ready.callback = let_go;
    ready.user = held.get();
    plugin_->call(ready, "copying an array to a device");
    held.release();  // let_go frees it
    c::EventDestroy destroy;
    destroy.event = args.done_with_host_buffer;
    plugin_->call_silently(destroy);
  }
  return buffer;
}

c::LoadedExecutable* Client::compile_anew(const std::string& text,
                                          const std::string& options) const {
  const std::string format = "mlir";
  std::string code = text;  // a plugin may write to it
  c::Program program;
  program.code = code.data();
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  c::ClientCompile args;
  args.client = client_;
  args.program = &program;
  args.options = options.data();
  args.options_size = options.size();
  plugin_->call(args, "compiling");
  return args.executable;
}

c::LoadedExecutable* Client::load_from_disk(const std::string& file, const std::string& key) const {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return nullptr;
  const std::string bytes = read_input_file(file);
  // The key stands first, so that two programs whose names agree by chance are told apart.
  if (bytes.size() < key.size() || bytes.compare(0, key.size(), key) != 0) return nullptr;
  c::DeserializeAndLoad args;
  args.client = client_;
  args.bytes = bytes.data() + key.size();
  args.bytes_size = bytes.size() - key.size();
  try {
    plugin_->call(args, "loading a program");
  } catch (const PluginError&) {  // written by another build of the plugin: it is compiled again
    return nullptr;
  }
  return args.executable;
}

void Client::save_to_disk(const std::string& file, const std::string& key,
                          const LoadedProgram& program) const {
  std::string bytes;
  try {
    bytes = program.serialize();
  } catch (const PluginError& error) {
    if (error.code == c::kUnimplemented) return;
    throw;
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  write_file(file, key + bytes);
}

std::shared_ptr<const LoadedProgram> Client::compile(const std::string& text,
                                                     const CompileSettings& settings) const {
  const std::string options = pjrt::serialize(settings);
  // Processes that share a folder have a program of their own each.
  const std::string key =
      fmt::format("{}\n{}\n{}\n{} of {}\n{}\n{}\n", platform_, version_, plugin_->path(),
                  own_process_, processes_, options.size(), text.size()) +
      options + text;
  std::lock_guard lock(mutex_);
  const auto known = std::find_if(compiled_.begin(), compiled_.end(),
                                  [&](const Compiled& each) { return each.key == key; });
  if (known != compiled_.end()) {
    compiled_.splice(compiled_.begin(), compiled_, known);
    return std::make_shared<const LoadedProgram>(shared_from_this(), known->program);
  }
  const char* folder = std::getenv("CLEAVE_XLA_CACHE");
  const std::string file =
      folder && *folder
          ? (std::filesystem::path(folder) /
             fmt::format("{:016x}{:016x}.xla", fnv(key, 0xcbf29ce484222325), fnv(key, 0x9e3779b9)))
                .string()
          : std::string();
  c::LoadedExecutable* loaded = file.empty() ? nullptr : load_from_disk(file, key);
  const bool anew = !loaded;
  if (anew) loaded = compile_anew(text, options);
  compilations_ += anew;
  const auto handles = std::make_shared<const ProgramHandles>(*this, loaded);
  const auto program = std::make_shared<const LoadedProgram>(shared_from_this(), handles);
  if (anew && !file.empty()) save_to_disk(file, key, *program);
  compiled_.push_front({key, handles});
  if (compiled_.size() > kMostPrograms) compiled_.pop_back();
  return program;
}

}  // namespace cleave::pjrt
