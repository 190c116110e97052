#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/compile/device_code.h"
#include "cleave/compile/meetings.h"
#include "cleave/kernels/array.h"
#include "cleave/rewrite/pass.h"
#include "cleave/runtime/executor.h"
#include "cleave/spmd/program.h"

namespace cleave {

struct CompileOptions {
  // What runs on each device's graph before code is made of it, after calls are inlined. If it is
  // empty, no pass runs, and every op is a step. cleave-overlap only runs if devices are spread
  // over ranks.
  std::string passes =
      "cleave-expand,cleave-simplify,cleave-fuse-epilogues,cleave-fuse,cleave-recompute,"
      "cleave-overlap";
  // Threads that run devices; 0: one per core, but no more than devices. One device uses all
  // threads for each op.
  int threads = 0;
  // Arguments of the function whose memory its results may take, by number: parameters and state
  // of an optimizer, which the caller replaces by the results. For compile(f), these are arguments
  // of f, with all their tensors, which have no value afterwards.
  std::vector<size_t> donate = {};
  // Hears of what makes compile(f) slow: programs that differ in a plain value only.
  std::function<void(std::string_view)> warning = {};
  // For compile(f): "cleave", or XLA through PJRT, "xla" or "xla:PLUGIN" (docs/guide/engines.md).
  // An Executable is always Cleave's own.
  std::string engine = "cleave";
  // For a function of a module: it has been verified, or was recorded op by op. Otherwise it is
  // verified first.
  bool verified = false;
};

// A Program, or a function of a module, made ready to run many times on the devices of this
// process: passes, code, memory plan. One run at a time.
//
//   Executable executable(partition(graph, {.entry = "main"}));
//   std::vector<Array> results = executable.run(args);
//
// What cannot be compiled (dynamic shapes, tokens, recursion) runs op by op; `is_compiled` says
// which of the two it is. Sums may be added in another order than op by op; everything else gives
// the same bits.
//
// If there are several ranks, each compiles and runs the devices that it owns; all ranks make the
// same Executables, and the same calls of `run` and `run_shards`, in the same order. Ranks that
// come with different programs get a TransportError. After a run that has failed on one of the
// ranks the Executable cannot run again.
class Executable {
 public:
  explicit Executable(Program program, const CompileOptions& options = {})
      : Executable(std::move(program), options, World::of_process()) {}
  // `world` null: all devices are in this process.
  Executable(Program program, const CompileOptions& options, World* world);
  // One device.
  Executable(const Graph& graph, const std::string& entry, const CompileOptions& options = {});
  ~Executable();

  bool is_compiled() const;
  int64_t num_devices() const;
  const std::vector<int64_t>& own_devices() const;  // those of this process, in order
  const Program* program() const;                   // null for a plain function

  // Whole arrays in, whole arrays out, on every rank.
  std::vector<Array> run(std::span<const Array> args, const ExecuteOptions& options = {});
  // By device: the shards of the entry's arguments and results. Arguments that the function's
  // attributes donate (tf.aliasing_output, jax.buffer_donor) give their memory to results if the
  // caller holds them nowhere else; such arguments must not be read afterwards. Only the shards of
  // own devices are read and returned; the results of other devices are invalid arrays.
  std::vector<std::vector<Array>> run_shards(std::vector<std::vector<Array>> args,
                                             const ExecuteOptions& options = {});
  // The same into `results`, whose arrays are overwritten if they fit and are held nowhere else;
  // then nothing is allocated.
  void run_shards_into(std::vector<std::vector<Array>>& args,
                       std::vector<std::vector<Array>>& results,
                       const ExecuteOptions& options = {});

  const std::vector<PassTiming>& pass_timings() const;  // summed over devices
  // Of one of the own devices; by default the first.
  CodeStats stats(int64_t device = -1) const;
  // Bytes that a device holds while it runs, known before it does: arguments, results that take no
  // argument's place, the arena and scratch memory, and what kernels and collectives make at most
  // at one step. `ExecuteOptions::memory` gets what a run held. 0 if it is not compiled.
  int64_t memory_bytes(int64_t device = -1) const;
  const Graph& graph(int64_t device = -1) const;  // after the passes

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What --stats prints: steps by kind, memory by kind, times of passes.
std::string describe(const Executable& executable);

}  // namespace cleave
