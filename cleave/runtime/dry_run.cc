#include "cleave/runtime/dry_run.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "cleave/core/aligned.h"
#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/allocation_count.h"
#include "cleave/kernels/workspace.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"
#include "cleave/runtime/executor.h"

namespace cleave {
namespace {

// Arrays without elements. Each has an address of its own, which nobody may look at; making and
// dropping them counts as allocating and freeing.
class Hollow {
 public:
  Array make(DType dtype, const Shape& shape) {
    const auto bytes = num_elements(shape) * byte_size(dtype);
    auto* address = reinterpret_cast<std::byte*>(next_);
    next_ += aligned(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
    count(bytes);
    Buffer buffer(address, [bytes](std::byte*) { thread_allocations().live -= bytes; });
    return Array(dtype, shape, row_major_strides(shape), 0, std::move(buffer));
  }
  // As if a kernel took and returned this much for itself.
  static void use(int64_t bytes) {
    count(bytes);
    thread_allocations().live -= bytes;
  }

 private:
  static void count(int64_t bytes) {
    AllocationCount& allocations = thread_allocations();
    allocations.live += bytes;
    allocations.peak = std::max(allocations.peak, allocations.live);
  }
  uintptr_t next_ = uintptr_t{1} << 62;  // where no real array is
};

class DryDevice : public KernelCaller, public TransferHandler {
 public:
  DryDevice(const Program& program, const Instance& instance, int64_t device,
            const std::vector<int64_t>& runs)
      : program_(program),
        instance_(instance),
        graph_(instance.graph),
        device_(device),
        runs_(runs) {}

  std::vector<Array> arguments(const Function& function) {
    std::vector<Array> args;
    for (size_t i = 0; i < function.arg_types.size(); ++i) {
      const Type& type = function.arg_types[i];
      args.push_back(fresh(type));
      made_[args.back().buffer().get()] = {NodeId{}, static_cast<uint32_t>(i), 0};
    }
    return args;
  }

  DryRun::Alive origin(const void* buffer) const {
    const auto it = made_.find(buffer);
    return it == made_.end() ? DryRun::Alive{} : it->second;
  }

  std::vector<Array> call(EvalContext& context, const Node& node,
                          std::span<const Array> in) override {
    const Flow flow = flow_of(node);
    if (flow == Flow::Loop) return loop(context, node, in);
    if (flow == Flow::Branches) return branches(context, node);
    std::vector<Array> results =
        renames_only(node, in) ? node.def->eval(context, node, in) : computed(context, node, in);
    remember(node, results);
    return results;
  }

  Array transfer(EvalContext&, const Node& node, const Array& operand) override {
    const NodeId id = graph_.value(node.results[0]).producer;
    const std::string_view step =
        program_.graph.node(instance_.origin[id.index]).attrs.get_string("cleave.step");
    Array result = step == "relabel"                   ? operand
                   : step == "replicated_to_unreduced" ? pending(id, operand)
                                                       : fresh(graph_.result_type(node));
    remember(node, {&result, 1});
    return result;
  }

 private:
  // How often a region of a node of the device may have run.
  int64_t most_runs(const Node& node, size_t region) const {
    if (runs_.empty()) return std::numeric_limits<int64_t>::max();
    const NodeId id = graph_.region(node.regions[region]).owner;
    return runs_[program_.graph.node(instance_.origin[id.index]).regions[region].index];
  }

  Array fresh(const Type& type) {
    if (!type.is_tensor()) return hollow_.make(DType::Bool, {0});
    if (!type.has_static_shape() || type.dtype == DType::Other)
      throw_user("memory can't be predicted: {} has no size before it is computed",
                 to_string(type));
    return hollow_.make(type.dtype, type.shape);
  }

  // The first device along the axes keeps the value; under a sum, the others hold one zero.
  Array pending(NodeId id, const Array& operand) {
    const Node& origin = program_.graph.node(instance_.origin[id.index]);
    const ShardingSpec& before = program_.layout(origin.operands[0]).spec;
    const ShardingSpec& after = program_.layout(origin.results[0]).spec;
    const bool differs = after.partial_op == ReduceOp::Sum || after.partial_op == ReduceOp::Prod;
    const int64_t place = coordinate(without(after.partial, before.partial), *after.mesh,
                                     after.mesh->position_of(device_));
    if (!differs || place == 0) return operand;
    return hollow_.make(operand.dtype(), {}).broadcast(operand.shape(), {});
  }

  void remember(const Node& node, std::span<const Array> results) {
    for (size_t i = 0; i < results.size(); ++i)
      made_.try_emplace(results[i].buffer().get(),
                        DryRun::Alive{graph_.value(node.results[i]).producer, 0, 0});
  }

  // Gives other names to elements that exist, and looks at none.
  bool renames_only(const Node& node, std::span<const Array> in) const {
    if (!node.def->eval) return false;
    if (is<op::Reshape>(node)) return reshapes_as_view(in[0], graph_.result_type(node).shape);
    if (node.def->has(kViewLike) || node.def->has(kDataFlow)) return true;
    if (node.def->has(kConstantLike)) return node.attrs.has("value");
    return is<op::Transfer>(node) || node.def->forwards;
  }

