#include "tests/reshard/simulate.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"

namespace cleave {
namespace {

int64_t identity_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::Max:
      return std::numeric_limits<int64_t>::min();
    case ReduceOp::Min:
      return std::numeric_limits<int64_t>::max();
    case ReduceOp::Prod:
    case ReduceOp::And:
      return 1;
    default:
      return 0;
  }
}

bool is_idempotent(ReduceOp op) { return op != ReduceOp::Sum && op != ReduceOp::Prod; }

// Avg (of multiples of the number of parts, so that it is exact) adds here and is divided by the
// number of parts in `finish`.
int64_t combine(ReduceOp op, int64_t a, int64_t b) {
  switch (op) {
    case ReduceOp::Max:
      return std::max(a, b);
    case ReduceOp::Min:
      return std::min(a, b);
    case ReduceOp::Prod:
      return a * b;
    case ReduceOp::And:
      return a && b;
    case ReduceOp::Or:
      return a || b;
    default:
      return a + b;
  }
}

int64_t finish(ReduceOp op, int64_t value, int64_t parts) {
  return op == ReduceOp::Avg ? value / parts : value;
}

std::vector<int64_t> decompose(int64_t value, ReduceOp op, int64_t parts, std::mt19937_64& random) {
  std::vector<int64_t> result(parts);
  auto draw = [&](int64_t most) { return static_cast<int64_t>(random() % (most + 1)); };
  const int64_t holder = draw(parts - 1);
  int64_t sum = 0;
  for (int64_t i = 0; i < parts; ++i) {
    switch (op) {
      case ReduceOp::Sum:
      case ReduceOp::Avg:
        result[i] = (draw(2000) - 1000) * (op == ReduceOp::Avg ? parts : 1);
        sum += result[i];
        break;
      case ReduceOp::Max:
        result[i] = value - draw(1000);
        break;
      case ReduceOp::Min:
        result[i] = value + draw(1000);
        break;
      case ReduceOp::And:
        result[i] = value != 0 || draw(1);
        break;
      case ReduceOp::Or:
        result[i] = value != 0 && draw(1);
        break;
      case ReduceOp::Prod:
        result[i] = 1;
        break;
    }
  }
  if (op == ReduceOp::Sum)
    result[holder] += value - sum;
  else if (op == ReduceOp::Avg)
    result[holder] += value * parts - sum;
  else if (op == ReduceOp::And || op == ReduceOp::Or)
    result[holder] = value != 0;
  else
    result[holder] = value;
  return result;
}

// Calls visit(global index, offset in the shard) for every element of a slice, row-major.
void for_each_element(const ShardSlice& slice, const Shape& shape,
                      const std::function<void(int64_t, int64_t)>& visit) {
  const int64_t count = num_elements(slice.size);
  const Shape strides = row_major_strides(shape);
  Shape at(shape.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    int64_t global = 0;
    for (size_t d = 0; d < shape.size(); ++d) global += (slice.offset[d] + at[d]) * strides[d];
    visit(global, i);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < slice.size[d]) break;
      at[d] = 0;
    }
  }
}

// A single device counts by its id: the shards of the devices before it are empty.
std::vector<int64_t> devices_of(const Mesh& mesh) {
  if (mesh.is_maximal()) return mesh.device_ids;
  std::vector<int64_t> devices(mesh.num_devices());
  std::iota(devices.begin(), devices.end(), 0);
  return devices;
}
size_t num_shards(const Mesh& mesh) { return static_cast<size_t>(devices_of(mesh).back() + 1); }

ShardSlice slice_of(const ShardingSpec& spec, const Shape& shape, int64_t device) {
  if (spec.mesh->is_maximal()) return {Shape(shape.size(), 0), shape};
  return shard_slice(spec, shape, spec.mesh->position_of(device));
}

int64_t part_of(const ShardingSpec& spec, int64_t device) {
  if (spec.partial.empty()) return 0;
  return coordinate(spec.partial, *spec.mesh, spec.mesh->position_of(device));
}

// The devices that differ from `device` along `axes` only, itself included.
std::vector<int64_t> group_of(const Mesh& mesh, const AxisList& axes, int64_t device) {
  std::vector<int64_t> positions = {mesh.position_of(device)};
  for (const AxisRef& ref : axes) {
    int64_t minor = 1;
    for (size_t i = ref.axis + 1; i < mesh.axes.size(); ++i) minor *= mesh.axes[i].size;
    const int64_t stride = minor * (mesh.axes[ref.axis].size / ref.next_pre());
    std::vector<int64_t> next;
    for (int64_t position : positions) {
      const int64_t base = position - coordinate(ref, mesh, position) * stride;
      for (int64_t i = 0; i < ref.size; ++i) next.push_back(base + i * stride);
    }
    positions = std::move(next);
  }
  std::vector<int64_t> devices;
  for (int64_t position : positions) devices.push_back(mesh.device_at(position));
  return devices;
}

class StepRunner {
 public:
  StepRunner(const SimulatedTensor& before, const ReshardStep& step)
      : before_(before), step_(step), elements_(num_elements(before.shape)) {
    result_.shape = before.shape;
    result_.spec = step.after;
    result_.shards.resize(std::max(before.shards.size(), num_shards(*step.after.mesh)));
    if (step.kind == StepKind::CollectivePermute)
      sources_ = permute_sources(before.spec, step.after);
  }

  SimulatedTensor run() {
    for (int64_t device : devices_of(*step_.after.mesh)) run_on(device);
    return std::move(result_);
  }

