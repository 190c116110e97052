#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

#include "cleave/core/sharding.h"

// Random meshes, shapes and specs for property tests.
namespace cleave::random {

struct MeshLimits {
  int most_axes = 3;
  int64_t most_devices = 24;
  bool device_order = false;
};

inline MeshPtr mesh(const MeshLimits& limits = {}) {
  const int rank = *rc::gen::inRange(1, limits.most_axes + 1);
  std::vector<MeshAxis> axes;
  int64_t devices = 1;
  for (int i = 0; i < rank; ++i) {
    const int64_t size = *rc::gen::element<int64_t>(1, 2, 2, 2, 3, 4, 4, 6, 8);
    if (devices * size > limits.most_devices) continue;
    devices *= size;
    axes.push_back({std::string(1, static_cast<char>('a' + i)), size});
  }
  if (axes.empty()) axes.push_back({"a", 2});
  Mesh result(axes, {});
  if (limits.device_order && *rc::gen::arbitrary<bool>()) {
    std::vector<int64_t> ids(result.num_devices());
    std::iota(ids.begin(), ids.end(), 0);
    for (size_t i = ids.size(); i-- > 1;)
      std::swap(ids[i], ids[*rc::gen::inRange<size_t>(0, i + 1)]);
    result.device_ids = ids;
  }
  normalize_and_verify(result);
  return std::make_shared<Mesh>(result);
}

inline Shape shape(int most_rank = 3, int64_t most_size = 13, int64_t least_size = 1) {
  Shape result(*rc::gen::inRange<size_t>(0, most_rank + 1));
  for (int64_t& size : result) size = *rc::gen::inRange<int64_t>(least_size, most_size + 1);
  return result;
}

// Whole axes, or consecutive parts of them, each used at most once.
inline AxisList disjoint_axes(const Mesh& mesh, bool sub_axes) {
  AxisList parts;
  for (size_t i = 0; i < mesh.axes.size(); ++i) {
    const int64_t size = mesh.axes[i].size;
    std::vector<int64_t> cuts;
    for (int64_t d = 2; d < size; ++d)
      if (size % d == 0) cuts.push_back(d);
    if (sub_axes && !cuts.empty() && *rc::gen::inRange(0, 3) == 0) {
      const int64_t cut = *rc::gen::elementOf(cuts);
      parts.push_back({static_cast<int32_t>(i), 1, static_cast<int32_t>(cut)});
      parts.push_back(
          {static_cast<int32_t>(i), static_cast<int32_t>(cut), static_cast<int32_t>(size / cut)});
    } else if (size > 1) {
      parts.push_back(whole_axis(mesh, static_cast<int>(i)));
    }
  }
  for (size_t i = parts.size(); i-- > 1;)
    std::swap(parts[i], parts[*rc::gen::inRange<size_t>(0, i + 1)]);
  return parts;
}

struct SpecLimits {
  bool sub_axes = true;
  bool partial = true;
  bool decorate = false;  // openness, priorities, replicated axes
};

inline ShardingSpec spec(const MeshPtr& mesh, const Shape& shape, const SpecLimits& limits = {}) {
  ShardingSpec result = ShardingSpec::closed_replicated(mesh, shape.size());
  for (const AxisRef& ref : disjoint_axes(*mesh, limits.sub_axes)) {
    const int where = *rc::gen::inRange(0, static_cast<int>(shape.size()) + 3);
    if (where < static_cast<int>(shape.size())) {
      if (shape[where] > 0) append_axis(result.dims[where].axes, ref);
    } else if (where == static_cast<int>(shape.size()) && limits.partial) {
      result.partial.push_back(ref);
    } else if (where == static_cast<int>(shape.size()) + 1 && limits.decorate) {
      result.replicated.push_back(ref);
    }
  }
  for (AxisList* list : {&result.partial, &result.replicated}) {
    std::sort(list->begin(), list->end());
    merge_neighbours(*list);
  }
  if (!result.partial.empty()) result.partial_op = static_cast<ReduceOp>(*rc::gen::inRange(0, 7));
  if (limits.decorate) {
    for (DimSpec& dim : result.dims) {
      dim.open = *rc::gen::arbitrary<bool>();
      if ((dim.open || !dim.axes.empty()) && *rc::gen::arbitrary<bool>())
        dim.priority = *rc::gen::inRange(0, 4);
    }
  }
  verify(result);
  return result;
}

}  // namespace cleave::random
