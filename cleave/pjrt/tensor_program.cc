#include "cleave/pjrt/tensor_program.h"

#include "cleave/core/error.h"
#include "cleave/pjrt/processes.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/run_partitions.h"

namespace cleave::pjrt {
namespace {

// The part of a port that a device has.
Shape part_shape(const Port& port, int64_t device) {
  return port.layout.spec.mesh ? port.layout.box(port.whole.shape, device).size : port.whole.shape;
}

// The shards of a value on the devices of a client that this process reaches.
class DeviceShards : public RemoteValue {
 public:
  DeviceShards(const XlaExecutable& executable, Port port, std::vector<BufferPtr> buffers)
      : client(&executable.client()),
        port(std::move(port)),
        num_devices(static_cast<size_t>(executable.num_devices())),
        partitions(executable.partitions()),
        buffers(std::move(buffers)) {}

  // Ranks have their own shards alone, as they have of what Cleave's engine computes. Other
  // processes do not know of each other there, and get all of them.
  std::vector<Array> fetch() const override {
    std::vector<Array> shards(num_devices), own;
    for (size_t row = 0; row < buffers.size(); ++row)
      own.push_back(leading_corner(buffers[row]->to_host(), part_shape(port, partitions[row])));
    if (Processes* processes = Processes::of_process();
        processes && !processes->are_ranks() && num_devices > 1) {
      size_t device = 0;
      for (std::vector<Array>& row : processes->gather(std::move(own), "the reading of a Tensor"))
        for (Array& shard : row) shards[device++] = std::move(shard);
      return shards;
    }
    for (size_t row = 0; row < own.size(); ++row)
      shards[static_cast<size_t>(partitions[row])] = std::move(own[row]);
    return shards;
  }
  std::vector<int64_t> device_bytes() const override {
    std::vector<int64_t> bytes(num_devices);
    for (size_t row = 0; row < buffers.size(); ++row)
      bytes[static_cast<size_t>(partitions[row])] =
          Type::tensor(buffers[row]->dtype(), buffers[row]->shape()).byte_count();
    return bytes;
  }

  const Client* client;
  Port port;
  size_t num_devices;
  std::vector<int64_t> partitions;
  std::vector<BufferPtr> buffers;  // by partition of this process
};

// The arrays of this process's partitions become those of all.
std::vector<std::vector<Array>> of_all_partitions(const XlaExecutable& executable,
                                                  std::vector<std::vector<Array>> own,
                                                  std::string_view what) {
  if (own.size() == static_cast<size_t>(executable.num_devices())) return own;
  Processes* processes = Processes::of_process();
  internal_check(processes != nullptr, "devices are spread over processes");
  const size_t each = own.empty() ? 0 : own[0].size();
  std::vector<Array> sent;
  for (std::vector<Array>& row : own)
    for (Array& array : row) sent.push_back(std::move(array));
  std::vector<std::vector<Array>> all;
  for (std::vector<Array>& arrays : processes->gather(std::move(sent), what))
    for (size_t i = 0; i < arrays.size(); ++i) {
      if (i % each == 0) all.emplace_back();
      all.back().push_back(std::move(arrays[i]));
    }
  return all;
}

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
  for (size_t row = 0; row < executable_.partitions().size(); ++row) {
    const Array& shard = shards[static_cast<size_t>(executable_.partitions()[row])];
    buffers.push_back(executable_.to_device(padded_to(shard, shape), argument, row));
  }
  return buffers;
}

std::vector<std::vector<BufferPtr>> TensorProgram::to_devices(std::span<const Array> args) const {
  if (args.size() != arguments_.size())
    throw_user("the function takes {} arguments, and {} are given", arguments_.size(), args.size());
  const std::vector<int64_t>& own = executable_.partitions();
  std::vector<std::vector<BufferPtr>> inputs(own.size());
  for (size_t i = 0; i < args.size(); ++i) {
    std::vector<Array> shards(static_cast<size_t>(num_devices()));
    for (int64_t d : own)
      shards[static_cast<size_t>(d)] = shard_of(args[i], arguments_[i].layout, d);
    std::vector<BufferPtr> buffers = place(shards, i);
    for (size_t row = 0; row < own.size(); ++row) inputs[row].push_back(std::move(buffers[row]));
  }
  return inputs;
}

std::vector<Array> TensorProgram::run(std::span<const Array> args) const {
  const std::vector<int64_t>& own = executable_.partitions();
  const bool is_spread = static_cast<int64_t>(own.size()) != num_devices();
  const std::vector<std::vector<BufferPtr>> outputs = executable_.start(to_devices(args));
  std::vector<std::vector<Array>> parts(own.size());
  for (size_t row = 0; row < own.size(); ++row)
    for (size_t i = 0; i < results_.size(); ++i) {
      const Port& port = results_[i];
      const Array part = leading_corner(outputs[row][i]->to_host(), part_shape(port, own[row]));
      // What several devices have travels once.
      const bool needed = !is_spread || is_first_holder(port.layout, port.whole.shape, own[row]);
      parts[row].push_back(needed ? part : Array());
    }
  parts = of_all_partitions(executable_, std::move(parts), "the gathering of results");
  std::vector<Array> results;
  for (size_t i = 0; i < results_.size(); ++i) {
    std::vector<Array> shards;
    for (std::vector<Array>& row : parts) shards.push_back(std::move(row[i]));
    results.push_back(assemble(shards, results_[i].layout, results_[i].whole.shape));
  }
  return results;
}

std::vector<RemotePtr> TensorProgram::run(std::span<const Tensor> args) const {
  const size_t rows = executable_.partitions().size();
  const Client* client = &executable_.client();
  std::vector<std::vector<BufferPtr>> inputs(rows);
  for (size_t i = 0; i < args.size(); ++i) {
    const auto kept = std::dynamic_pointer_cast<const DeviceShards>(remote_value(args[i]));
    std::vector<BufferPtr> buffers;
    if (kept && kept->client == client && kept->partitions == executable_.partitions() &&
        kept->buffers[0]->shape() == executable_.module().arg_types[i].shape) {
      buffers = kept->buffers;
    } else {
      buffers = place(values_of(args[i]), i);
      if (!executable_.module().donated[i])
        keep_remote(args[i], std::make_shared<DeviceShards>(executable_, arguments_[i], buffers));
    }
    for (size_t row = 0; row < rows; ++row) inputs[row].push_back(std::move(buffers[row]));
  }
  const std::vector<std::vector<BufferPtr>> outputs = executable_.start(inputs);
  std::vector<RemotePtr> results;
  for (size_t i = 0; i < results_.size(); ++i) {
    std::vector<BufferPtr> buffers;
    for (size_t row = 0; row < rows; ++row) buffers.push_back(outputs[row][i]);
    results.push_back(std::make_shared<DeviceShards>(executable_, results_[i], std::move(buffers)));
  }
  return results;
}

std::vector<std::vector<Array>> run_everywhere(const XlaExecutable& executable,
                                               const std::vector<std::vector<Array>>& args) {
  std::vector<std::vector<Array>> own;
  for (int64_t partition : executable.partitions())
    own.push_back(args.at(static_cast<size_t>(partition)));
  return of_all_partitions(executable, executable.run(own), "the gathering of results");
}

}  // namespace cleave::pjrt
