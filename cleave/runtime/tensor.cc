#include "cleave/runtime/tensor.h"

#include <fmt/core.h>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/npy.h"
#include "cleave/runtime/ops_sharding.h"
#include "cleave/runtime/record.h"

namespace cleave {

void free_record(Record* record);  // record.cc

namespace {

const Record& need(const Record* record) {
  if (!record) throw_user("an empty Tensor is used: assign it a value first");
  return *record;
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
  AvalPtr aval = shared_aval(Type::tensor(array.dtype(), array.shape()), {});
  return make_computed(std::move(aval), {std::move(array)});
}

Tensor Tensor::from_shards(std::vector<Array> shards, const Shape& shape,
                           const ShardingSpec& spec) {
  if (!spec.mesh) throw_user("Tensor::from_shards: the sharding has no mesh");
  verify(spec, shape);
  const auto count = static_cast<size_t>(spec.mesh->num_devices());
  if (shards.size() != count)
    throw_user("Tensor::from_shards: {} shards for a mesh of {} devices", shards.size(), count);
  const Layout layout{spec, nullptr};
  DType dtype = DType::F32;
  for (const Array& shard : shards)
    if (shard.valid()) dtype = shard.dtype();
  for (size_t device = 0; device < count; ++device) {
    if (!shards[device].valid()) continue;  // on another process
    const Shape expected = layout.box(shape, static_cast<int64_t>(device)).size;
    if (shards[device].shape() != expected || shards[device].dtype() != dtype)
      throw_user("Tensor::from_shards: device {} has tensor<{}x{}>, {} of tensor<{}x{}> is <{}>",
                 device, to_string(shards[device].shape()), name(shards[device].dtype()),
                 to_string(spec), to_string(shape), name(dtype), to_string(expected));
  }
  return make_computed(shared_aval(Type::tensor(dtype, shape), spec), std::move(shards));
}

Tensor Tensor::load(const std::filesystem::path& path) { return from(load_npy(path)); }

const Type& Tensor::type() const { return need(record_).aval(index_).type; }
const ShardingSpec& Tensor::sharding() const { return need(record_).aval(index_).spec; }

int64_t Tensor::dim(int64_t d) const {
  const int64_t index = d < 0 ? d + rank() : d;
  if (index < 0 || index >= rank())
    throw_user("dimension {} of a tensor<{}> of rank {}", d, to_string(shape()), rank());
  return shape()[index];
}

Tensor Tensor::shard(const Mesh& mesh, const PartitionSpec& spec) const {
  return with_sharding(to_sharding(spec, shared_mesh(mesh), shape()));
}

Tensor Tensor::with_sharding(const PartitionSpec& spec) const {
  if (!mesh())
    throw_user("with_sharding: tensor<{}> is on no mesh yet; say which with shard(mesh, ...)",
               to_string(shape()));
  return with_sharding(to_sharding(spec, mesh(), shape()));
}

Tensor Tensor::with_sharding(const ShardingSpec& spec) const {
  return constrain(*this, spec, "sdy.sharding_constraint");
}

Tensor Tensor::reshard(const PartitionSpec& spec) const {
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
  evaluate();
  const std::vector<Array>& shards = values_of(*this);
  const ShardingSpec& spec = sharding();
  for (size_t device = 0; device < shards.size(); ++device) {
    if (shards[device].valid()) continue;
    // Some devices belong to other processes: everyone gets the whole first.
    const Tensor whole = reshard(ShardingSpec::closed_replicated(spec.mesh, shape().size()));
    for (const TensorShard& shard : whole.addressable_shards()) return shard.data.contiguous();
    throw_user("to_host: this process holds no device of the mesh {}", to_string(*spec.mesh));
  }
  return assemble(shards, Layout{spec, nullptr}, shape()).contiguous();
}

double Tensor::item() const {
  if (size() != 1)
    throw_user("item: tensor<{}> has {} elements, not one", to_string(shape()), size());
  const Array host = convert(to_host(), DType::F64);
  return *host.data<double>();
}

void Tensor::check_bytes(DType dtype, const Shape& shape, size_t bytes) {
  const auto needed = static_cast<size_t>(num_elements(shape) * byte_size(dtype));
  if (bytes != needed)
    throw_user("Tensor::from: {} takes {} bytes, {} are given",
               cleave::to_string(Type::tensor(dtype, shape)), needed, bytes);
}

void Tensor::check_element(size_t bytes, bool floats, bool is_signed) const {
  const auto size = static_cast<size_t>(byte_size(dtype()));
  if (size != bytes)
    throw_user("to_vector: elements of {} have {} bytes, the C++ type has {}", name(dtype()), size,
               bytes);
  const bool raw = !is_signed && (dtype() == DType::Bool || bytes == 2);
  const bool fits = floats      ? is_float(dtype()) && bytes > 2
                    : is_signed ? is_signed_integer(dtype())
                                : raw || is_unsigned_integer(dtype());
  if (!fits && !is_complex(dtype()))
    throw_user("to_vector: elements of {} are not {}; cast the tensor", name(dtype()),
               floats      ? "floats"
               : is_signed ? "signed integers"
                           : "unsigned integers");
}

std::vector<TensorShard> Tensor::addressable_shards() const {
  evaluate();
  const std::vector<Array>& shards = values_of(*this);
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
