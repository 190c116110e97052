#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cleave/pjrt/loaded_program.h"
#include "cleave/pjrt/xla_module.h"

namespace cleave::pjrt {

// A module compiled for devices of a client, with arrays in and out. The counterpart of
// cleave::Executable.
class XlaExecutable {
 public:
  XlaExecutable(std::shared_ptr<Client> client, XlaModule module);

  int64_t num_devices() const { return module_.settings.partitions; }
  const XlaModule& module() const { return module_; }
  const LoadedProgram& program() const { return *program_; }
  Client& client() const { return *client_; }

  // The partitions whose devices this process reaches: all of them, unless the client's devices are
  // spread over processes. Arguments and results are in this order.
  const std::vector<int64_t>& partitions() const { return partitions_; }

  // Arguments by device, each of the module's type; results likewise. Waits.
  std::vector<std::vector<Array>> run(const std::vector<std::vector<Array>>& args) const;
  // The same with buffers, which it does not wait for. An argument that the module donates is gone
  // afterwards, unless its number is in `keep`.
  std::vector<std::vector<BufferPtr>> start(std::span<const std::vector<BufferPtr>> args,
                                            std::span<const int64_t> keep = {}) const;
  // An argument on its way to the device of partitions()[row].
  BufferPtr to_device(const Array& array, size_t argument, size_t row) const;

 private:
  std::shared_ptr<Client> client_;
  XlaModule module_;
  std::shared_ptr<const LoadedProgram> program_;
  std::vector<int64_t> partitions_;
};

}  // namespace cleave::pjrt
