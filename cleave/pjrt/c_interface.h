#pragma once

#include <cstddef>
#include <cstdint>

// The part of PJRT's C interface that Cleave uses, declared anew: what functions stand at which
// place of a plugin's table, and how their arguments lie in memory. Every function takes one struct
// that begins with its size and a list of extensions. Structs only grow at their end, and a plugin
// takes one that is larger than it knows; so these are as large as in version 0.114, zero where
// nothing is said. tests/reference/test_pjrt_layout.py compares places and offsets with the header
// of a plugin.
namespace cleave::pjrt::c {

// The order of the table changed last in 0.57; since then functions were added at the end.
inline constexpr int kMajor = 0;
inline constexpr int kOldestMinor = 57;

struct Error;
struct Event;
struct Client;
struct Device;
struct DeviceDescription;
struct Memory;
struct Executable;
struct LoadedExecutable;
struct Buffer;
struct Serialized;

enum class Function : size_t {
  ErrorDestroy = 0,
  ErrorMessage = 1,
  ErrorGetCode = 2,
  PluginInitialize = 3,
  EventDestroy = 5,
  EventIsReady = 6,
  EventAwait = 8,
  EventOnReady = 9,
  ClientCreate = 10,
  ClientDestroy = 11,
  ClientPlatformName = 12,
  ClientProcessIndex = 13,
  ClientPlatformVersion = 14,
  ClientDevices = 15,
  ClientAddressableDevices = 16,
  ClientCompile = 20,
  ClientBufferFromHostBuffer = 22,
  DescriptionId = 23,
  DescriptionProcessIndex = 24,
  DescriptionKind = 26,
  DeviceGetDescription = 29,
  DeviceMemoryStats = 34,
  ExecutableDestroy = 40,
  ExecutableNumOutputs = 44,
  ExecutableOptimizedProgram = 48,
  ExecutableSerialize = 49,
  LoadedExecutableDestroy = 50,
  LoadedExecutableGetExecutable = 51,
  LoadedExecutableAddressableDevices = 52,
  LoadedExecutableExecute = 55,
  ExecutableDeserializeAndLoad = 56,
  BufferDestroy = 58,
  BufferElementType = 59,
  BufferDimensions = 60,
  BufferOnDeviceSize = 64,
  BufferDelete = 67,
  BufferIsDeleted = 68,
  BufferToHostBuffer = 70,
  BufferReadyEvent = 72,
  ExecutableGetCompiledMemoryStats = 96,
};
// A table must reach to the end of this function.
inline constexpr Function kLastFunction = Function::ExecutableGetCompiledMemoryStats;

struct Version {
  size_t size;
  void* extensions;
  int major;
  int minor;
};

// What GetPjrtApi returns.
struct Table {
  size_t size;
  void* extensions;
  Version version;
  void* functions[1];  // as many as `size` says
};
inline constexpr size_t kTableHead = offsetof(Table, functions);
inline constexpr size_t kTableSize = kTableHead + 8 * (static_cast<size_t>(kLastFunction) + 1);
using GetTable = const Table* (*)();

// The codes of absl::Status.
enum ErrorCode : int {
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kUnimplemented = 12,
  kInternal = 13,
};

// What a plugin takes as the type of elements.
enum ElementType : int {
  kInvalid,
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF16,
  kF32,
  kF64,
  kBF16,
  kC64,
  kC128,
  kF8E5M2,
  kF8E4M3FN,
  kF8E4M3B11FNUZ,
  kF8E5M2FNUZ,
  kF8E4M3FNUZ,
  kS4,
  kU4,
  kToken,
  kS2,
  kU2,
  kF8E4M3,
  kF8E3M4,
  kF8E8M0FNU,
  kF4E2M1FN,
};

// Every struct of arguments begins like this.
template <typename T, Function F>
struct Args {
  static constexpr Function kFunction = F;
  size_t size = sizeof(T);
  void* extensions = nullptr;
};

struct ErrorDestroy : Args<ErrorDestroy, Function::ErrorDestroy> {
  Error* error = nullptr;
};
struct ErrorMessage : Args<ErrorMessage, Function::ErrorMessage> {
  const Error* error = nullptr;
  const char* message = nullptr;
  size_t message_size = 0;
};
struct ErrorGetCode : Args<ErrorGetCode, Function::ErrorGetCode> {
  const Error* error = nullptr;
  int code = 0;
};
// Makes an error inside a function that the plugin calls.
using CallbackError = Error* (*)(int code, const char* message, size_t message_size);

enum NamedValueKind : int { kString, kInt64, kInt64List, kFloat, kBool };
struct NamedValue {
  size_t size = sizeof(NamedValue);
  void* extensions = nullptr;
  const char* name = nullptr;
  size_t name_size = 0;
  NamedValueKind kind = kString;
  union {
    const char* text;
    int64_t integer;
    const int64_t* integers;
    float number;
    bool flag;
  };
  size_t value_size = 1;
};

struct PluginInitialize : Args<PluginInitialize, Function::PluginInitialize> {};

struct EventDestroy : Args<EventDestroy, Function::EventDestroy> {
  Event* event = nullptr;
};
struct EventIsReady : Args<EventIsReady, Function::EventIsReady> {
  Event* event = nullptr;
  bool is_ready = false;
};
struct EventAwait : Args<EventAwait, Function::EventAwait> {
  Event* event = nullptr;
};
struct EventOnReady : Args<EventOnReady, Function::EventOnReady> {
  Event* event = nullptr;
  void (*callback)(Error* error, void* user) = nullptr;
  void* user = nullptr;
};

struct KeyValueGet {
  size_t size;
  void* extensions;
  const char* key;
  size_t key_size;
  int timeout_ms;
  CallbackError* make_error;
  void* user;
  char* value;  // out
  size_t value_size;
  void (*deleter)(char* value);
};
struct KeyValueTryGet {
  size_t size;
  void* extensions;
  const char* key;
  size_t key_size;
  CallbackError* make_error;
  void* user;
  char* value;  // out
  size_t value_size;
  void (*deleter)(char* value);
};
struct KeyValuePut {
  size_t size;
  void* extensions;
  const char* key;
  size_t key_size;
  const char* value;
  size_t value_size;
  CallbackError* make_error;
  void* user;
};

struct ClientCreate : Args<ClientCreate, Function::ClientCreate> {
  const NamedValue* options = nullptr;
  size_t num_options = 0;
  Error* (*get)(KeyValueGet*) = nullptr;
  void* get_user = nullptr;
  Error* (*put)(KeyValuePut*) = nullptr;
  void* put_user = nullptr;
  Client* client = nullptr;  // out
  Error* (*try_get)(KeyValueTryGet*) = nullptr;
  void* try_get_user = nullptr;
};
struct ClientDestroy : Args<ClientDestroy, Function::ClientDestroy> {
  Client* client = nullptr;
};
template <Function F>
struct ClientText : Args<ClientText<F>, F> {
  Client* client = nullptr;
  const char* text = nullptr;
  size_t text_size = 0;
};
using ClientPlatformName = ClientText<Function::ClientPlatformName>;
using ClientPlatformVersion = ClientText<Function::ClientPlatformVersion>;
struct ClientProcessIndex : Args<ClientProcessIndex, Function::ClientProcessIndex> {
  Client* client = nullptr;
  int process_index = 0;
};
template <Function F>
struct ClientDeviceList : Args<ClientDeviceList<F>, F> {
  Client* client = nullptr;
  Device* const* devices = nullptr;
  size_t num_devices = 0;
};
using ClientDevices = ClientDeviceList<Function::ClientDevices>;
using ClientAddressableDevices = ClientDeviceList<Function::ClientAddressableDevices>;

struct Program {
  size_t size = sizeof(Program);
  void* extensions = nullptr;
  char* code = nullptr;
  size_t code_size = 0;
  const char* format = nullptr;
  size_t format_size = 0;
};
struct ClientCompile : Args<ClientCompile, Function::ClientCompile> {
  Client* client = nullptr;
  const Program* program = nullptr;
  const char* options = nullptr;
  size_t options_size = 0;
  LoadedExecutable* executable = nullptr;  // out
};

// Dimensions from the fastest to the slowest; tiles are not used.
struct TiledLayout {
  size_t size = sizeof(TiledLayout);
  void* extensions = nullptr;
  const int64_t* minor_to_major = nullptr;
  size_t minor_to_major_size = 0;
  const int64_t* tile_dims = nullptr;
  const size_t* tile_dim_sizes = nullptr;
  size_t num_tiles = 0;
};
struct MemoryLayout {
  size_t size = sizeof(MemoryLayout);
  void* extensions = nullptr;
  TiledLayout tiled;  // the larger member of a union with strides
  int kind = 0;       // tiled
};
enum HostBufferSemantics : int { kOnlyDuringCall, kUntilTransferCompletes };
struct BufferFromHost : Args<BufferFromHost, Function::ClientBufferFromHostBuffer> {
  Client* client = nullptr;
  const void* data = nullptr;
  int type = kInvalid;
  const int64_t* dims = nullptr;
  size_t num_dims = 0;
  const int64_t* byte_strides = nullptr;
  size_t num_byte_strides = 0;
  int semantics = kUntilTransferCompletes;
  Device* device = nullptr;
  Memory* memory = nullptr;
  MemoryLayout* device_layout = nullptr;
  Event* done_with_host_buffer = nullptr;  // out
  Buffer* buffer = nullptr;                // out
};

struct DescriptionId : Args<DescriptionId, Function::DescriptionId> {
  DeviceDescription* description = nullptr;
  int id = 0;
};
struct DescriptionProcessIndex : Args<DescriptionProcessIndex, Function::DescriptionProcessIndex> {
  DeviceDescription* description = nullptr;
  int process_index = 0;
};
struct DescriptionKind : Args<DescriptionKind, Function::DescriptionKind> {
  DeviceDescription* description = nullptr;
  const char* text = nullptr;
  size_t text_size = 0;
};
struct DeviceGetDescription : Args<DeviceGetDescription, Function::DeviceGetDescription> {
  Device* device = nullptr;
  DeviceDescription* description = nullptr;
};
struct OptionalBytes {
  int64_t value = 0;
  bool is_set = false;
};
struct DeviceMemoryStats : Args<DeviceMemoryStats, Function::DeviceMemoryStats> {
  Device* device = nullptr;
  int64_t bytes_in_use = 0;
  OptionalBytes peak_bytes_in_use, num_allocs, largest_alloc, bytes_limit, bytes_reserved,
      peak_bytes_reserved, bytes_reservable_limit, largest_free_block, pool_bytes, peak_pool_bytes;
};

struct ExecutableDestroy : Args<ExecutableDestroy, Function::ExecutableDestroy> {
  Executable* executable = nullptr;
};
struct ExecutableNumOutputs : Args<ExecutableNumOutputs, Function::ExecutableNumOutputs> {
  Executable* executable = nullptr;
  size_t num_outputs = 0;
};
struct OptimizedProgram : Args<OptimizedProgram, Function::ExecutableOptimizedProgram> {
  Executable* executable = nullptr;
  Program* program = nullptr;
};
struct ExecutableSerialize : Args<ExecutableSerialize, Function::ExecutableSerialize> {
  const Executable* executable = nullptr;
  const char* bytes = nullptr;
  size_t bytes_size = 0;
  Serialized* owner = nullptr;
  void (*deleter)(Serialized*) = nullptr;
};
struct LoadedExecutableDestroy : Args<LoadedExecutableDestroy, Function::LoadedExecutableDestroy> {
  LoadedExecutable* executable = nullptr;
};
struct GetExecutable : Args<GetExecutable, Function::LoadedExecutableGetExecutable> {
  LoadedExecutable* loaded = nullptr;
  Executable* executable = nullptr;
};
struct LoadedExecutableDevices
    : Args<LoadedExecutableDevices, Function::LoadedExecutableAddressableDevices> {
  LoadedExecutable* executable = nullptr;
  Device* const* devices = nullptr;
  size_t num_devices = 0;
};
struct ExecuteOptions {
  size_t size = sizeof(ExecuteOptions);
  void* extensions = nullptr;
  void* send_callbacks = nullptr;
  void* recv_callbacks = nullptr;
  size_t num_send_ops = 0;
  size_t num_recv_ops = 0;
  int launch_id = 0;
  const int64_t* not_donated = nullptr;
  size_t num_not_donated = 0;
  void* context = nullptr;
  const char* call_location = nullptr;
  size_t num_tasks = 0;
  int* task_ids = nullptr;
  int64_t* incarnation_ids = nullptr;
  void* multi_slice_config = nullptr;
  bool major_to_minor_callbacks = false;
  void* output_callbacks = nullptr;
  size_t num_output_callbacks = 0;
};
struct Execute : Args<Execute, Function::LoadedExecutableExecute> {
  LoadedExecutable* executable = nullptr;
  ExecuteOptions* options = nullptr;
  Buffer* const* const* arguments = nullptr;  // by device, by argument
  size_t num_devices = 0;
  size_t num_args = 0;
  Buffer** const* outputs = nullptr;
  Event** device_complete_events = nullptr;
  Device* execute_device = nullptr;
};
struct DeserializeAndLoad : Args<DeserializeAndLoad, Function::ExecutableDeserializeAndLoad> {
  Client* client = nullptr;
  const char* bytes = nullptr;
  size_t bytes_size = 0;
  LoadedExecutable* executable = nullptr;  // out
  const char* options = nullptr;
  size_t options_size = 0;
  void* load_options = nullptr;
};
struct CompiledMemoryStats : Args<CompiledMemoryStats, Function::ExecutableGetCompiledMemoryStats> {
  Executable* executable = nullptr;
  int64_t generated_code = 0, argument = 0, output = 0, alias = 0, temp = 0;
  int64_t host_generated_code = 0, host_argument = 0, host_output = 0, host_alias = 0,
          host_temp = 0;
  int64_t peak = 0, total_size = 0, total_allocation = 0, indefinite_allocations = 0,
          peak_unpadded_heap = 0;
};

struct BufferDestroy : Args<BufferDestroy, Function::BufferDestroy> {
  Buffer* buffer = nullptr;
};
struct BufferElementType : Args<BufferElementType, Function::BufferElementType> {
  Buffer* buffer = nullptr;
  int type = kInvalid;
};
struct BufferDimensions : Args<BufferDimensions, Function::BufferDimensions> {
  Buffer* buffer = nullptr;
  const int64_t* dims = nullptr;
  size_t num_dims = 0;
};
struct BufferOnDeviceSize : Args<BufferOnDeviceSize, Function::BufferOnDeviceSize> {
  Buffer* buffer = nullptr;
  size_t bytes = 0;
};
struct BufferDelete : Args<BufferDelete, Function::BufferDelete> {
  Buffer* buffer = nullptr;
};
struct BufferIsDeleted : Args<BufferIsDeleted, Function::BufferIsDeleted> {
  Buffer* buffer = nullptr;
  bool is_deleted = false;
};
struct BufferToHost : Args<BufferToHost, Function::BufferToHostBuffer> {
  Buffer* buffer = nullptr;
  MemoryLayout* host_layout = nullptr;
  void* data = nullptr;
  size_t data_size = 0;
  Event* event = nullptr;  // out
};
struct BufferReadyEvent : Args<BufferReadyEvent, Function::BufferReadyEvent> {
  Buffer* buffer = nullptr;
  Event* event = nullptr;  // out
};

}  // namespace cleave::pjrt::c
