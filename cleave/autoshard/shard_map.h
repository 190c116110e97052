#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/autoshard/autoshard.h"
#include "cleave/autoshard/tree_spec.h"
#include "cleave/runtime/manual_scope.h"
#include "cleave/runtime/ops_collective.h"
#include "cleave/runtime/partition_spec.h"
#include "cleave/transforms/trace.h"

namespace cleave {

enum class ShardMapMode : uint8_t {
  Auto,    // f is written for whole tensors; propagation decides what the specs leave open. Axes
           // that an operand of an op is to keep replicated are taken by none of its results
  Manual,  // f sees its device's part and calls collectives (cleave/runtime/ops_collective.h); a
           // leaf without a spec is replicated
  Plan,    // as Auto, by the best plan in which the specs hold: autoshard.h
};

struct ShardMapOptions {
  // By argument and by result; missing ones have no spec. A call with no spec, no tensor on a mesh
  // and no layout or collective in the function is a UserError.
  std::vector<TreeSpec> in = {}, out = {};
  ShardMapMode mode = ShardMapMode::Auto;
  // Manual: a result that its spec calls the same on all devices along an axis must be the same: it
  // is computed from such values, or reduced or gathered over the axis.
  bool check_replication = true;
  // Plan: what the plan is for, as in AutoshardOptions.
  std::string machine = "default", memory = {};
};

namespace shard_map_detail {

Tensor placed(const Tensor& leaf, const std::optional<PartitionSpec>& spec, const MeshPtr& mesh);
std::vector<Tensor> run_auto(Trace trace, std::span<const Tensor> leaves, const MeshPtr& mesh,
                             const std::vector<std::optional<PartitionSpec>>& in,
                             const std::vector<std::optional<PartitionSpec>>& out);
Tensor local_position();  // tensor<1xi32>; its value does not matter
// A tensor of the type that a device sees; its value does not matter.
Tensor local_like(const Tensor& leaf, const std::optional<PartitionSpec>& spec,
                  const MeshPtr& mesh);
std::vector<Tensor> run_manual(const Trace& body, std::span<const Tensor> leaves,
                               const std::vector<std::optional<PartitionSpec>>& in,
                               const std::vector<std::optional<PartitionSpec>>& out,
                               const MeshPtr& mesh, bool check);

}  // namespace shard_map_detail

// f over a mesh.
//   shard_map(f, mesh, {.in = {P("data", {}), specs}, .out = {P("data", {})}})
template <typename F>
auto shard_map(F f, const Mesh& mesh, ShardMapOptions options) {
  const auto planned = autoshard(
      f, mesh,
      {.machine = options.machine, .memory = options.memory, .in = options.in, .out = options.out});
  return [f = std::move(f), planned, mesh = shared_mesh(mesh),
          options = std::move(options)](const auto&... args) {
    using namespace shard_map_detail;
    using namespace spec_detail;
    using R = std::decay_t<std::invoke_result_t<const F&, const decltype(args)&...>>;
    if (options.mode == ShardMapMode::Plan) return R(planned(args...));
    LeafSpecs in;
    size_t index = 0;
    check_count("argument", options.in.size(), sizeof...(args));
    (add_specs(in, options.in, index++, args), ...);
    std::vector<Tensor> leaves = trace_detail::flatten(args...);
    const bool manual = options.mode == ShardMapMode::Manual;
    std::vector<Tensor> seen;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!manual) leaves[i] = placed(leaves[i], in[i], mesh);
      seen.push_back(manual ? local_like(leaves[i], in[i], mesh) : leaves[i]);
    }
    size_t next = 0;
    auto inside = [&](const auto& tree) {
      return map_leaves([&](const Tensor&) { return seen[next++]; }, tree);
    };
    const std::tuple<std::decay_t<decltype(args)>...> trees{inside(args)...};
    // In manual mode the body also takes the device's position.
    const Tensor position = local_position();
    auto call = std::apply(
        [&](const auto&... a) {
          if (!manual) return trace_detail::trace_call(f, a...);
          return trace_detail::trace_call(
              [&](const Tensor& where, const auto&... inner) {
                const ManualScope scope(mesh, where);
                return f(inner...);
              },
              position, a...);
        },
        trees);
    const auto out = result_specs(options.out, call.result);
    const std::vector<Tensor> results =
        manual ? run_manual(call.trace, leaves, in, out, mesh, options.check_replication)
               : run_auto(std::move(call.trace), leaves, mesh, in, out);
    return R(with_leaves(std::move(call.result), results));
  };
}

}  // namespace cleave
