#include "cleave/runtime/executor.h"

#include <algorithm>
#include <mutex>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/graph/local_op.h"
#include "cleave/ops/literal_array.h"
#include "cleave/runtime/local_transport.h"

namespace cleave {
namespace {

// Devices tell what they do from their own threads; the observer hears one at a time.
class OneAtATime : public Observer {
 public:
  explicit OneAtATime(Observer* observer) : observer_(observer) {}

  void executed(const Graph& graph, const Node& node, int64_t device,
                std::span<const Array> results, double begin, double end) override {
    std::lock_guard lock(mutex_);
    observer_->executed(graph, node, device, results, begin, end);
  }
  void print(std::string_view text) override {
    std::lock_guard lock(mutex_);
    observer_->print(text);
  }
  void probe(std::string_view name, int64_t iteration, const Array& value) override {
    std::lock_guard lock(mutex_);
    observer_->probe(name, iteration, value);
  }

 private:
  Observer* observer_;
  std::mutex mutex_;
};

// Where the value on every device is the value as well.
bool is_idempotent(ReduceOp op) { return op != ReduceOp::Sum && op != ReduceOp::Prod; }

// Puts pieces of one part together; a piece that is the whole part is not copied where it is to be
// combined with others. A result is: it must not keep alive the larger array that it was cut from,
// nor what another device holds.
Array join_pieces(const std::vector<std::pair<const Transfer::Piece*, Array>>& pieces,
                  const Transfer& plan, const Array& like) {
  if (pieces.size() == 1 && pieces[0].first->size == plan.shape) {
    const Array& piece = pieces[0].second;
    const bool is_all = piece.buffer() == like.buffer() && piece.shape() == like.shape();
    return plan.parts > 1 || is_all ? piece : piece.copy();
  }
  Array result = plan.pads ? identity_array(plan.fill, like.dtype(), plan.shape).copy()
                           : Array(like.dtype(), plan.shape);
  for (const auto& [piece, array] : pieces)
    copy_elements(array, result.slice(piece->start, piece->size));
  return result;
}

CommEvent describe(const Node& node) {
  CommEvent event;
  event.kind = node.attrs.get_string("cleave.step");
  event.axes = node.attrs.get_string("cleave.axes");
  event.asked_by = node.attrs.get_string("cleave.for");
  return event;
}

// One device's transfers while a program runs.
class DeviceTransfers : public TransferHandler {
 public:
  DeviceTransfers(const Instance& instance, std::vector<NodeId>* done)
      : instance_(instance), done_(done) {}

  Array transfer(EvalContext& context, const Node& node, const Array& operand) override {
    const NodeId id = context.graph().value(node.results[0]).producer;
    const Transfer* plan = instance_.transfer(id);
    internal_check(plan != nullptr, "a transfer without a plan");
    if (done_) done_->push_back(id);
    return run(context, *plan, node, operand);
  }

 private:
  static Array run(EvalContext& context, const Transfer& plan, const Node& node,
                   const Array& operand) {
    const int64_t self = context.device();
    const Meeting meeting{self, plan.group, node.name};
    if (plan.is_all_reduce)
      return context.transport().all_reduce(meeting, operand, {plan.reduce, nullptr});
    std::vector<Array> incoming;
    if (!plan.group.empty()) {
      std::vector<Array> outgoing(plan.group.size());
      for (const Transfer::Piece& piece : plan.sends)
        outgoing[place(plan, piece.device)] = operand.slice(piece.start, piece.size);
      incoming = context.transport().exchange(meeting, std::move(outgoing));
    }
    if (plan.is_identity) return identity_array(plan.fill, operand.dtype(), plan.shape);
    std::vector<std::vector<std::pair<const Transfer::Piece*, Array>>> parts(plan.parts);
    for (const Transfer::Piece& piece : plan.receives)
      parts[piece.part].emplace_back(&piece, piece.device == self
                                                 ? operand.slice(piece.source, piece.size)
                                                 : incoming[place(plan, piece.device)]);
    std::vector<Array> arrays;
    for (const auto& pieces : parts) arrays.push_back(join_pieces(pieces, plan, operand));
    return arrays.size() == 1 ? arrays[0] : combine(arrays, {plan.reduce, nullptr});
  }

  static size_t place(const Transfer& plan, int64_t device) {
    return static_cast<size_t>(std::find(plan.group.begin(), plan.group.end(), device) -
                               plan.group.begin());
  }

