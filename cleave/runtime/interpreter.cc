#include "cleave/runtime/interpreter.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/core/seconds_now.h"
#include "cleave/graph/verify.h"
#include "cleave/ops/infer_util.h"
#include "cleave/runtime/local_transport.h"
#include "cleave/runtime/run_devices.h"

namespace cleave {
namespace {

// Not so where steps of their own run inside, or where devices work on one array together.
bool allocates_for_itself(const Step& step, const Node& node) {
  return step.kind != Step::Kind::Call && !(node.def->has(kDataFlow) || node.def->has(kCollective));
}

}  // namespace

struct InterpreterState {
  std::mutex mutex;
  std::deque<std::string> infeed;  // functions, one per infeed op
  std::map<std::string, std::vector<Array>, std::less<>> probes;
};

Interpreter::Interpreter(const Graph& graph, std::shared_ptr<const Schedule> schedule,
                         Options options)
    : EvalContext(graph),
      schedule_(std::move(schedule)),
      options_(options),
      observes_ops_(options.observer && options.observer->wants_ops()),
      state_(std::make_shared<InterpreterState>()),
      values_(graph.num_values()),
      executing_(graph.num_regions()) {}

Interpreter::Interpreter(const Interpreter& parent, Options options,
                         std::shared_ptr<InterpreterState> state)
    : EvalContext(parent.graph()),
      schedule_(parent.schedule_),
      options_(options),
      observes_ops_(options.observer && options.observer->wants_ops()),
      state_(std::move(state)),
      values_(parent.values_.size()),
      executing_(parent.executing_.size()) {}

Interpreter::~Interpreter() = default;

std::vector<Array> Interpreter::run_region(RegionId region, std::span<const Array> args) {
  return execute(region, args);
}

std::vector<Array> Interpreter::call(std::string_view function, std::span<const Array> args) {
  const Function* callee = graph().find_function(function);
  if (!callee) throw_user("func.call: there is no function @{}", function);
  if (!callee->body.valid())
    throw_user("func.call: the function @{} is only declared, it has no body", function);
  return run_function_body(callee->body, args);
}

std::vector<Array> Interpreter::run_function_body(RegionId body, std::span<const Array> args) {
  if (executing_[body.index]) {
    Interpreter inner(*this, options_, state_);
    inner.options_.transport = &transport();
    return inner.execute(body, args);
  }
  executing_[body.index] = true;
  std::vector<Array> results = execute(body, args);
  executing_[body.index] = false;
  return results;
}

std::vector<Array> Interpreter::take_operands(const Step& step) {
  std::vector<Array> operands;
  operands.reserve(step.num_operands);
  for (const StepOperand& operand : schedule_->operands(step)) {
    Array& value = values_[operand.value];
    if (operand.last)
      operands.push_back(std::move(value));
    else
      operands.push_back(value);
  }
  return operands;
}

void Interpreter::keep(uint32_t value, Array array) {
  if (options_.memory) options_.memory->hold(array);
  values_[value] = std::move(array);
}

void Interpreter::drop(uint32_t value) {
  if (options_.memory) options_.memory->release(values_[value]);
  values_[value] = Array();
}

// Of values that were read for the last time.
void Interpreter::release_operands(const Step& step, std::span<const Array> operands) {
  if (!options_.memory) return;
  const std::span<const StepOperand> list = schedule_->operands(step);
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].last) options_.memory->release(operands[i]);
}

// Arrays that another device of this process still looks at are not overwritten, and how long it
// does is a matter of timing. A device with a memory of its own would have overwritten them: the
// meter counts as if.
int64_t Interpreter::taken_over(const Step& step, const Node& node, std::span<const Array> operands,
                                std::span<const Array> results) const {
  if (results.size() != 1 || node.def->in_place == InPlace::Never) return 0;
  const size_t candidates = node.def->in_place == InPlace::FirstOperand ? 1 : operands.size();
  const std::span<const StepOperand> list = schedule_->operands(step);
  for (size_t i = 0; i < candidates; ++i) {
    const auto same = std::count_if(operands.begin(), operands.end(), [&](const Array& other) {
      return other.buffer() == operands[i].buffer();
    });
    if (!list[i].last || same != 1 || options_.memory->holders(operands[i]) != 1) continue;
    const bool fits = operands[i].is_contiguous() &&
                      byte_size(operands[i].dtype()) == byte_size(results[0].dtype());
    const bool is_done = results[0].buffer() == operands[i].buffer();
    return fits && !is_done ? storage_bytes(results[0]) : 0;
  }
  return 0;
}

std::vector<Array> Interpreter::execute(RegionId id, std::span<const Array> args) {
  const RegionSchedule& region = schedule_->region(id);
  internal_check(region.args.size() == args.size(),
                 "a region is run on another number of arguments");
  for (size_t i = 0; i < args.size(); ++i)
    if (region.args[i] != ValueId::kNone) keep(region.args[i], args[i]);
  return run_steps(region);
}

