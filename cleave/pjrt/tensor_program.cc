#include "cleave/pjrt/tensor_program.h"

#include "cleave/core/error.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/run_partitions.h"

namespace cleave::pjrt {
namespace {

// The part of a port that a device has.
Shape part_shape(const Port& port, int64_t device) {
  return port.layout.spec.mesh ? port.layout.box(port.whole.shape, device).size : port.whole.shape;
}

// The shards of a value on the devices of a client.
class DeviceShards : public RemoteValue {
 public:
  DeviceShards(const Client* client, Port port, std::vector<BufferPtr> buffers)
      : client(client), port(std::move(port)), buffers(std::move(buffers)) {}

  std::vector<Array> fetch() const override {
    std::vector<Array> shards;
    for (size_t d = 0; d < buffers.size(); ++d)
      shards.push_back(
          leading_corner(buffers[d]->to_host(), part_shape(port, static_cast<int64_t>(d))));
    return shards;
  }
  std::vector<int64_t> device_bytes() const override {
    std::vector<int64_t> bytes;
    for (const BufferPtr& buffer : buffers)
      bytes.push_back(Type::tensor(buffer->dtype(), buffer->shape()).byte_count());
    return bytes;
  }

  const Client* client;
  Port port;
  std::vector<BufferPtr> buffers;  // by device
};

}  // namespace

std::vector<Port> whole_ports(std::span<const Type> types) {
  std::vector<Port> ports;
  for (const Type& type : types) ports.push_back({type, {}});
  return ports;
}

TensorProgram::TensorProgram(std::shared_ptr<Client> client, XlaModule module,
                             std::vector<Port> arguments, std::vector<Port> results)
    : executable_(std::move(client), std::move(module)),
      arguments_(std::move(arguments)),
      results_(std::move(results)) {
  internal_check(arguments_.size() == executable_.module().arg_types.size() &&
                     results_.size() == executable_.module().result_types.size(),
                 "a program has ports for all its arguments and results");
}

std::vector<BufferPtr> TensorProgram::place(std::span<const Array> shards, size_t argument) const {
  const Shape& shape = executable_.module().arg_types[argument].shape;
  std::vector<BufferPtr> buffers;
  for (size_t d = 0; d < shards.size(); ++d)
    buffers.push_back(
        executable_.to_device(padded_to(shards[d], shape), argument, static_cast<int64_t>(d)));
  return buffers;
}

std::vector<std::vector<BufferPtr>> TensorProgram::to_devices(std::span<const Array> args) const {
  if (args.size() != arguments_.size())
    throw_user("the function takes {} arguments, and {} are given", arguments_.size(), args.size());
  const auto devices = static_cast<size_t>(num_devices());
  std::vector<std::vector<BufferPtr>> inputs(devices);
  for (size_t i = 0; i < args.size(); ++i) {
    std::vector<Array> shards;
    for (size_t d = 0; d < devices; ++d)
      shards.push_back(shard_of(args[i], arguments_[i].layout, static_cast<int64_t>(d)));
    std::vector<BufferPtr> buffers = place(shards, i);
    for (size_t d = 0; d < devices; ++d) inputs[d].push_back(std::move(buffers[d]));
  }
  return inputs;
}

std::vector<Array> TensorProgram::run(std::span<const Array> args) const {
  const auto devices = static_cast<size_t>(num_devices());
  const std::vector<std::vector<BufferPtr>> outputs = executable_.start(to_devices(args));
  std::vector<Array> results;
  for (size_t i = 0; i < results_.size(); ++i) {
    std::vector<Array> shards;
    for (size_t d = 0; d < devices; ++d)
      shards.push_back(leading_corner(outputs[d][i]->to_host(),
                                      part_shape(results_[i], static_cast<int64_t>(d))));
    results.push_back(assemble(shards, results_[i].layout, results_[i].whole.shape));
  }
  return results;
}

std::vector<RemotePtr> TensorProgram::run(std::span<const Tensor> args) const {
  const auto devices = static_cast<size_t>(num_devices());
  const Client* client = &executable_.client();
  std::vector<std::vector<BufferPtr>> inputs(devices);
  for (size_t i = 0; i < args.size(); ++i) {
    const auto kept = std::dynamic_pointer_cast<const DeviceShards>(remote_value(args[i]));
    std::vector<BufferPtr> buffers;
    if (kept && kept->client == client && kept->buffers.size() == devices &&
        kept->buffers[0]->shape() == executable_.module().arg_types[i].shape) {
      buffers = kept->buffers;
    } else {
      buffers = place(values_of(args[i]), i);
      if (!executable_.module().donated[i])
        keep_remote(args[i], std::make_shared<DeviceShards>(client, arguments_[i], buffers));
    }
    for (size_t d = 0; d < devices; ++d) inputs[d].push_back(std::move(buffers[d]));
  }
  const std::vector<std::vector<BufferPtr>> outputs = executable_.start(inputs);
  std::vector<RemotePtr> results;
  for (size_t i = 0; i < results_.size(); ++i) {
    std::vector<BufferPtr> buffers;
    for (size_t d = 0; d < devices; ++d) buffers.push_back(outputs[d][i]);
    results.push_back(std::make_shared<DeviceShards>(client, results_[i], std::move(buffers)));
  }
  return results;
}

}  // namespace cleave::pjrt
