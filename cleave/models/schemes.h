#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/autoshard/tree_spec.h"
#include "cleave/core/mesh.h"
#include "cleave/runtime/partition_spec.h"
#include "cleave/transforms/tree.h"

namespace cleave::models {

// The ways of sharding that textbooks name, as a spec for every weight by its name and shape. The
// axis "data" (else the first) takes examples, the axis "model" (else the last) takes features.
//
//   replicated   everything everywhere
//   data         weights everywhere, examples over data
//   megatron     columns of q, k, v, gate, up and rows of o, down over model; experts over model
//   fsdp         examples over data, and every weight over data along the first dimension that it
//                divides
//   mixed        megatron over model, examples over data
//   experts      examples and experts over data: tokens travel to their experts and back
enum class Scheme : uint8_t { Replicated, Data, Megatron, Fsdp, Mixed, Experts };
const std::vector<std::string>& scheme_names();
Scheme scheme_from(std::string_view name);  // throws UserError that lists the names

// The axis that takes examples.
std::string data_axis(const Mesh& mesh);
PartitionSpec weight_spec(Scheme scheme, const Mesh& mesh, std::string_view leaf,
                          const Shape& shape);
// Specs of inputs, whose first dimension is that of examples.
PartitionSpec input_spec(Scheme scheme, const Mesh& mesh);

// Specs for shard_map, by name, for weights or for what an optimizer keeps for them.
template <typename T>
TreeSpec tree_spec(const T& params, Scheme scheme, const Mesh& mesh) {
  TreeSpec specs;
  for_each_leaf(params, [&](const std::string& name, const Tensor& leaf) {
    specs.by_name[name] = weight_spec(scheme, mesh, name, leaf.shape());
  });
  return specs;
}

template <typename T>
T shard_weights(T params, Scheme scheme, const Mesh& mesh) {
  for_each_leaf(params, [&](const std::string& name, Tensor& leaf) {
    leaf = leaf.shard(mesh, weight_spec(scheme, mesh, name, leaf.shape()));
  });
  return params;
}

}  // namespace cleave::models