std::vector<Array> Interpreter::consume_region(RegionId id, std::vector<Array> args) {
  const RegionSchedule& region = schedule_->region(id);
  internal_check(region.args.size() == args.size(),
                 "a region is run on another number of arguments");
  for (size_t i = 0; i < args.size(); ++i)
    if (region.args[i] != ValueId::kNone) keep(region.args[i], std::move(args[i]));
  args.clear();
  return run_steps(region);
}

bool Interpreter::may_overwrite(const Array& operand) const {
  if (operand.buffer().use_count() != 1) return false;
  std::atomic_thread_fence(std::memory_order_acquire);  // what other threads read is read
  return true;
}

std::vector<Array> Interpreter::run_steps(const RegionSchedule& region) {
  for (const Step& step : region.steps) {
    if (step.kind == Step::Kind::Return) {
      std::vector<Array> results = take_operands(step);
      release_operands(step, results);
      for (uint32_t value : schedule_->frees(step)) drop(value);
      return results;
    }
    run_step(step);
  }
  return {};
}

void Interpreter::run_step(const Step& step) {
  const Node& node = graph().node(step.node);
  if (step.kind == Step::Kind::Constant && values_[node.results[0].index].valid()) return;
  if (!step.eval && step.kind != Step::Kind::Call && !options_.kernels)
    throw_user("{}: this op cannot be executed ({})", node.name(),
               node.def->opaque ? "nobody knows it"
               : node.def->eval ? "its elements are of a type without kernels"
                                : "it has no kernel");
  const double begin = observes_ops_ ? seconds_now() : 0;
  MemoryMeter* const memory = options_.memory;
  const MemoryMeter::Mark mark = memory ? memory->begin() : MemoryMeter::Mark{};
  std::vector<Array> results;
  {
    const std::vector<Array> operands = take_operands(step);
    if (step.dynamic) check_operands(node, operands);
    results = step.kind == Step::Kind::Call ? run_function_body(step.callee, operands)
              : options_.kernels            ? options_.kernels->call(*this, node, operands)
                                            : step.eval(*this, node, operands);
    if (memory) {
      const int64_t in_place = taken_over(step, node, operands, results);
      for (const Array& result : results) memory->hold(result);
      memory->end(mark, step.node, allocates_for_itself(step, node), in_place,
                  in_place > 0 ? results[0].buffer().get() : nullptr);
      release_operands(step, operands);
    }
  }
  check_results(node, results);
  if (observes_ops_)
    options_.observer->executed(graph(), node, options_.device, results, begin, seconds_now());
  for (size_t i = 0; i < results.size(); ++i)
    values_[node.results[i].index] = std::move(results[i]);
  for (uint32_t value : schedule_->frees(step)) drop(value);
}

// Once more what the verifier did, now that the sizes are known.
void Interpreter::check_operands(const Node& node, std::span<const Array> operands) {
  if (!sized_) sized_ = std::make_unique<Graph>(graph());
  for (size_t i = 0; i < operands.size(); ++i) {
    Type& type = sized_->value(node.operands[i]).type;
    if (!type.is_tensor()) continue;
    type.unranked = false;
    type.shape = operands[i].shape();
  }
  const std::vector<Type> types = node.def->infer(*sized_, node);
  for (size_t i = 0; i < types.size() && i < node.results.size(); ++i)
    if (!compatible_types(types[i], graph().type(node.results[i])))
      throw_user("{}: result {} is declared as {}, and is {} for the sizes at hand", node.name(), i,
                 to_string(graph().type(node.results[i])), to_string(types[i]));
}

void Interpreter::check_results(const Node& node, std::span<const Array> results) const {
  if (results.size() != node.results.size() && node.def->infer == infer_declared)
    throw_user("{}: gives {} results, and {} were declared", node.name(), results.size(),
               node.results.size());
  if (results.size() != node.results.size())
    throw_internal("{}: the kernel gave {} results of {}", node.name(), results.size(),
                   node.results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    const Type& type = graph().type(node.results[i]);
    if (!type.is_tensor()) continue;
    bool fits = results[i].dtype() == type.dtype;
    if (!type.unranked) {
      fits &= results[i].rank() == type.rank();
      for (size_t d = 0; fits && d < type.rank(); ++d)
        fits &= results[i].shape()[d] >= 0 &&
                (type.shape[d] == kDynamicSize || type.shape[d] == results[i].shape()[d]);
    }
    // What the op itself does not know was the module's to say.
    if (!fits && (node.def->infer == infer_declared || node.def->has(kCollective) ||
                  !type.has_static_shape()))
      throw_user("{}: result {} is tensor<{}{}{}>, and {} was declared", node.name(), i,
                 to_string(results[i].shape()), results[i].rank() ? "x" : "",
                 name(results[i].dtype()), to_string(type));
    if (!fits)
      throw_internal("{}: the kernel gave tensor<{}{}{}> where {} was declared", node.name(),
                     to_string(results[i].shape()), results[i].rank() ? "x" : "",
                     name(results[i].dtype()), to_string(type));
  }
}

std::vector<Array> Interpreter::map_region(RegionId id, std::span<const Array> args) {
  if (!schedule_->region(id).elementwise) return EvalContext::map_region(id, args);
  return execute_elementwise(id, args, args[0].shape());
}

