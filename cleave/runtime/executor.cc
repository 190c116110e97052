#include "cleave/runtime/executor.h"

#include <algorithm>
#include <numeric>

#include "cleave/core/error.h"
#include "cleave/graph/local_op.h"
#include "cleave/ops/literal_array.h"
#include "cleave/runtime/agreement.h"
#include "cleave/runtime/local_transport.h"
#include "cleave/runtime/one_at_a_time.h"
#include "cleave/runtime/rank_transport.h"
#include "cleave/runtime/run_devices.h"

namespace cleave {
namespace {

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

// all_reduce "x" for stablehlo.tanh
std::string name_of(const CommEvent& event) {
  return fmt::format("{} {} for {}", event.kind, event.axes, event.asked_by);
}

// One device's transfers while a program runs.
class DeviceTransfers : public TransferHandler {
 public:
  // `names` by node: what the transfer is, for messages.
  DeviceTransfers(const Instance& instance, const std::vector<std::string>& names,
                  std::vector<NodeId>* done)
      : instance_(instance), names_(names), done_(done) {}

  Array transfer(EvalContext& context, const Node& node, const Array& operand) override {
    const NodeId id = context.graph().value(node.results[0]).producer;
    const Transfer* plan = instance_.transfer(id);
    internal_check(plan != nullptr, "a transfer without a plan");
    if (done_) done_->push_back(id);
    return run(context, *plan, names_[id.index], operand);
  }

 private:
  static Array run(EvalContext& context, const Transfer& plan, std::string_view name,
                   const Array& operand) {
    const int64_t self = context.device();
    const Meeting meeting{self, plan.group, name};
    if (plan.is_all_reduce)
      return context.transport().all_reduce(meeting, operand, {plan.reduce, nullptr});
    std::vector<Array> incoming;
    if (!plan.group.empty()) {
      std::vector<Array> outgoing(plan.group.size());
      for (const Transfer::Piece& piece : plan.sends())
        outgoing[plan.place_of(piece.device)] = operand.slice(piece.start, piece.size);
      std::vector<bool> comes(plan.group.size(), false);
      for (const Transfer::Piece& piece : plan.receives)
        if (piece.device != self) comes[plan.place_of(piece.device)] = true;
      incoming = context.transport().exchange(meeting, std::move(outgoing), comes);
    }
    if (plan.is_identity) return identity_array(plan.fill, operand.dtype(), plan.shape);
    std::vector<std::vector<std::pair<const Transfer::Piece*, Array>>> parts(plan.parts);
    for (const Transfer::Piece& piece : plan.receives)
      parts[piece.part].emplace_back(&piece, piece.device == self
                                                 ? operand.slice(piece.source, piece.size)
                                                 : incoming[plan.place_of(piece.device)]);
    std::vector<Array> arrays;
    for (const auto& pieces : parts) arrays.push_back(join_pieces(pieces, plan, operand));
    return arrays.size() == 1 ? arrays[0] : combine(arrays, {plan.reduce, nullptr});
  }

