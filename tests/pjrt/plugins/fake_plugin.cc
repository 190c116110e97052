// A PJRT plugin without a compiler, for tests that need no other software. Its "programs" return
// their arguments, or their first N if the module's text has "results=N"; a text with "refuse" does
// not compile. What is wrong with it is said by macros:
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

struct FakeProgram {
  size_t results;
};
struct FakeClient {
  std::vector<c::Device*> devices;
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

c::Error* client_create(c::ClientCreate* args) {
#ifdef FAKE_CLIENT_FAILS
  return fail(14, "the driver is missing");
#endif
  int64_t count = 1;
  for (size_t i = 0; i < args->num_options; ++i) {
    const std::string name(args->options[i].name, args->options[i].name_size);
    if (name != "cpu_device_count") return fail(3, "unknown create option " + name);
    count = args->options[i].integer;
  }
  // With a store, the processes exchange a greeting, as plugins of several processes do.
  if (args->get) {
    static c::CallbackError make = [](int code, const char* message, size_t size) {
      return fail(code, std::string(message, size));
    };
    c::KeyValuePut put{sizeof(c::KeyValuePut), nullptr, "hello", 5, "world", 5, &make,
                       args->put_user};
    if (c::Error* error = args->put(&put)) return error;
    c::KeyValueGet get{sizeof(c::KeyValueGet), nullptr, "hello", 5,      1000, &make,
                       args->get_user,         nullptr, 0,       nullptr};
    if (c::Error* error = args->get(&get)) return error;
    const std::string value(get.value, get.value_size);
    get.deleter(get.value);
    if (value != "world") return fail(13, "the store gave " + value);
    c::KeyValueTryGet missing{sizeof(c::KeyValueTryGet), nullptr, "nobody", 6,      &make,
                              args->try_get_user,        nullptr, 0,        nullptr};
    c::Error* error = args->try_get(&missing);
    if (!error) return fail(13, "the store gave what nobody put there");
    if (read(error).code != c::kNotFound) return error;
    delete reinterpret_cast<FakeError*>(error);
  }
  auto* client = new FakeClient;
  for (int64_t i = 0; i < count; ++i)
    client->devices.push_back(reinterpret_cast<c::Device*>(i + 1));
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
c::Error* description(c::DeviceGetDescription* args) {
  args->description = reinterpret_cast<c::DeviceDescription*>(args->device);
  return nullptr;
}
c::Error* device_id(c::DescriptionId* args) {
  args->id = static_cast<int>(reinterpret_cast<intptr_t>(args->description)) + 99;
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
  const size_t at = text.find("results=");
  args->executable = reinterpret_cast<c::LoadedExecutable*>(
      new FakeProgram{at == std::string::npos ? 1 : std::stoul(text.substr(at + 8))});
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
c::Error* program_devices(c::LoadedExecutableDevices* args) {
  static c::Device* const kFirst = reinterpret_cast<c::Device*>(1);
  args->devices = &kFirst;
  args->num_devices = 1;
  return nullptr;
}
c::Error* execute(c::Execute* args) {
  const size_t results = reinterpret_cast<FakeProgram*>(args->executable)->results;
  for (size_t d = 0; d < args->num_devices; ++d)
    for (size_t i = 0; i < results; ++i)
      args->outputs[d][i] =
          reinterpret_cast<c::Buffer*>(new FakeBuffer(read(args->arguments[d][i])));
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
  set(ClientProcessIndex, nothing<c::ClientProcessIndex>);
  set(ClientDevices, devices<c::ClientDevices>);
  set(ClientAddressableDevices, devices<c::ClientAddressableDevices>);
  set(ClientCompile, compile);
  set(ClientBufferFromHostBuffer, from_host);
  set(DescriptionId, device_id);
  set(DescriptionProcessIndex, nothing<c::DescriptionProcessIndex>);
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