std::vector<Array> Interpreter::execute_elementwise(RegionId id, std::span<const Array> args,
                                                    const Shape& shape) {
  const RegionSchedule& region = schedule_->region(id);
  for (size_t i = 0; i < args.size(); ++i)
    if (region.args[i] != ValueId::kNone) values_[region.args[i]] = args[i];
  for (const Step& step : region.steps) {
    const Node& node = graph().node(step.node);
    if (step.kind == Step::Kind::Constant) {
      run_step(step);
      continue;
    }
    std::vector<Array> operands = take_operands(step);
    for (Array& operand : operands)
      if (operand.rank() == 0 && !shape.empty()) operand = operand.broadcast(shape, {});
    for (uint32_t value : schedule_->frees(step)) values_[value] = Array();
    if (step.kind == Step::Kind::Return) return operands;
    std::vector<Array> results = step.kind == Step::Kind::Call
                                     ? execute_elementwise(step.callee, operands, shape)
                                     : step.eval(*this, node, operands);
    for (size_t i = 0; i < results.size(); ++i)
      values_[node.results[i].index] = std::move(results[i]);
  }
  return {};
}

Transport& Interpreter::transport() {
  if (options_.transport) return *options_.transport;
  if (!own_transport_) own_transport_ = make_local_transport(options_.grid.num_devices());
  return *own_transport_;
}

Array Interpreter::transfer(const Node& node, const Array& operand) {
  if (!options_.transfers) return EvalContext::transfer(node, operand);
  return options_.transfers->transfer(*this, node, operand);
}

void Interpreter::run_parallel(DeviceGrid grid, std::vector<std::string> infeed,
                               const std::function<void(EvalContext&)>& task) {
  const auto transport = make_local_transport(grid.num_devices());
  {
    std::lock_guard lock(state_->mutex);
    state_->infeed.assign(infeed.begin(), infeed.end());
  }
  std::vector<int64_t> devices(static_cast<size_t>(grid.num_devices()));
  std::iota(devices.begin(), devices.end(), 0);
  run_devices(*transport, devices, [&](int64_t device) {
    Interpreter interpreter(*this,
                            {.transport = transport.get(),
                             .device = device,
                             .grid = grid,
                             .observer = options_.observer,
                             .kernels = options_.kernels},
                            state_);
    task(interpreter);
  });
}

std::vector<Array> Interpreter::infeed() {
  std::string function;
  {
    std::lock_guard lock(state_->mutex);
    if (state_->infeed.empty()) throw_user("stablehlo.infeed: the infeed is empty");
    function = state_->infeed.front();
    state_->infeed.pop_front();
  }
  return call(function, {});
}

void Interpreter::print(std::string_view text) {
  if (options_.observer) options_.observer->print(text);
}

void Interpreter::probe(std::string_view name, const Array& value) {
  std::lock_guard lock(state_->mutex);
  std::vector<Array>& kept = state_->probes[std::string(name)];
  kept.push_back(value);
  if (options_.observer) options_.observer->probe(name, static_cast<int64_t>(kept.size()), value);
}

Array Interpreter::probed(std::string_view name, int64_t iteration) {
  std::lock_guard lock(state_->mutex);
  const auto it = state_->probes.find(name);
  if (it == state_->probes.end() || iteration >= static_cast<int64_t>(it->second.size()))
    throw_user("check.expect_serialized_eq: no probe '{}' was kept for iteration {}", name,
               iteration);
  return it->second[static_cast<size_t>(iteration)];
}

const Function& check_arguments(const Graph& graph, std::string_view name,
                                std::span<const Array> args) {
  const Function* function = graph.find_function(name);
  if (!function) throw_user("there is no function @{} in the module", name);
  if (!function->body.valid()) throw_user("the function @{} has no body", name);
  if (args.size() != function->arg_types.size())
    throw_user("@{} takes {} arguments, {} are given", name, function->arg_types.size(),
               args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const Type& type = function->arg_types[i];
    if (!type.is_tensor() || type.unranked) continue;
    bool fits = args[i].dtype() == type.dtype && args[i].rank() == type.rank();
    for (size_t d = 0; fits && d < type.rank(); ++d)
      fits = type.shape[d] == kDynamicSize || type.shape[d] == args[i].shape()[d];
    if (!fits)
      throw_user("argument {} of @{} is {}, and {} is given", i, name, to_string(type),
                 to_string(Type::tensor(args[i].dtype(), args[i].shape())));
  }
  return *function;
}

std::vector<Array> run_function(const Graph& graph, std::string_view name,
                                std::span<const Array> args, Observer* observer) {
  verify_graph(graph);
  return run_verified(graph, name, args, observer);
}

std::vector<Array> run_verified(const Graph& graph, std::string_view name,
                                std::span<const Array> args, Observer* observer) {
  check_arguments(graph, name, args);
  Interpreter interpreter(graph, std::make_shared<const Schedule>(graph), {.observer = observer});
  return interpreter.call(name, args);
}

}  // namespace cleave
