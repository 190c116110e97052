#pragma once

#include <memory>
#include <span>
#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/runtime/comm_log.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/runtime/world.h"
#include "cleave/spmd/program.h"

namespace cleave {

class RankTransport;

struct ExecuteOptions {
  CommLog* log = nullptr;        // gets an event for every change of layout
  Observer* observer = nullptr;  // told of every op on every device
  MemoryUse* memory = nullptr;   // gets what each device held at most
};

// A Program made ready to run on the devices of its mesh that this process owns, one thread each:
// all of them, or, if the process is one of several ranks, those of its rank. The devices' graphs
// are derived once. Reductions are combined in the order of the devices' coordinates, so that the
// same inputs give the same bits, whichever rank owns a device.
//
// If there are several ranks, all make the same calls of `run` and `run_shards` in the same order.
class Executor {
 public:
  explicit Executor(Program program) : Executor(std::move(program), World::of_process()) {}
  // `world` null: all devices are in this process.
  Executor(Program program, World* world);
  ~Executor();

  const Program& program() const { return program_; }
  int64_t num_devices() const { return static_cast<int64_t>(devices_.size()); }
  // Those of this process, in order.
  const std::vector<int64_t>& own_devices() const { return own_; }
  const Instance& instance(int64_t device) const;  // of an own device

  // Whole arrays in, whole arrays out, on every rank.
  std::vector<Array> run(std::span<const Array> args, const ExecuteOptions& options = {}) const;
  // By device: the shards of the entry's arguments and results. Only the shards of own devices are
  // read and returned; the results of other devices are invalid arrays.
  std::vector<std::vector<Array>> run_shards(const std::vector<std::vector<Array>>& args,
                                             const ExecuteOptions& options = {}) const;

 private:
  struct Device;
  // `everywhere`: the shards of all devices are returned, except those that another device holds as
  // well.
  std::vector<std::vector<Array>> run_own(const std::vector<std::vector<Array>>& args,
                                          const ExecuteOptions& options, bool everywhere) const;
  void log_events(const std::vector<std::vector<NodeId>>& done, RankTransport* ranks,
                  CommLog& log) const;
  void share(std::vector<std::vector<Array>>& results, RankTransport& ranks) const;
  void share(MemoryUse& memory, RankTransport& ranks) const;

  Program program_;
  World* world_;  // null: alone
  std::vector<int64_t> own_;
  std::vector<std::unique_ptr<Device>> devices_;
};

// Whether the caller of a function gives an argument away (`jax.buffer_donor`,
// `tf.aliasing_output`), so that its memory may be used again after its last use.
bool is_donated(const Function& function, size_t argument);

// The part of a whole array that a device holds. If the layout is partial, the first device along
// the pending axes holds the value, and the others the identity of the reduction.
Array shard_of(const Array& whole, const Layout& layout, int64_t device);
// Whether no device before this one holds the same elements.
bool is_first_holder(const Layout& layout, const Shape& shape, int64_t device);
// The whole array from the shards of all devices, pending reductions completed. An invalid array
// stands for a shard that another device holds as well.
Array assemble(std::span<const Array> shards, const Layout& layout, const Shape& shape);
// 0 for Sum, the lowest value for Max, ...; Avg has none and gives the value itself elsewhere.
Array identity_array(ReduceOp op, DType dtype, const Shape& shape);

}  // namespace cleave
