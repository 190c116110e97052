#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cleave/pjrt/xla_executable.h"
#include "cleave/runtime/record.h"
#include "cleave/spmd/single_program.h"

namespace cleave::pjrt {

// The whole tensor of an argument or result, and which part of it a device has. The array of a
// device has the type of the module, and its part is the leading corner. Without a mesh it is whole
// on the one device.
using Port = SingleProgram::Port;

// A program for devices of a client with whole arrays, or Tensors, in and out. Shards that are
// smaller than the largest are padded here, with NaN or the like, so that whatever depends on
// padding shows.
class TensorProgram {
 public:
  TensorProgram(std::shared_ptr<Client> client, XlaModule module, std::vector<Port> arguments,
                std::vector<Port> results);

  const XlaExecutable& executable() const { return executable_; }
  int64_t num_devices() const { return executable_.num_devices(); }

  // If the devices are spread over processes, each of them gives the same whole arguments and gets
  // the same whole results.
  std::vector<Array> run(std::span<const Array> args) const;
  // Whole arguments on their way to the devices of this process, by device.
  std::vector<std::vector<BufferPtr>> to_devices(std::span<const Array> args) const;

  // Starts the program, and does not wait for its results. Arguments are computed and laid out as
  // their ports say. What they have on the client's devices is used where it is; what is only on
  // the host is copied, and stays on the devices for the next call, unless the argument is donated.
  // The caller lets go of donated arguments (drop_values).
  std::vector<RemotePtr> run(std::span<const Tensor> args) const;

 private:
  // `shards` are those of all devices; the result has a row for each of this process.
  std::vector<BufferPtr> place(std::span<const Array> shards, size_t argument) const;

  XlaExecutable executable_;
  std::vector<Port> arguments_, results_;
};

// Runs a module of all partitions on its devices, which may be spread over processes: arrays by
// partition in and out, the same on every process.
std::vector<std::vector<Array>> run_everywhere(const XlaExecutable& executable,
                                               const std::vector<std::vector<Array>>& args);

// One device: every port is whole.
std::vector<Port> whole_ports(std::span<const Type> types);

}  // namespace cleave::pjrt
