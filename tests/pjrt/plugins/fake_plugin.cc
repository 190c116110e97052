// A PJRT plugin without a compiler, for tests that need no other software. Its "programs" return
// their arguments, or their first N if the module's text has "results=N"; a text with "all_reduce"
// sums its arguments of 32-bit floats over all partitions, and one with "refuse" does not compile.
// Processes that are told `node_id` and `num_nodes` make one client through the key-value store: it
// carries their devices, and the parts of sums. What is wrong with it is said by macros:
//   FAKE_ALONE               every process is process 0, whatever it is told
//   FAKE_MAJOR, FAKE_MINOR   the version that it speaks
//   FAKE_TABLE_SIZE          the bytes of its table, as it says
//   FAKE_NO_TABLE            the entry point returns nothing
//   FAKE_INITIALIZE_FAILS    the plugin cannot be initialised
//   FAKE_CLIENT_FAILS        no client can be made
#include <cstring>
#include <string>
#include <vector>

#include "cleave/pjrt/c_interface.h"

namespace c = cleave::pjrt::c;

#ifndef FAKE_MAJOR
#define FAKE_MAJOR 0
#endif
#ifndef FAKE_MINOR
#define FAKE_MINOR 81
#endif

namespace {

struct FakeError {
  int code;
  std::string message;
};
c::Error* fail(int code, std::string message) {
  return reinterpret_cast<c::Error*>(new FakeError{code, std::move(message)});
}
const FakeError& read(const c::Error* error) { return *reinterpret_cast<const FakeError*>(error); }

struct FakeBuffer {
  int type;
  std::vector<int64_t> dims;
  std::string bytes;
  bool deleted = false;
};
FakeBuffer& read(c::Buffer* buffer) { return *reinterpret_cast<FakeBuffer*>(buffer); }

struct FakeDevice {
  int id;
  int process;
};
FakeDevice& read(c::Device* device) { return *reinterpret_cast<FakeDevice*>(device); }

struct FakeClient {
  std::vector<FakeDevice> storage;
  std::vector<c::Device*> devices, own;
  int process = 0;
  c::ClientCreate store;  // its functions
  int runs = 0;           // of programs that sum
};

struct FakeProgram {
  size_t results;
  bool sums;
  size_t partitions;
  FakeClient* client;
};

void error_destroy(c::ErrorDestroy* args) { delete reinterpret_cast<FakeError*>(args->error); }
void error_message(c::ErrorMessage* args) {
  args->message = read(args->error).message.data();
  args->message_size = read(args->error).message.size();
}
c::Error* error_code(c::ErrorGetCode* args) {
  args->code = read(args->error).code;
  return nullptr;
}
c::Error* initialize(c::PluginInitialize*) {
#ifdef FAKE_INITIALIZE_FAILS
  return fail(13, "no accelerator\n  on this host");
#else
  return nullptr;
#endif
}
template <typename Args>
c::Error* nothing(Args*) {
  return nullptr;
}

c::CallbackError make_error = [](int code, const char* message, size_t size) {
  return fail(code, std::string(message, size));
};

c::Error* put_note(const c::ClientCreate& store, const std::string& key, const std::string& value) {
  c::KeyValuePut put{sizeof(c::KeyValuePut), nullptr,      key.data(),  key.size(),
                     value.data(),           value.size(), &make_error, store.put_user};
  return store.put(&put);
}
c::Error* get_note(const c::ClientCreate& store, const std::string& key, std::string& value) {
  c::KeyValueGet get{sizeof(c::KeyValueGet), nullptr, key.data(), key.size(), 20000, &make_error,
                     store.get_user,         nullptr, 0,          nullptr};
  if (c::Error* error = store.get(&get)) return error;
  value.assign(get.value, get.value_size);
  get.deleter(get.value);
  return nullptr;
}

// With a store, the processes exchange a greeting, as plugins of several processes do.
c::Error* greet(const c::ClientCreate& store) {
  std::string value;
  if (c::Error* error = put_note(store, "hello", "world")) return error;
  if (c::Error* error = get_note(store, "hello", value)) return error;
  if (value != "world") return fail(13, "the store gave " + value);
  c::KeyValueTryGet missing{sizeof(c::KeyValueTryGet), nullptr, "nobody", 6,      &make_error,
                            store.try_get_user,        nullptr, 0,        nullptr};
  c::Error* error = store.try_get(&missing);
  if (!error) return fail(13, "the store gave what nobody put there");
  if (read(error).code != c::kNotFound) return error;
  delete reinterpret_cast<FakeError*>(error);
  return nullptr;
}

c::Error* client_create(c::ClientCreate* args) {
#ifdef FAKE_CLIENT_FAILS
  return fail(14, "the driver is missing");
#endif
  int64_t count = 1, node = 0, nodes = 1;
  for (size_t i = 0; i < args->num_options; ++i) {
    const std::string name(args->options[i].name, args->options[i].name_size);
    const int64_t value = args->options[i].integer;
    if (name == "cpu_device_count")
      count = value;
    else if (name == "node_id")
      node = value;
    else if (name == "num_nodes")
      nodes = value;
    else
      return fail(3, "unknown create option " + name);
  }
#ifdef FAKE_ALONE
  node = 0;
  nodes = 1;
#endif
  if (args->get)
    if (c::Error* error = greet(*args)) return error;
  std::vector<int64_t> counts{count};
  if (nodes > 1) {
    const auto key = [](int64_t process) { return "devices of " + std::to_string(process); };
    if (c::Error* error = put_note(*args, key(node), std::to_string(count))) return error;
    counts.clear();
    for (int64_t process = 0; process < nodes; ++process) {
      std::string value;
      if (c::Error* error = get_note(*args, key(process), value)) return error;
      counts.push_back(std::stoll(value));
    }
  }
  auto* client = new FakeClient;
  client->process = static_cast<int>(node);
  client->store = *args;
  for (size_t process = 0; process < counts.size(); ++process)
    for (int64_t i = 0; i < counts[process]; ++i)
      client->storage.push_back(
          {100 + static_cast<int>(client->storage.size()), static_cast<int>(process)});
  for (FakeDevice& device : client->storage) {
    client->devices.push_back(reinterpret_cast<c::Device*>(&device));
    if (device.process == node) client->own.push_back(client->devices.back());
  }
  args->client = reinterpret_cast<c::Client*>(client);
  return nullptr;
}
c::Error* client_destroy(c::ClientDestroy* args) {
  delete reinterpret_cast<FakeClient*>(args->client);
  return nullptr;
}
template <typename Args>
c::Error* text(Args* args) {
  args->text = "fake";
  args->text_size = 4;
  return nullptr;
}
template <typename Args>
c::Error* devices(Args* args) {
  const auto& client = *reinterpret_cast<FakeClient*>(args->client);
  args->devices = client.devices.data();
  args->num_devices = client.devices.size();
  return nullptr;
}
c::Error* own_devices(c::ClientAddressableDevices* args) {
  const auto& client = *reinterpret_cast<FakeClient*>(args->client);
  args->devices = client.own.data();
  args->num_devices = client.own.size();
  return nullptr;
}
c::Error* client_process(c::ClientProcessIndex* args) {
  args->process_index = reinterpret_cast<FakeClient*>(args->client)->process;
  return nullptr;
}
c::Error* description(c::DeviceGetDescription* args) {
  args->description = reinterpret_cast<c::DeviceDescription*>(args->device);
  return nullptr;
}
c::Error* device_id(c::DescriptionId* args) {
  args->id = reinterpret_cast<FakeDevice*>(args->description)->id;
  return nullptr;
}
c::Error* device_process(c::DescriptionProcessIndex* args) {
  args->process_index = reinterpret_cast<FakeDevice*>(args->description)->process;
  return nullptr;
}
c::Error* memory_stats(c::DeviceMemoryStats* args) {
  args->bytes_in_use = 1 << 20;
  args->bytes_limit = {int64_t{1} << 30, true};
  return nullptr;
}

c::Error* compile(c::ClientCompile* args) {
  const std::string text(args->program->code, args->program->code_size);
  if (text.find("refuse") != std::string::npos)
    return fail(12, "cannot compile this:\n  it says refuse\n*** Begin stack trace ***\n  main");
  const auto number_after = [&](const std::string& name) -> size_t {
    const size_t at = text.find(name);
    return at == std::string::npos ? 1 : std::stoul(text.substr(at + name.size()));
  };
  args->executable = reinterpret_cast<c::LoadedExecutable*>(new FakeProgram{
      number_after("results="), text.find("all_reduce") != std::string::npos,
      number_after("mhlo.num_partitions = "), reinterpret_cast<FakeClient*>(args->client)});
  return nullptr;
}
c::Error* get_executable(c::GetExecutable* args) {
  args->executable = reinterpret_cast<c::Executable*>(args->loaded);
  return nullptr;
}
c::Error* loaded_destroy(c::LoadedExecutableDestroy* args) {
  delete reinterpret_cast<FakeProgram*>(args->executable);
  return nullptr;
}
c::Error* num_outputs(c::ExecutableNumOutputs* args) {
  args->num_outputs = reinterpret_cast<FakeProgram*>(args->executable)->results;
  return nullptr;
}
// All devices, in order; of one partition, the first of this process.
c::Error* program_devices(c::LoadedExecutableDevices* args) {
  const auto& program = *reinterpret_cast<FakeProgram*>(args->executable);
  args->devices = program.client->own.data();
  args->num_devices = program.partitions == 1 ? 1 : program.client->own.size();
  return nullptr;
}

// The sum of an argument over all partitions, in the buffers of this process.
c::Error* sum_all(FakeProgram& program, c::Execute* args, size_t i) {
  FakeClient& client = *program.client;
  const std::string run = "run " + std::to_string(client.runs++) + " of partition ";
  for (size_t d = 0; d < args->num_devices; ++d)
    if (c::Error* error = put_note(client.store, run + std::to_string(read(client.own[d]).id - 100),
                                   read(args->arguments[d][i]).bytes))
      return error;
  std::vector<float> sum(read(args->arguments[0][i]).bytes.size() / sizeof(float));
  for (size_t partition = 0; partition < client.devices.size(); ++partition) {
    std::string part;
    if (c::Error* error = get_note(client.store, run + std::to_string(partition), part))
      return error;
    std::vector<float> values(part.size() / sizeof(float));
    std::memcpy(values.data(), part.data(), part.size());
    for (size_t k = 0; k < sum.size(); ++k) sum[k] += values[k];
  }
  for (size_t d = 0; d < args->num_devices; ++d)
    std::memcpy(read(args->outputs[d][i]).bytes.data(), sum.data(), sum.size() * sizeof(float));
  return nullptr;
}

c::Error* execute(c::Execute* args) {
  auto& program = *reinterpret_cast<FakeProgram*>(args->executable);
  for (size_t d = 0; d < args->num_devices; ++d)
    for (size_t i = 0; i < program.results; ++i)
      args->outputs[d][i] =
          reinterpret_cast<c::Buffer*>(new FakeBuffer(read(args->arguments[d][i])));
  for (size_t i = 0; program.sums && i < program.results; ++i)
    if (c::Error* error = sum_all(program, args, i)) return error;
  return nullptr;
}

c::Error* from_host(c::BufferFromHost* args) {
  size_t bytes = args->type == c::kF32 ? 4 : 1;
  for (size_t i = 0; i < args->num_dims; ++i) bytes *= static_cast<size_t>(args->dims[i]);
  args->buffer = reinterpret_cast<c::Buffer*>(
      new FakeBuffer{args->type,
                     {args->dims, args->dims + args->num_dims},
                     std::string(static_cast<const char*>(args->data), bytes)});
  return nullptr;
}
c::Error* buffer_destroy(c::BufferDestroy* args) {
  delete &read(args->buffer);
  return nullptr;
}
c::Error* buffer_type(c::BufferElementType* args) {
  args->type = read(args->buffer).type;
  return nullptr;
}
c::Error* buffer_dims(c::BufferDimensions* args) {
  args->dims = read(args->buffer).dims.data();
  args->num_dims = read(args->buffer).dims.size();
  return nullptr;
}
c::Error* to_host(c::BufferToHost* args) {
  const std::string& bytes = read(args->buffer).bytes;
  if (read(args->buffer).deleted) return fail(3, "the buffer was deleted");
  if (bytes.size() > args->data_size) return fail(3, "too little room");
  std::memcpy(args->data, bytes.data(), bytes.size());
  return nullptr;
}
c::Error* buffer_delete(c::BufferDelete* args) {
  read(args->buffer).deleted = true;
  return nullptr;
}
c::Error* buffer_is_deleted(c::BufferIsDeleted* args) {
  args->is_deleted = read(args->buffer).deleted;
  return nullptr;
}
c::Error* serialize(c::ExecutableSerialize* args) {
  static char bytes[sizeof(FakeProgram)];
  std::memcpy(bytes, args->executable, sizeof bytes);
  args->bytes = bytes;
  args->bytes_size = sizeof bytes;
  return nullptr;
}
c::Error* load(c::DeserializeAndLoad* args) {
  if (args->bytes_size != sizeof(FakeProgram)) return fail(3, "not a program");
  auto* program = new FakeProgram{};
  std::memcpy(static_cast<void*>(program), args->bytes, sizeof(FakeProgram));
  args->executable = reinterpret_cast<c::LoadedExecutable*>(program);
  return nullptr;
}

struct FullTable {
  size_t size;
  void* extensions;
  c::Version version;
  void* functions[static_cast<size_t>(c::kLastFunction) + 1];
};
FullTable table;

template <typename F>
void set(c::Function place, F* function) {
  table.functions[static_cast<size_t>(place)] = reinterpret_cast<void*>(function);
}

void fill() {
  using enum c::Function;
  set(ErrorDestroy, error_destroy);
  set(ErrorMessage, error_message);
  set(ErrorGetCode, error_code);
  set(PluginInitialize, initialize);
  set(EventDestroy, nothing<c::EventDestroy>);
  set(EventAwait, nothing<c::EventAwait>);
  set(ClientCreate, client_create);
  set(ClientDestroy, client_destroy);
  set(ClientPlatformName, text<c::ClientPlatformName>);
  set(ClientPlatformVersion, text<c::ClientPlatformVersion>);
  set(ClientProcessIndex, client_process);
  set(ClientDevices, devices<c::ClientDevices>);
  set(ClientAddressableDevices, own_devices);
  set(ClientCompile, compile);
  set(ClientBufferFromHostBuffer, from_host);
  set(DescriptionId, device_id);
  set(DescriptionProcessIndex, device_process);
  set(DescriptionKind, text<c::DescriptionKind>);
  set(DeviceGetDescription, description);
  set(DeviceMemoryStats, memory_stats);
  set(ExecutableDestroy, nothing<c::ExecutableDestroy>);
  set(ExecutableNumOutputs, num_outputs);
  set(ExecutableSerialize, serialize);
  set(LoadedExecutableDestroy, loaded_destroy);
  set(LoadedExecutableGetExecutable, get_executable);
  set(LoadedExecutableAddressableDevices, program_devices);
  set(LoadedExecutableExecute, execute);
  set(ExecutableDeserializeAndLoad, load);
  set(BufferDestroy, buffer_destroy);
  set(BufferElementType, buffer_type);
  set(BufferDimensions, buffer_dims);
  set(BufferDelete, buffer_delete);
  set(BufferIsDeleted, buffer_is_deleted);
  set(BufferToHostBuffer, to_host);
  set(BufferReadyEvent, nothing<c::BufferReadyEvent>);
}

}  // namespace

extern "C" const c::Table* GetPjrtApi() {
#ifdef FAKE_NO_TABLE
  return nullptr;
#endif
#ifdef FAKE_TABLE_SIZE
  table.size = FAKE_TABLE_SIZE;
#else
  table.size = sizeof table;
#endif
  table.version = {sizeof(c::Version), nullptr, FAKE_MAJOR, FAKE_MINOR};
  fill();
  return reinterpret_cast<const c::Table*>(&table);
}
