#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/pjrt/client.h"

namespace cleave::pjrt {

// What a compiled program takes on each device, as the compiler says: bytes.
struct ProgramMemory {
  int64_t arguments = 0;
  int64_t outputs = 0;
  int64_t aliased = 0;  // of outputs, in the memory of donated arguments
  int64_t temporary = 0;
  int64_t code = 0;
  int64_t peak = 0;  // 0 if the compiler does not say; of little use on CPUs

  int64_t total() const { return arguments + outputs - aliased + temporary; }
};

// An executable of a plugin, which it frees; a client keeps those that it made, so this must not
// hold the client.
struct ProgramHandles {
  ProgramHandles(const Client& client, c::LoadedExecutable* loaded);  // takes it over
  ~ProgramHandles();
  ProgramHandles(const ProgramHandles&) = delete;
  ProgramHandles& operator=(const ProgramHandles&) = delete;

  std::shared_ptr<const Plugin> plugin;
  c::LoadedExecutable* loaded;
  c::Executable* executable = nullptr;
  size_t num_outputs = 0;
  std::vector<int64_t> devices;
};

// A program that a plugin compiled and holds ready.
class LoadedProgram {
 public:
  LoadedProgram(std::shared_ptr<const Client> client, std::shared_ptr<const ProgramHandles> handles)
      : client_(std::move(client)), handles_(std::move(handles)) {}

  const Client& client() const { return *client_; }
  size_t num_outputs() const { return handles_->num_outputs; }
  // The local devices of the client that it runs on, by partition.
  const std::vector<int64_t>& devices() const { return handles_->devices; }

  // Starts the program on all its local devices: arguments by device, then by number, on the device
  // that they are for. Results are buffers that are not computed yet. Arguments that the program
  // donates are gone afterwards, except those whose numbers are in `keep`.
  std::vector<std::vector<BufferPtr>> execute(std::span<const std::vector<BufferPtr>> args,
                                              std::span<const int64_t> keep = {}) const;

  ProgramMemory memory_stats() const;
  // The program as the compiler left it, in XLA's text of HLO.
  std::string compiled_text() const;
  // The serialized HloModuleProto of the same.
  std::string compiled_module() const;
  std::string serialize() const;  // for Client's folder of programs

 private:
  std::shared_ptr<const Client> client_;
  std::shared_ptr<const ProgramHandles> handles_;
};

}  // namespace cleave::pjrt
