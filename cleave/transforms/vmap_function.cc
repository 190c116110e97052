#include "cleave/transforms/vmap_function.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/transforms/vmap.h"

namespace cleave::vmap_detail {
namespace {

// A mesh among those of the tensors that has the axis.
MeshPtr mesh_with(std::string_view axis, const std::vector<Leaf>& leaves,
                  const std::vector<Tensor>& captures) {
  auto has_axis = [&](const MeshPtr& mesh) {
    return mesh && std::ranges::any_of(mesh->axes, [&](const auto& a) { return a.name == axis; });
  };
  for (const Leaf& leaf : leaves)
    if (has_axis(leaf.tensor.mesh())) return leaf.tensor.mesh();
  for (const Tensor& tensor : captures)
    if (has_axis(tensor.mesh())) return tensor.mesh();
  throw_user(
      "vmap: spmd_axis \"{}\" is an axis of no mesh that an argument is laid out over; shard "
      "one of them",
      axis);
}

// The tensor with the examples over the axis, and other dimensions as they are.
Tensor over_axis(const Tensor& tensor, int64_t dim, const MeshPtr& mesh, std::string_view name) {
  ShardingSpec spec = tensor.sharding();
  if (!spec.mesh) spec = ShardingSpec::closed_replicated(mesh, static_cast<size_t>(tensor.rank()));
  const AxisRef axis = whole_axis(*spec.mesh, name);
  const AxisList wanted{axis};
  if (spec.dims[static_cast<size_t>(dim)].axes == wanted) return tensor;
  auto drop = [&](AxisList& axes) {
    std::erase_if(axes, [&](const AxisRef& ref) { return overlaps(ref, axis); });
  };
  for (DimSpec& other : spec.dims) drop(other.axes);
  drop(spec.replicated);
  spec.dims[static_cast<size_t>(dim)] = {.axes = wanted, .open = false, .priority = {}};
  return tensor.with_sharding(spec);
}

}  // namespace

Axis axis_of(const std::vector<Axis>& axes, size_t i, size_t count, const char* what) {
  if (axes.empty()) return 0;
  if (axes.size() == 1) return axes[0];
  if (axes.size() != count)
    throw_user("vmap: {} has {} entries, and there are {} {}", what, axes.size(), count,
               std::string_view(what) == "in" ? "arguments" : "results");
  return axes[i];
}

Leaf checked_leaf(std::string name, const Tensor& tensor, const Axis& axis) {
  if (!tensor.valid()) throw_user("vmap: {} is empty", name);
  if (!axis) return {std::move(name), tensor, axis};
  const int64_t rank = tensor.rank();
  if (*axis < -rank || *axis >= rank)
    throw_user("vmap: axis {} is outside of {}, {}", *axis, name, to_string(tensor.type()));
  return {std::move(name), tensor, *axis < 0 ? *axis + rank : *axis};
}

int64_t num_examples(const std::vector<Leaf>& leaves, int64_t given) {
  const Leaf* first = nullptr;
  for (const Leaf& leaf : leaves) {
    if (!leaf.axis) continue;
    const int64_t size = leaf.tensor.shape()[static_cast<size_t>(*leaf.axis)];
    if (given > 0 && !first && size != given)
      throw_user("vmap: size is {}, and {}, {}, has {} examples along axis {}", given, leaf.name,
                 to_string(leaf.tensor.type()), size, *leaf.axis);
    if (first && size != given)
      throw_user("vmap: {} has {} examples, and {}, {}, has {} along axis {}", first->name, given,
                 leaf.name, to_string(leaf.tensor.type()), size, *leaf.axis);
    given = size;
    if (!first) first = &leaf;
  }
  if (first && given == 0)
    throw_user("vmap: {}, {}, has no example along axis {}; there must be one at least",
               first->name, to_string(first->tensor.type()), *first->axis);
  if (given <= 0)
    throw_user("vmap: no argument has examples; give an axis of one, or the number as size");
  return given;
}

Tensor stand_in(TraceScope& scope, const Leaf& leaf) {
  if (!leaf.axis) return scope.placeholder_like(leaf.tensor);
  Type type = leaf.tensor.type();
  type.shape.erase(type.shape.begin() + *leaf.axis);
  ShardingSpec spec = leaf.tensor.sharding();
  if (!spec.mesh) return scope.placeholder(std::move(type));
  spec.dims.erase(spec.dims.begin() + *leaf.axis);
  return scope.placeholder(std::move(type), std::move(spec));
}

std::vector<Tensor> run(Traced traced, const std::vector<Leaf>& leaves,
                        const std::vector<Axis>& out, int64_t size, const std::string& spmd_axis) {
  MeshPtr mesh;
  if (!spmd_axis.empty()) {
    mesh = mesh_with(spmd_axis, leaves, traced.captures);
    if (!traced.graph.find_mesh(mesh->name)) traced.graph.meshes.push_back(mesh);
  }
  VmapOptions options{.in_dims = {}, .out_dims = out, .size = size, .spmd_axis = spmd_axis};
  std::vector<Tensor> args;
  for (const Leaf& leaf : leaves) {
    options.in_dims.push_back(leaf.axis);
    args.push_back(leaf.axis && mesh ? over_axis(leaf.tensor, *leaf.axis, mesh, spmd_axis)
                                     : leaf.tensor);
  }
  options.in_dims.resize(leaves.size() + traced.captures.size());
  args.insert(args.end(), traced.captures.begin(), traced.captures.end());
  options.verified = true;
  const std::string name = vmap(traced.graph, traced.function().name, options);
  std::vector<Tensor> results = replay(traced.graph, *traced.graph.find_function(name), args);
  for (size_t i = 0; mesh && i < results.size(); ++i) {
    if (!out[i]) continue;
    const int64_t rank = results[i].rank();
    results[i] = over_axis(results[i], *out[i] < 0 ? *out[i] + rank : *out[i], mesh, spmd_axis);
  }
  return results;
}

}  // namespace cleave::vmap_detail
