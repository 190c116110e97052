#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"

namespace cleave {

class Transport;  // cleave/ops/collective/transport.h

// The grid of processes that StableHLO's collectives speak of. A process is a device; they are
// numbered replica by replica: device = replica * partitions + partition.
struct DeviceGrid {
  int64_t replicas = 1;
  int64_t partitions = 1;
  int64_t num_devices() const { return replicas * partitions; }
};

// What a kernel call may need beyond its operands. There is one for each device; the runtime
// implements the parts that reach beyond the device (cleave/runtime/interpreter.h). Functions with
// effects throw by default.
class EvalContext {
 public:
  explicit EvalContext(const Graph& graph) : graph_(graph) {}
  virtual ~EvalContext() = default;

  const Graph& graph() const { return graph_; }
  // Runs a region on arguments and returns what its terminator returns; values from outside the
  // region are visible.
  virtual std::vector<Array> run_region(RegionId region, std::span<const Array> args) = 0;
  virtual std::vector<Array> call(std::string_view function, std::span<const Array> args) = 0;
  // The same for arguments that the caller gives away, so that ops of the region may write into
  // them.
  virtual std::vector<Array> consume_region(RegionId region, std::vector<Array> args) {
    return run_region(region, args);
  }
  // Whether an op may write its result into an operand's memory, because nothing reads it
  // afterwards.
  virtual bool may_overwrite(const Array& /*operand*/) const { return false; }

  // Runs a region of scalars (the body of a reduce, a sort, a scatter) on whole arrays at once,
  // element by element: all arguments have one shape S, and so have the results. If the body is
  // made of elementwise ops, this costs a few kernel calls for the whole arrays; otherwise one run
  // per element.
  //
  //   reduce of [n, m] over 0 with any body:   acc = x[0];
  //                                            for i: acc = map_region(body, {acc, x[i]})
  //   or, in log2(n) calls, by halves:         x[:n/2] with x[n/2:], and so on
  virtual std::vector<Array> map_region(RegionId region, std::span<const Array> args);

  // The place of this device among the others, and the way to them.
  virtual int64_t device() const { return 0; }
  virtual DeviceGrid grid() const { return {}; }
  virtual Transport& transport();
  // The device's part of a change of layout (cleave.transfer).
  virtual Array transfer(const Node& node, const Array& operand);
  // Runs `task` once for each device of a grid, at the same time, each with a context of its own,
  // and returns when all have ended. `infeed` names the functions that feed the devices' infeed
  // ops, in order.
  virtual void run_parallel(DeviceGrid grid, std::vector<std::string> infeed,
                            const std::function<void(EvalContext&)>& task);

  // Data from and to the host.
  virtual std::vector<Array> infeed();
  virtual void outfeed(std::span<const Array> arrays);
  virtual void print(std::string_view text);
  // Keeps the value under a name, once more at each call; `probed` gives the i-th that was kept.
  virtual void probe(std::string_view name, const Array& value);
  virtual Array probed(std::string_view name, int64_t iteration);

 private:
  const Graph& graph_;
};

}  // namespace cleave