  std::vector<Array> computed(EvalContext& context, const Node& node, std::span<const Array> in) {
    if (node.def->alias)
      if (std::vector<Array> views = node.def->alias(graph_, node, in); !views.empty())
        return views;
    if (is<op::Iota>(node)) {  // one line, repeated
      const Type& type = graph_.result_type(node);
      const int64_t dim = node.attrs.get_int("iota_dimension");
      return {hollow_.make(type.dtype, {type.shape[static_cast<size_t>(dim)]})
                  .broadcast(type.shape, {dim})};
    }
    std::vector<Array> results;
    for (ValueId result : node.results) results.push_back(place(context, node, result, in));
    Hollow::use(op_workspace(graph_, node, in));
    return results;
  }

  // In the memory of the first operand that nobody else holds, where it fits; else in fresh memory.
  Array place(EvalContext& context, const Node& node, ValueId result, std::span<const Array> in) {
    const Type& type = graph_.type(result);
    const InPlace in_place = node.def->in_place;
    if (in_place == InPlace::Never) return fresh(type);
    if (in_place == InPlace::FirstOperand) in = in.first(1);
    for (const Array& operand : in) {
      if (!context.may_overwrite(operand)) continue;
      if (!operand.is_contiguous() || byte_size(operand.dtype()) != byte_size(type.dtype)) break;
      return Array(type.dtype, type.shape, row_major_strides(type.shape), 0, operand.buffer());
    }
    return fresh(type);
  }

  std::vector<Array> branches(EvalContext& context, const Node& node) {
    std::vector<Array> results;
    for (size_t r = 0; r < node.regions.size(); ++r) {
      if (most_runs(node, r) == 0) continue;
      results.clear();  // one of them runs
      results = context.run_region(node.regions[r], {});
    }
    if (results.size() == node.results.size()) return results;
    for (ValueId result : node.results) results.push_back(fresh(graph_.type(result)));
    return results;
  }

  std::vector<Array> loop(EvalContext& context, const Node& node, std::span<const Array> in) {
    constexpr int64_t kTrips = 3;  // buffers are used again from the second on
    const LoopRegions regions = *loop_of(node);
    std::vector<Array> carried(in.begin(), in.end());
    const int64_t trips = std::min(kTrips, most_runs(node, 1));
    for (int64_t trip = 0; trip < trips; ++trip) {
      context.run_region(regions.condition, carried);
      carried = context.consume_region(regions.body, std::move(carried));
    }
    context.run_region(regions.condition, carried);
    return carried;
  }

  const Program& program_;
  const Instance& instance_;
  const Graph& graph_;
  int64_t device_;
  const std::vector<int64_t>& runs_;
  Hollow hollow_;
  std::map<const void*, DryRun::Alive> made_;
};

// Walks the device's schedule; `snapshot` is the step at whose end to note what is alive.
struct Walk {
  DryRun run;
  int64_t peak_step = 0;
};
Walk walk(const Program& program, const Instance& instance,
          const std::shared_ptr<const Schedule>& schedule, int64_t device_id,
          const std::vector<int64_t>& runs, std::optional<int64_t> snapshot,
          bool with_history = false) {
  DryDevice device(program, instance, device_id, runs);
  MemoryMeter meter;
  if (with_history) meter.keep_history();
  Walk walk;
  DryRun& result = walk.run;
  const Function& entry = *instance.graph.find_function(instance.entry);
  std::vector<Array> args = device.arguments(entry), kept;
  for (size_t i = 0; i < args.size(); ++i) {
    result.arguments += static_cast<int64_t>(args[i].num_bytes());
    if (is_donated(program.entry_function(), i)) continue;
    meter.hold(args[i]);
    kept.push_back(args[i]);
  }
  if (snapshot) meter.note_at(*snapshot);
  Interpreter interpreter(instance.graph, schedule,
                          {.grid = {1, program.mesh->num_devices()},
                           .transfers = &device,
                           .memory = &meter,
                           .kernels = &device});
  interpreter.consume_region(entry.body, std::move(args));
  result.peak = meter.peak();
  result.peak_at = meter.peak_at();
  result.timeline = meter.timeline();
  walk.peak_step = meter.peak_step();
  for (const MemoryMeter::Step& step : meter.steps())
    result.steps.push_back({step.node, step.reached});
  for (const MemoryMeter::Span& span : meter.spans()) {
    DryRun::Alive what = device.origin(span.buffer);
    what.bytes = span.bytes;
    result.buffers.push_back({what, span.first, span.last});
  }
  int64_t held = 0;
  for (const auto& [buffer, bytes] : meter.noted()) {
    DryRun::Alive alive = device.origin(buffer);
    alive.bytes = bytes;
    held += bytes;
    if (bytes > 0) result.alive.push_back(alive);
  }
  result.kernel_bytes = result.peak - held;
  std::sort(
      result.alive.begin(), result.alive.end(), [](const DryRun::Alive& a, const DryRun::Alive& b) {
        return std::tuple(-a.bytes, a.made_by, a.index) < std::tuple(-b.bytes, b.made_by, b.index);
      });
  return walk;
}

}  // namespace

DryRun dry_run(const Program& program, const Instance& instance, int64_t device,
               const std::vector<int64_t>& runs, bool with_history) {
  const auto schedule = std::make_shared<const Schedule>(instance.graph);
  const int64_t peak_step = walk(program, instance, schedule, device, runs, std::nullopt).peak_step;
  return walk(program, instance, schedule, device, runs, peak_step, with_history).run;
}

}  // namespace cleave