  const Instance& instance_;
  std::vector<NodeId>* done_;
};

}  // namespace

struct Executor::Device {
  Instance instance;
  std::shared_ptr<const Schedule> schedule;
};

Executor::Executor(Program program) : program_(std::move(program)) {
  for (int64_t device = 0; device < program_.mesh->num_devices(); ++device) {
    auto state = std::make_unique<Device>();
    state->instance = instantiate(program_, device);
    state->schedule = std::make_shared<const Schedule>(state->instance.graph);
    devices_.push_back(std::move(state));
  }
}

Executor::~Executor() = default;

const Instance& Executor::instance(int64_t device) const { return devices_[device]->instance; }

std::vector<std::vector<Array>> Executor::run_shards(const std::vector<std::vector<Array>>& args,
                                                     const ExecuteOptions& options) const {
  const int64_t count = num_devices();
  std::vector<std::vector<Array>> results(count);
  std::vector<std::vector<NodeId>> done(count);
  std::vector<int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  const auto transport = make_local_transport(count);
  OneAtATime observer(options.observer);
  if (options.memory) {
    options.memory->peaks.assign(count, 0);
    options.memory->peak_at.assign(count, NodeId{});
  }
  run_devices(*transport, all, [&](int64_t device) {
    const Device& state = *devices_[device];
    DeviceTransfers transfers(state.instance, options.log ? &done[device] : nullptr);
    MemoryMeter meter;
    // What the caller keeps stays; what it donates ends with its last use.
    if (options.memory)
      for (size_t i = 0; i < args[device].size(); ++i)
        if (!is_donated(program_.entry_function(), i)) meter.hold(args[device][i]);
    Interpreter interpreter(state.instance.graph, state.schedule,
                            {.transport = transport.get(),
                             .device = device,
                             .grid = {1, count},
                             .observer = options.observer ? &observer : nullptr,
                             .transfers = &transfers,
                             .memory = options.memory ? &meter : nullptr});
    results[device] = interpreter.call(state.instance.entry, args[device]);
    if (!options.memory) return;
    options.memory->peaks[device] = meter.peak();
    options.memory->peak_at[device] = meter.peak_at();
  });
  if (options.log && count > 0)
    for (size_t i = 0; i < done[0].size(); ++i) {
      CommEvent event =
          describe(program_.graph.node(devices_[0]->instance.origin[done[0][i].index]));
      for (int64_t device = 0; device < count; ++device) {
        const int64_t bytes = devices_[device]->instance.transfer(done[device][i])->bytes_received;
        event.bytes = std::max(event.bytes, bytes);
        event.total_bytes += bytes;
      }
      options.log->add(std::move(event));
    }
  return results;
}

std::vector<Array> Executor::run(std::span<const Array> args, const ExecuteOptions& options) const {
  const Function& entry = program_.entry_function();
  const std::vector<ValueId>& values = program_.graph.region(entry.body).args;
  if (args.size() != values.size())
    throw_user("@{} takes {} arguments, {} are given", entry.name, values.size(), args.size());
  std::vector<std::vector<Array>> shards(num_devices());
  for (int64_t device = 0; device < num_devices(); ++device)
    for (size_t i = 0; i < args.size(); ++i)
      shards[device].push_back(shard_of(args[i], program_.layout(values[i]), device));
  const std::vector<std::vector<Array>> parts = run_shards(shards, options);
  const Node& end = program_.graph.node(program_.graph.terminator(entry.body));
  std::vector<Array> results;
  for (size_t i = 0; i < end.operands.size(); ++i) {
    std::vector<Array> pieces;
    for (const auto& part : parts) pieces.push_back(part[i]);
    results.push_back(assemble(pieces, program_.layout(end.operands[i]),
                               program_.graph.operand_type(end, i).shape));
  }
  return results;
}

bool is_donated(const Function& function, size_t argument) {
  if (argument >= function.arg_attrs.size()) return false;
  const AttrDict& attrs = function.arg_attrs[argument];
  return attrs.has("jax.buffer_donor") || attrs.has("tf.aliasing_output");
}

Array identity_array(ReduceOp op, DType dtype, const Shape& shape) {
  return array_of(identity_literal(op, Type::tensor(dtype, shape)));
}

Array shard_of(const Array& whole, const Layout& layout, int64_t device) {
  if (!layout.spec.mesh) return whole;
  const ShardSlice box = layout.box(whole.shape(), device);
  const Mesh& mesh = *layout.spec.mesh;
  if (layout.spec.is_partial() && !is_idempotent(layout.spec.partial_op) &&
      coordinate(layout.spec.partial, mesh, mesh.position_of(device)) != 0)
    return identity_array(layout.spec.partial_op, whole.dtype(), box.size);
  return whole.slice(box.offset, box.size).contiguous();
}

Array assemble(std::span<const Array> shards, const Layout& layout, const Shape& shape) {
  if (!layout.spec.mesh || layout.spec.is_fully_replicated()) return shards[0];
  const Mesh& mesh = *layout.spec.mesh;
  std::vector<Array> parts;
  for (int64_t part = 0; part < total_size(layout.spec.partial); ++part) {
    Array whole(shards[0].dtype(), shape);
    for (int64_t device = 0; device < static_cast<int64_t>(shards.size()); ++device) {
      if (coordinate(layout.spec.partial, mesh, mesh.position_of(device)) != part) continue;
      const ShardSlice box = layout.box(shape, device);
      copy_elements(shards[device], whole.slice(box.offset, box.size));
    }
    parts.push_back(std::move(whole));
  }
  return parts.size() == 1 ? parts[0] : combine(parts, {layout.spec.partial_op, nullptr});
}

}  // namespace cleave
