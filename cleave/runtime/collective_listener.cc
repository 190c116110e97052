#include "cleave/runtime/collective_listener.h"

#include <algorithm>
#include <string_view>

#include "cleave/core/axis.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/collective/process_groups.h"

namespace cleave {
namespace {

constexpr std::string_view kPrefix = "stablehlo.";

bool is_collective(const Node& node) {
  return node.def->has(kCollective) && node.name().starts_with(kPrefix);
}

// The axes along which members of a group differ.
std::string axes_text(const Mesh& mesh, const std::vector<int64_t>& group) {
  AxisList axes;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    auto at = [&](int64_t device) { return mesh.coordinates(mesh.position_of(device))[axis]; };
    if (std::any_of(group.begin(), group.end(),
                    [&](int64_t device) { return at(device) != at(group.front()); }))
      axes.push_back(whole_axis(mesh, static_cast<int>(axis)));
  }
  return to_string(axes, mesh);
}

// What one device gets from the others of a group of n.
int64_t bytes_received(std::string_view kind, int64_t n, int64_t operand, int64_t result) {
  if (kind == "all_reduce") return (n - 1) * operand;
  if (kind == "all_gather") return result - operand;
  if (kind == "reduce_scatter") return (n - 1) * result;
  if (kind == "all_to_all") return operand / n * (n - 1);
  return result;
}

}  // namespace

bool calls_collectives(const Graph& graph) {
  bool found = false;
  graph.walk([&](NodeId id) { found |= is_collective(graph.node(id)); });
  return found;
}

void CollectiveListener::executed(const Graph& graph, const Node& node, int64_t device,
                                  std::span<const Array> /*results*/, double, double) {
  if (!is_collective(node) || node.operands.empty() || node.results.empty()) return;
  if (device_ < 0) device_ = device;
  if (device != device_) return;
  CommEvent event;
  event.kind = node.name().substr(kPrefix.size());
  event.asked_by = "the program";
  std::vector<int64_t> group;
  if (const DeviceGrid grid{1, mesh_.num_devices()}; event.kind == "collective_permute") {
    for (const auto& [source, target] : device_pairs(node, channel_mode(node), grid, device))
      if (source == device || target == device) group.insert(group.end(), {source, target});
  } else {
    const bool by_channel = event.kind == "all_to_all" || event.kind == "collective_broadcast";
    group = device_group(node, by_channel ? channel_mode(node) : global_mode(node), grid, device)
                .value_or(group);
  }
  if (group.empty()) return;
  event.axes = axes_text(mesh_, group);
  event.bytes = bytes_received(event.kind, static_cast<int64_t>(group.size()),
                               graph.operand_type(node, 0).byte_count(),
                               graph.result_type(node).byte_count());
  event.total_bytes = event.bytes * mesh_.num_devices();
  events_.push_back(std::move(event));
}

}  // namespace cleave
