#include "cleave/runtime/tensor.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/npy.h"
#include "cleave/runtime/ops_sharding.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/world.h"

namespace cleave {

void free_record(Record* record);  // record.cc

namespace {

const Record& need(const Record* record) {
  if (!record) throw_user("an empty Tensor is used: assign it a value first");
  return *record;
}

// For what is called on a tensor by name.
void check_valid(const Tensor& tensor, const char* method) {
  if (!tensor.valid()) throw_user("{}: the Tensor is empty: assign it a value first", method);
}

}  // namespace

void Tensor::retain() const {
  if (record_) static_cast<RecordHead*>(record_)->handles.fetch_add(1, std::memory_order_relaxed);
}

void Tensor::release() {
  if (record_ && record_->handles.fetch_sub(1, std::memory_order_acq_rel) == 1)
    free_record(record_);
  record_ = nullptr;
}

Tensor Tensor::from(Array array) {
  if (!array.valid()) throw_user("Tensor::from: the array is empty");
  // Whoever else holds the buffer may write to it before the tensor is used.
  if (array.buffer().use_count() != 1) array = array.copy();
  AvalPtr aval = shared_aval(Type::tensor(array.dtype(), array.shape()), {});
  return make_computed(std::move(aval), {std::move(array)});
}

Tensor Tensor::from_shards(std::vector<Array> shards, const Shape& shape,
                           const ShardingSpec& spec) {
  if (!spec.mesh) throw_user("Tensor::from_shards: the sharding has no mesh");
  for (int64_t size : shape)
    if (size < 0)
      throw_user("Tensor::from_shards: the shape <{}> has a negative size", to_string(shape));
  verify(spec, shape);
  const auto count = static_cast<size_t>(spec.mesh->num_devices());
  if (shards.size() != count)
    throw_user("Tensor::from_shards: {} shards for a mesh of {} devices", shards.size(), count);
  const Layout layout{spec, nullptr};
  std::vector<int64_t> own(count);
  std::iota(own.begin(), own.end(), 0);
  if (const World* world = World::of_process()) own = world->devices_of(*spec.mesh);
  DType dtype = DType::F32;
  for (const Array& shard : shards)
    if (shard.valid()) dtype = shard.dtype();
  for (size_t device = 0; device < count; ++device) {
    if (!shards[device].valid()) {
      if (std::find(own.begin(), own.end(), static_cast<int64_t>(device)) != own.end())
        throw_user("Tensor::from_shards: device {} has no shard: its array is empty", device);
      continue;  // on another process
    }
    const Shape expected = layout.box(shape, static_cast<int64_t>(device)).size;
    if (shards[device].shape() != expected || shards[device].dtype() != dtype)
      throw_user("Tensor::from_shards: device {} has tensor<{}x{}>, {} of tensor<{}x{}> is <{}>",
                 device, to_string(shards[device].shape()), name(shards[device].dtype()),
                 to_string(spec), to_string(shape), name(dtype), to_string(expected));
  }
  // As with `from`: a buffer that only these shards hold is taken over.
  std::unordered_map<const std::byte*, long> held;
  for (const Array& shard : shards)
    if (shard.valid()) ++held[shard.buffer().get()];
  for (Array& shard : shards)
    if (shard.valid() && shard.buffer().use_count() != held[shard.buffer().get()])
      shard = shard.copy();
  return make_computed(shared_aval(Type::tensor(dtype, shape), spec), std::move(shards));
}

Tensor Tensor::load(const std::filesystem::path& path) { return from(load_npy(path)); }

const Type& Tensor::type() const { return need(record_).aval(index_).type; }
const ShardingSpec& Tensor::sharding() const { return need(record_).aval(index_).spec; }

int64_t Tensor::dim(int64_t d) const {
  check_valid(*this, "dim");
  const int64_t index = d < 0 ? d + rank() : d;
  if (index < 0 || index >= rank())
    throw_user("dimension {} of a tensor<{}> of rank {}", d, to_string(shape()), rank());
  return shape()[index];
}

Tensor Tensor::shard(const Mesh& mesh, const PartitionSpec& spec) const {
  check_valid(*this, "shard");
  return with_sharding(to_sharding(spec, shared_mesh(mesh), shape()));
}

Tensor Tensor::with_sharding(const PartitionSpec& spec) const {
  check_valid(*this, "with_sharding");
  if (!mesh())
    throw_user("with_sharding: tensor<{}> is on no mesh yet; say which with shard(mesh, ...)",
               to_string(shape()));
  return with_sharding(to_sharding(spec, mesh(), shape()));
}

Tensor Tensor::with_sharding(const ShardingSpec& spec) const {
  return constrain(*this, spec, "sdy.sharding_constraint");
}

Tensor Tensor::reshard(const PartitionSpec& spec) const {
  check_valid(*this, "reshard");
  if (!mesh())
    throw_user("reshard: tensor<{}> is on no mesh yet; say which with shard(mesh, ...)",
               to_string(shape()));
  return reshard(to_sharding(spec, mesh(), shape()));
}

Tensor Tensor::reshard(const ShardingSpec& spec) const {
  return constrain(*this, spec, "sdy.reshard");
}

bool Tensor::is_computed() const { return need(record_).computed; }
bool Tensor::is_traced() const { return need(record_).level != 0; }

const Tensor& Tensor::evaluate() const {
  if (!is_computed()) cleave::evaluate({this, 1});
  return *this;
}

Array Tensor::to_host() const {
  check_valid(*this, "to_host");
  evaluate();
  const ShardingSpec& spec = held_aval(*this)->spec;
  if (spec.is_partial()) {
    // Completing it is communication like any other.
    ShardingSpec complete = spec;
    complete.partial.clear();
    return reshard(complete).to_host();
  }
  const std::vector<Array>& shards = held_values(*this);
  for (size_t device = 0; device < shards.size(); ++device) {
    if (shards[device].valid()) continue;
    // Some devices belong to other processes: everyone gets the whole first.
    const Tensor whole = reshard(ShardingSpec::closed_replicated(spec.mesh, shape().size()));
    for (const TensorShard& shard : whole.addressable_shards()) return shard.data.copy();
    throw_user("to_host: this process holds no device of the mesh {}", to_string(*spec.mesh));
  }
  const Array whole = assemble(shards, Layout{spec, nullptr}, shape()).contiguous();
  // The elements of a tensor are its own.
  return whole.buffer().use_count() == 1 ? whole : whole.copy();
}

double Tensor::item() const {
  check_valid(*this, "item");
  if (size() != 1)
    throw_user("item: tensor<{}> has {} elements, not one", to_string(shape()), size());
  const Array host = convert(to_host(), DType::F64);
  return *host.data<double>();
}

namespace {

// Elements of this dtype are such numbers in memory.
bool is_stored_as(DType dtype, const HostElement& element) {
  using enum HostElement::Kind;
  if (static_cast<size_t>(byte_size(dtype)) != element.bytes) return false;
  switch (element.kind) {
    case Float:
      return is_float(dtype) && element.bytes > 2;
    case Complex:
      return is_complex(dtype);
    case Signed:
      return is_signed_integer(dtype);
    case Unsigned:
      return is_unsigned_integer(dtype) || dtype == DType::Bool ||
             (is_float(dtype) && element.bytes <= 2);
    case Other:
      break;
  }
  return false;
}

std::string text_of(const HostElement& element) {
  using enum HostElement::Kind;
  const size_t bits = 8 * element.bytes;
  switch (element.kind) {
    case Float:
      return bits == 32 ? "float" : bits == 64 ? "double" : "long double";
    case Complex:
      return bits == 64 ? "std::complex<float>" : "std::complex<double>";
    case Signed:
      return fmt::format("int{}_t", bits);
    case Unsigned:
      return fmt::format("uint{}_t", bits);
    case Other:
      break;
  }
  return fmt::format("a type of {} bytes that is no number", element.bytes);
}

std::string storage_of(DType dtype) {
  if (dtype == DType::F32) return "float";
  if (dtype == DType::F64) return "double";
  if (is_complex(dtype))
    return dtype == DType::C64 ? "std::complex<float>" : "std::complex<double>";
  return fmt::format("{}int{}_t", is_signed_integer(dtype) ? "" : "u", 8 * byte_size(dtype));
}

}  // namespace

void Tensor::check_values(DType dtype, const Shape& shape, size_t count, HostElement element) {
  if (!is_stored_as(dtype, element))
    throw_user(
        "Tensor::from: elements of {} are {}, and the values are {}; give that dtype, and "
        "`cast` the tensor",
        name(dtype), storage_of(dtype), text_of(element));
  for (int64_t size : shape)
    if (size < 0) throw_user("Tensor::from: the shape <{}> has a negative size", to_string(shape));
  const auto needed = static_cast<size_t>(num_elements(shape));
  if (count != needed)
    throw_user("Tensor::from: {} has {} elements, {} are given",
               cleave::to_string(Type::tensor(dtype, shape)), needed, count);
}

Tensor Tensor::from_values(DType dtype, Shape shape, const void* values) {
  Array array = Array::from_bytes(dtype, std::move(shape), values);
  if (dtype == DType::Bool) {
    auto* bytes = array.data<uint8_t>();
    for (int64_t i = 0; i < array.num_elements(); ++i) bytes[i] = bytes[i] != 0;
  }
  return from(std::move(array));
}

void Tensor::check_element(HostElement element) const {
  if (is_stored_as(dtype(), element)) return;
  throw_user("to_vector: elements of {} are {}, not {}; cast the tensor", name(dtype()),
             storage_of(dtype()), text_of(element));
}

std::vector<TensorShard> Tensor::addressable_shards() const {
  check_valid(*this, "addressable_shards");
  evaluate();
  const std::vector<Array> shards = values_of(*this);
  const Layout layout{sharding(), nullptr};
  std::vector<TensorShard> result;
  for (size_t device = 0; device < shards.size(); ++device) {
    if (!shards[device].valid()) continue;
    ShardSlice box = sharding().mesh ? layout.box(shape(), static_cast<int64_t>(device))
                                     : ShardSlice{Shape(shape().size(), 0), shape()};
    result.push_back({static_cast<int64_t>(device), std::move(box), shards[device]});
  }
  return result;
}

void Tensor::save(const std::filesystem::path& path) const { save_npy(path, to_host()); }

}  // namespace cleave