 private:
  void run_on(int64_t device) {
    known_.assign(elements_, false);
    value_.assign(elements_, 0);
    const bool reduces = step_.kind == StepKind::ReduceScatter || step_.kind == StepKind::AllReduce;
    const ReduceOp op = before_.spec.partial_op;
    const std::vector<int64_t> peers = peers_of(device);
    for (int64_t peer : peers)
      for_each_element(slice_of(before_.spec, before_.shape, peer), before_.shape,
                       [&](int64_t global, int64_t i) {
                         const int64_t value = before_.shards[peer][i];
                         value_[global] =
                             known_[global] && reduces ? combine(op, value_[global], value) : value;
                         known_[global] = true;
                       });
    const ShardSlice slice = slice_of(step_.after, before_.shape, device);
    std::vector<int64_t>& shard = result_.shards[device];
    shard.resize(num_elements(slice.size));
    for_each_element(slice, before_.shape, [&](int64_t global, int64_t i) {
      shard[i] = result_of(device, global, static_cast<int64_t>(peers.size()), reduces);
    });
  }

  int64_t result_of(int64_t device, int64_t global, int64_t parts, bool reduces) const {
    const ReduceOp op = step_.after.partial_op;
    if (!known_[global]) {
      if (step_.kind == StepKind::ShardedToPartial) return identity_of(op);
      throw_internal("{}: device {} lacks element {}", to_string(step_), device, global);
    }
    if (reduces) return finish(before_.spec.partial_op, value_[global], parts);
    if (step_.kind == StepKind::ReplicatedToPartial && !is_idempotent(op)) {
      const Mesh& mesh = *step_.after.mesh;
      if (coordinate(step_.axes, mesh, mesh.position_of(device)) != 0) return identity_of(op);
    }
    return value_[global];
  }

  std::vector<int64_t> peers_of(int64_t device) const {
    switch (step_.kind) {
      case StepKind::AllGather:
      case StepKind::AllToAll:
      case StepKind::ReduceScatter:
      case StepKind::AllReduce:
        return group_of(*before_.spec.mesh, step_.axes, device);
      case StepKind::CollectivePermute:
        return {sources_[device]};
      case StepKind::Scatter:
      case StepKind::Gather:
        return devices_of(*before_.spec.mesh);
      default:
        return {device};
    }
  }

  const SimulatedTensor& before_;
  const ReshardStep& step_;
  int64_t elements_;
  std::vector<int64_t> sources_;
  std::vector<bool> known_;
  std::vector<int64_t> value_;
  SimulatedTensor result_;
};

}  // namespace

SimulatedTensor distribute(std::span<const int64_t> global, const ShardingSpec& spec,
                           const Shape& shape, uint64_t seed) {
  SimulatedTensor tensor{shape, spec, {}};
  const int64_t parts = total_size(spec.partial);
  std::mt19937_64 random(seed);
  std::vector<std::vector<int64_t>> by_part(parts, std::vector<int64_t>(global.size()));
  for (size_t i = 0; i < global.size(); ++i) {
    if (parts == 1) {
      by_part[0][i] = global[i];
      continue;
    }
    const std::vector<int64_t> pieces = decompose(global[i], spec.partial_op, parts, random);
    for (int64_t p = 0; p < parts; ++p) by_part[p][i] = pieces[p];
  }
  tensor.shards.resize(num_shards(*spec.mesh));
  for (int64_t device : devices_of(*spec.mesh)) {
    const int64_t part = part_of(spec, device);
    const ShardSlice slice = slice_of(spec, shape, device);
    tensor.shards[device].resize(num_elements(slice.size));
    for_each_element(slice, shape, [&](int64_t from, int64_t i) {
      tensor.shards[device][i] = by_part[part][from];
    });
  }
  return tensor;
}

SimulatedTensor simulate(const SimulatedTensor& tensor, const ReshardStep& step) {
  if (step.kind == StepKind::Relabel) return {tensor.shape, step.after, tensor.shards};
  return StepRunner(tensor, step).run();
}

SimulatedTensor simulate(const SimulatedTensor& tensor, const ReshardPlan& plan) {
  SimulatedTensor at = tensor;
  for (const ReshardStep& step : plan.steps) at = simulate(at, step);
  return at;
}

std::vector<int64_t> collect(const SimulatedTensor& tensor) {
  const ShardingSpec& spec = tensor.spec;
  const int64_t parts = total_size(spec.partial), elements = num_elements(tensor.shape);
  std::vector<std::vector<int64_t>> by_part(parts, std::vector<int64_t>(elements));
  std::vector<std::vector<bool>> known(parts, std::vector<bool>(elements, false));
  for (int64_t device : devices_of(*spec.mesh)) {
    const int64_t part = part_of(spec, device);
    const ShardSlice slice = slice_of(spec, tensor.shape, device);
    if (static_cast<int64_t>(tensor.shards[device].size()) != num_elements(slice.size))
      throw_internal("device {} holds {} elements, not {}", device, tensor.shards[device].size(),
                     num_elements(slice.size));
    for_each_element(slice, tensor.shape, [&](int64_t global, int64_t i) {
      const int64_t value = tensor.shards[device][i];
      if (known[part][global] && by_part[part][global] != value)
        throw_internal("device {} disagrees with a replica about element {}", device, global);
      by_part[part][global] = value;
      known[part][global] = true;
    });
  }
  std::vector<int64_t> result(elements);
  for (int64_t i = 0; i < elements; ++i) {
    for (int64_t part = 0; part < parts; ++part)
      if (!known[part][i]) throw_internal("element {} of part {} is nowhere", i, part);
    int64_t value = by_part[0][i];
    for (int64_t part = 1; part < parts; ++part)
      value = combine(spec.partial_op, value, by_part[part][i]);
    result[i] = parts == 1 ? value : finish(spec.partial_op, value, parts);
  }
  return result;
}

}  // namespace cleave
