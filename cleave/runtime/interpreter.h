#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "cleave/graph/graph.h"
#include "cleave/kernels/array.h"
#include "cleave/ops/collective/transport.h"
#include "cleave/ops/eval.h"
#include "cleave/runtime/memory_meter.h"
#include "cleave/runtime/schedule.h"

namespace cleave {

// Told what happens while a program runs. If several devices run, calls come from several threads
// at the same time.
class Observer {
 public:
  virtual ~Observer() = default;
  // Whether `executed` is called at all.
  virtual bool wants_ops() const { return true; }
  // An op has run; times are seconds of the steady clock. Ops inside regions come before the op
  // that owns the region; the bodies of elementwise reducers do not come.
  virtual void executed(const Graph& /*graph*/, const Node& /*node*/, int64_t /*device*/,
                        std::span<const Array> /*results*/, double /*begin*/, double /*end*/) {}
  // A change of layout was begun that runs beside other ops. When its result is needed, `executed`
  // tells how long the device then waited, and `under_way` from when to when it took place.
  virtual void started(const Graph& /*graph*/, const Node& /*node*/, int64_t /*device*/,
                       double /*begin*/, double /*end*/) {}
  virtual void under_way(const Graph& /*graph*/, const Node& /*node*/, int64_t /*device*/,
                         double /*begin*/, double /*end*/) {}
  virtual void print(std::string_view /*text*/) {}
  virtual void probe(std::string_view /*name*/, int64_t /*iteration*/, const Array& /*value*/) {}
};

// Verifies the graph, runs a function of it on one device and returns its results. Arguments must
// have the function's types.
//   run_function(graph, "main", {x, w})
std::vector<Array> run_function(const Graph& graph, std::string_view name,
                                std::span<const Array> args, Observer* observer = nullptr);
// The same for a graph that is known to be well formed, for callers that run it many times.
std::vector<Array> run_verified(const Graph& graph, std::string_view name,
                                std::span<const Array> args, Observer* observer = nullptr);

// Throws a UserError that names the argument unless `args` fit the types of the function; gives the
// function back.
const Function& check_arguments(const Graph& graph, std::string_view name,
                                std::span<const Array> args);

struct InterpreterState;

// Moves what the transfers of a partitioned program move.
class TransferHandler {
 public:
  virtual ~TransferHandler() = default;
  virtual Array transfer(EvalContext& context, const Node& node, const Array& operand) = 0;
};

// Stands in for the kernels of a device: gives the results of a node in its own way. Calls of
// functions go past it.
class KernelCaller {
 public:
  virtual ~KernelCaller() = default;
  virtual std::vector<Array> call(EvalContext& context, const Node& node,
                                  std::span<const Array> operands) = 0;
};

// One device that runs functions of a graph. Programs of several devices have one of these per
// device, each on its own thread, with a common transport and schedule:
//
//   auto schedule = std::make_shared<const Schedule>(program);
//   auto transport = make_local_transport(n);
//   run_devices(*transport, devices, [&](int64_t device) {
//     Interpreter interpreter(program, schedule, {.transport = transport.get(), .device = device,
//                                                 .grid = {1, n}});
//     results[device] = interpreter.call("main", args[device]);
//   });
class Interpreter : public EvalContext {
 public:
  struct Options {
    Transport* transport = nullptr;  // null: alone
    int64_t device = 0;
    DeviceGrid grid = {};
    Observer* observer = nullptr;
    TransferHandler* transfers = nullptr;
    MemoryMeter* memory = nullptr;  // counts what the device holds
    KernelCaller* kernels = nullptr;
  };

  Interpreter(const Graph& graph, std::shared_ptr<const Schedule> schedule, Options options);
  ~Interpreter() override;

  std::vector<Array> run_region(RegionId region, std::span<const Array> args) override;
  std::vector<Array> call(std::string_view function, std::span<const Array> args) override;
  std::vector<Array> consume_region(RegionId region, std::vector<Array> args) override;
  bool may_overwrite(const Array& operand) const override;
  std::vector<Array> map_region(RegionId region, std::span<const Array> args) override;

  int64_t device() const override { return options_.device; }
  DeviceGrid grid() const override { return options_.grid; }
  Transport& transport() override;
  Array transfer(const Node& node, const Array& operand) override;
  void run_parallel(DeviceGrid grid, std::vector<std::string> infeed,
                    const std::function<void(EvalContext&)>& task) override;

  std::vector<Array> infeed() override;
  void print(std::string_view text) override;
  void probe(std::string_view name, const Array& value) override;
  Array probed(std::string_view name, int64_t iteration) override;

 private:
  Interpreter(const Interpreter& parent, Options options, std::shared_ptr<InterpreterState> state);

  std::vector<Array> run_function_body(RegionId body, std::span<const Array> args);
  std::vector<Array> execute(RegionId region, std::span<const Array> args);
  std::vector<Array> run_steps(const RegionSchedule& region);
  std::vector<Array> execute_elementwise(RegionId region, std::span<const Array> args,
                                         const Shape& shape);
  std::vector<Array> take_operands(const Step& step);
  void run_step(const Step& step);
  void keep(uint32_t value, Array array);
  void drop(uint32_t value);
  void release_operands(const Step& step, std::span<const Array> operands);
  int64_t taken_over(const Step& step, const Node& node, std::span<const Array> operands,
                     std::span<const Array> results) const;
  void check_operands(const Node& node, std::span<const Array> operands);
  void check_results(const Node& node, std::span<const Array> results) const;

  std::shared_ptr<const Schedule> schedule_;
  Options options_;
  bool observes_ops_ = false;
  std::shared_ptr<InterpreterState> state_;  // what all devices of a run share
  std::unique_ptr<Transport> own_transport_;
  std::vector<Array> values_;     // by ValueId
  std::unique_ptr<Graph> sized_;  // the graph with the sizes that values have, if they are dynamic
  std::vector<bool> executing_;   // by RegionId, of functions: a second call needs other values
};

}  // namespace cleave