  const Instance& instance_;
  const std::vector<std::string>& names_;
  std::vector<NodeId>* done_;
};

}  // namespace

struct Executor::Device {
  Instance instance;
  std::shared_ptr<const Schedule> schedule;
  std::vector<std::string> transfer_names;  // by node
};

Executor::Executor(Program program, World* world)
    : program_(std::move(program)),
      world_(program_.mesh->num_devices() > 1 ? world : nullptr),
      devices_(static_cast<size_t>(program_.mesh->num_devices())) {
  own_.resize(devices_.size());
  std::iota(own_.begin(), own_.end(), 0);
  if (world_) {
    own_ = world_->devices_of(*program_.mesh);
    require_same_graph(*world_, program_.graph, "programs");
  }
  TransferPlanners planners;
  for (int64_t device : own_) {
    auto state = std::make_unique<Device>();
    state->instance = instantiate(program_, device, &planners);
    state->schedule = std::make_shared<const Schedule>(state->instance.graph);
    const Instance& instance = state->instance;
    state->transfer_names.resize(instance.transfers.size());
    for (uint32_t i = 0; i < instance.transfers.size(); ++i)
      if (instance.transfers[i])
        state->transfer_names[i] = name_of(describe(program_.graph.node(instance.origin[i])));
    devices_[device] = std::move(state);
  }
}

Executor::~Executor() = default;

const Instance& Executor::instance(int64_t device) const {
  internal_check(devices_.at(device) != nullptr, "the instance of another rank's device");
  return devices_[device]->instance;
}

std::vector<std::vector<Array>> Executor::run_shards(const std::vector<std::vector<Array>>& args,
                                                     const ExecuteOptions& options) const {
  return run_own(args, options, false);
}

std::vector<std::vector<Array>> Executor::run_own(const std::vector<std::vector<Array>>& args,
                                                  const ExecuteOptions& options,
                                                  bool everywhere) const {
  const int64_t count = num_devices();
  const Node& end = program_.graph.node(program_.graph.terminator(program_.entry_function().body));
  std::vector<std::vector<Array>> results(count, std::vector<Array>(end.operands.size()));
  std::vector<std::vector<NodeId>> done(count);
  std::unique_ptr<Transport> local;
  std::unique_ptr<RankTransport> ranks;
  if (world_)
    ranks = std::make_unique<RankTransport>(*world_, count);
  else
    local = make_local_transport(count);
  Transport* transport = ranks ? static_cast<Transport*>(ranks.get()) : local.get();
  OneAtATime observer(options.observer);
  if (options.memory) {
    options.memory->peaks.assign(count, 0);
    options.memory->peak_at.assign(count, NodeId{});
  }
  run_devices(*transport, own_, [&](int64_t device) {
    const Device& state = *devices_[device];
    DeviceTransfers transfers(state.instance, state.transfer_names,
                              options.log ? &done[device] : nullptr);
    MemoryMeter meter;
    // What the caller keeps stays; what it donates ends with its last use.
    if (options.memory)
      for (size_t i = 0; i < args[device].size(); ++i)
        if (!is_donated(program_.entry_function(), i)) meter.hold(args[device][i]);
    Interpreter interpreter(state.instance.graph, state.schedule,
                            {.transport = transport,
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
  if (ranks && options.memory) share(*options.memory, *ranks);
  if (options.log) log_events(done, ranks.get(), *options.log);
  if (ranks && everywhere) share(results, *ranks);
  return results;
}

void Executor::share(MemoryUse& memory, RankTransport& ranks) const {
  const auto count = static_cast<int64_t>(own_.size());
  Array own(DType::I64, {2, count});
  for (int64_t i = 0; i < count; ++i) {
    own.data<int64_t>()[i] = memory.peaks[own_[i]];
    own.data<int64_t>()[count + i] = memory.peak_at[own_[i]].index;
  }
  int64_t device = 0;
  for (const auto& arrays : ranks.gather_ranks({own}, "the gathering of memory peaks")) {
    const int64_t theirs = arrays[0].shape()[1];
    for (int64_t i = 0; i < theirs; ++i, ++device) {
      memory.peaks[device] = arrays[0].data<int64_t>()[i];
      memory.peak_at[device].index = static_cast<uint32_t>(arrays[0].data<int64_t>()[theirs + i]);
    }
  }
}

// Every device makes the same transfers in the same order; only the bytes differ.
void Executor::log_events(const std::vector<std::vector<NodeId>>& done, RankTransport* ranks,
                          CommLog& log) const {
  const std::vector<NodeId>& first = done[own_[0]];
  const auto count = static_cast<int64_t>(first.size());
  Array bytes = Array::zeros(DType::I64, {2, count});  // at most, and in all
  for (int64_t device : own_)
    for (int64_t i = 0; i < count; ++i) {
      const int64_t received = devices_[device]->instance.transfer(done[device][i])->bytes_received;
      int64_t* most = bytes.data<int64_t>() + i;
      *most = std::max(*most, received);
      most[count] += received;
    }
  std::vector<std::vector<Array>> all{{bytes}};
  if (ranks) all = ranks->gather_ranks({bytes}, "the log of communication");
  for (int64_t i = 0; i < count; ++i) {
    CommEvent event =
        describe(program_.graph.node(devices_[own_[0]]->instance.origin[first[i].index]));
    for (const auto& arrays : all) {
      const int64_t* most = arrays[0].data<int64_t>() + i;
      event.bytes = std::max(event.bytes, *most);
      event.total_bytes += most[count];
    }
    log.add(std::move(event));
  }
}

// Ranks give each other the shards that no device before them holds.
void Executor::share(std::vector<std::vector<Array>>& results, RankTransport& ranks) const {
  const Node& end = program_.graph.node(program_.graph.terminator(program_.entry_function().body));
  std::vector<Array> own;
  for (int64_t device : own_)
    for (size_t i = 0; i < end.operands.size(); ++i)
      own.push_back(is_first_holder(program_.layout(end.operands[i]),
                                    program_.graph.operand_type(end, i).shape, device)
                        ? results[device][i]
                        : Array());
  const auto all = ranks.gather_ranks(std::move(own), "the gathering of results");
  int64_t device = 0;
  for (const auto& arrays : all)
    for (size_t at = 0; at < arrays.size(); at += end.operands.size(), ++device)
      for (size_t i = 0; i < end.operands.size(); ++i) results[device][i] = arrays[at + i];
}

std::vector<Array> Executor::run(std::span<const Array> args, const ExecuteOptions& options) const {
  const Function& entry = program_.entry_function();
  const std::vector<ValueId>& values = program_.graph.region(entry.body).args;
  if (args.size() != values.size())
    throw_user("@{} takes {} arguments, {} are given", entry.name, values.size(), args.size());
  if (world_) require_same_arguments(*world_, args);
  std::vector<std::vector<Array>> shards(num_devices());
  for (int64_t device : own_)
    for (size_t i = 0; i < args.size(); ++i)
      shards[device].push_back(shard_of(args[i], program_.layout(values[i]), device));
  const std::vector<std::vector<Array>> parts = run_own(shards, options, true);
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

bool is_first_holder(const Layout& layout, const Shape& shape, int64_t device) {
  if (!layout.spec.mesh || layout.spec.is_fully_replicated()) return device == 0;
  const Mesh& mesh = *layout.spec.mesh;
  const auto part = [&](int64_t d) {
    return coordinate(layout.spec.partial, mesh, mesh.position_of(d));
  };
  for (int64_t other = 0; other < device; ++other)
    if (layout.box(shape, other) == layout.box(shape, device) && part(other) == part(device))
      return false;
  return true;
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
      if (!shards[device].valid() ||
          coordinate(layout.spec.partial, mesh, mesh.position_of(device)) != part)
        continue;
      const ShardSlice box = layout.box(shape, device);
      copy_elements(shards[device], whole.slice(box.offset, box.size));
    }
    parts.push_back(std::move(whole));
  }
  return parts.size() == 1 ? parts[0] : combine(parts, {layout.spec.partial_op, nullptr});
}

}  // namespace cleave
