#include "cleave/spmd/random_shardings.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/manual_axes.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

bool can_shard(const Type& type) {
  return type.is_tensor() && type.has_static_shape() && has_kernels(type.dtype);
}

// The axis cut at random into sub-axes of its prime factors.
AxisList cut_axis(RandomSource& random, const Mesh& mesh, int axis) {
  const auto size = static_cast<int32_t>(mesh.axes[axis].size);
  AxisList parts;
  int32_t pre = 1;
  while (pre < size) {
    int32_t part = 1;
    do {
      int32_t prime = 2;
      while ((size / (pre * part)) % prime != 0) ++prime;
      part *= prime;
    } while (pre * part < size && random.chance(0.7));
    parts.push_back({axis, pre, part});
    pre *= part;
  }
  return parts;
}

ReduceOp random_reduction(RandomSource& random, DType dtype) {
  if (dtype == DType::Bool) return random.chance(0.5) ? ReduceOp::Or : ReduceOp::And;
  if (is_complex(dtype) || random.chance(0.5)) return ReduceOp::Sum;
  return random.chance(0.5) ? ReduceOp::Max : ReduceOp::Min;
}

class Sharder {
 public:
  Sharder(Graph& graph, MeshPtr mesh, uint64_t seed)
      : graph_(graph),
        mesh_(std::move(mesh)),
        random_(seed),
        uses_(graph),
        manual_around_(manual_axes_around(graph)) {}

  void function(Function& function, bool entry) {
    if (!function.body.valid()) return;
    if (entry) {
      attributes(function.arg_attrs, function.arg_types);
      attributes(function.result_attrs, function.result_types);
    }
    const auto manual = manual_around_.find(function.name);
    region(function.body, manual == manual_around_.end() ? AxisNames() : manual->second);
  }

 private:
  void attributes(std::vector<AttrDict>& attrs, const std::vector<Type>& types) {
    attrs.resize(types.size());
    for (size_t i = 0; i < types.size(); ++i)
      if (can_shard(types[i]))
        attrs[i].set("sdy.sharding", ShardingAttr{random_spec(random_, mesh_, types[i], true)});
  }

  void region(RegionId id, const AxisNames& manual) {
    const std::vector<NodeId> nodes = graph_.region(id).nodes;
    for (NodeId node : nodes) {
      const OpDef* def = graph_.node(node).def;
      if (def->has(kTerminator)) continue;
      if (def->has(kDataFlow)) {
        const std::vector<RegionId> inner = graph_.node(node).regions;
        const AxisNames inside = manual_axes_inside(graph_.node(node), manual);
        for (RegionId child : inner) region(child, inside);
      }
      const std::vector<ValueId> results = graph_.node(node).results;
      for (ValueId value : results)
        if (can_shard(graph_.type(value)) && random_.chance(0.6)) constrain(node, value, manual);
    }
  }

  void constrain(NodeId producer, ValueId value, const AxisNames& manual) {
    const Type type = graph_.type(value);
    AttrDict attrs;
    ShardingSpec spec = random_spec(random_, mesh_, type, true);
    if (!manual.empty()) drop_axes(spec, manual);
    attrs.set("sharding", ShardingAttr{std::move(spec)});
    const NodeId node =
        graph_.add_node("sdy.sharding_constraint", {value}, {type}, std::move(attrs));
    graph_.insert_after(producer, node);
    const ValueId constrained = graph_.node(node).results[0];
    for (const Use& use : uses_.uses(value))
      graph_.node(use.node).operands[use.operand] = constrained;
  }

  // Values inside a manual computation are local along its axes already.
  void drop_axes(ShardingSpec& spec, const AxisNames& manual) const {
    const auto is_manual = [&](const AxisRef& ref) {
      return manual.contains(mesh_->axes[ref.axis].name);
    };
    for (DimSpec& dim : spec.dims) std::erase_if(dim.axes, is_manual);
    std::erase_if(spec.partial, is_manual);
  }

  Graph& graph_;
  MeshPtr mesh_;
  RandomSource random_;
  UseMap uses_;
  std::map<std::string, AxisNames> manual_around_;
};

}  // namespace

uint64_t RandomSource::next() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

bool RandomSource::chance(double probability) {
  return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
}

ShardingSpec random_spec(RandomSource& random, const MeshPtr& mesh, const Type& type,
                         bool partial) {
  ShardingSpec spec = ShardingSpec::closed_replicated(mesh, type.rank());
  spec.partial_op = random_reduction(random, type.dtype);
  AxisList parts;
  for (size_t axis = 0; axis < mesh->axes.size(); ++axis)
    for (const AxisRef& ref : cut_axis(random, *mesh, static_cast<int>(axis))) parts.push_back(ref);
  for (size_t i = parts.size(); i > 1; --i)
    std::swap(parts[i - 1], parts[random.below(static_cast<int64_t>(i))]);
  for (const AxisRef& ref : parts) {
    if (partial && random.chance(0.1)) {
      spec.partial.push_back(ref);
    } else if (type.rank() > 0 && random.chance(0.75)) {
      const auto d = random.below(static_cast<int64_t>(type.rank()));
      if (type.shape[d] > 0) append_axis(spec.dims[d].axes, ref);
    }
  }
  std::sort(spec.partial.begin(), spec.partial.end());
  merge_neighbours(spec.partial);
  verify(spec, type.shape);
  return spec;
}

void shard_randomly(Graph& graph, std::string_view entry, const MeshPtr& mesh, uint64_t seed) {
  Sharder sharder(graph, mesh, seed);
  for (Function& function : graph.functions) sharder.function(function, function.name == entry);
}

}  // namespace cleave
