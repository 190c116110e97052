#include "cleave/analyze/compiled_cost.h"

#include <algorithm>

#include "cleave/analyze/program_cost.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

constexpr double kTileBytes = 16 << 10;  // what a fusion works on at a time

double bytes_of(const Graph& graph, const std::vector<ValueId>& values) {
  double bytes = 0;
  for (ValueId value : values)
    if (graph.type(value).is_tensor() && graph.type(value).has_static_shape())
      bytes += static_cast<double>(graph.type(value).byte_count());
  return bytes;
}

// Without the launch, as often as tiles come.
double in_cache_seconds(OpCost cost, DType dtype, const MachineProfile& profile) {
  const double bytes = cost.bytes_read + cost.bytes_written;
  if (bytes <= 0) return 0;
  const double tiles = bytes / kTileBytes;
  OpCost tile{cost.flops / tiles, cost.bytes_read / tiles, cost.bytes_written / tiles, cost.kernel};
  const double launch = profile.launch_us * 1e-6;
  return tiles * std::max(0.0, op_seconds(tile, dtype, profile) - launch);
}

class CodePricer {
 public:
  CodePricer(const Graph& graph, const MachineProfile& profile)
      : graph_(graph), profile_(profile) {}

  double region(RegionId id) const {
    double seconds = 0;
    for (NodeId node : graph_.region(id).nodes) seconds += price(graph_.node(node));
    return seconds;
  }

 private:
  double price(const Node& node) const {
    if (is<op::Fusion>(node)) return fusion_seconds(graph_, node, profile_);
    if (is<op::Transfer>(node)) return 0;
    if (const auto loop = loop_of(node)) {
      const auto trips = static_cast<double>(trip_count(graph_, node).value_or(1));
      return (trips + 1) * region(loop->condition) + trips * region(loop->body);
    }
    if (flow_of(node) == Flow::Branches) {
      double most = 0;
      for (RegionId branch : node.regions) most = std::max(most, region(branch));
      return most;
    }
    return node_seconds(graph_, node, profile_);
  }

  const Graph& graph_;
  const MachineProfile& profile_;
};

}  // namespace

double fusion_seconds(const Graph& graph, const Node& fusion, const MachineProfile& profile) {
  const DType dtype = graph.result_type(fusion, 0).dtype;
  const OpCost outside{0, bytes_of(graph, fusion.operands), bytes_of(graph, fusion.results)};
  double members = profile.launch_us * 1e-6;
  for (NodeId id : graph.region(fusion.regions[0]).nodes) {
    const Node& node = graph.node(id);
    if (node.results.empty() || !graph.result_type(node, 0).is_tensor()) continue;
    members += in_cache_seconds(op_cost(graph, node), graph.result_type(node, 0).dtype, profile);
  }
  return std::max(op_seconds(outside, dtype, profile), members);
}

CompiledCost compiled_cost(const Executable& executable, const MachineProfile& profile) {
  CompiledCost cost;
  const MachineProfile shared = shared_by(profile, executable.num_devices());
  const Graph& graph = executable.graph();
  const Program* program = executable.program();
  const std::string entry = program ? program->entry : "main";
  cost.compute_seconds = CodePricer(graph, shared).region(graph.find_function(entry)->body);
  if (program) cost.transfer_seconds = program_cost(*program, profile).transfer_seconds;
  return cost;
}

}  // namespace cleave::analyze
