#include "cleave/machine/collective.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/shape.h"

namespace cleave {
namespace {

struct Strided {
  int64_t size;
  int64_t stride;
};

std::vector<Strided> strided(const Mesh& mesh, const AxisList& axes) {
  std::vector<Strided> result;
  for (const AxisRef& ref : axes) {
    int64_t minor = 1;
    for (size_t i = ref.axis + 1; i < mesh.axes.size(); ++i) minor *= mesh.axes[i].size;
    result.push_back({ref.size, minor * (mesh.axes[ref.axis].size / ref.next_pre())});
  }
  return result;
}

GroupLinks shape_of(int64_t ranks, int64_t nodes) { return {ranks, ceil_div(ranks, nodes), nodes}; }

// In row-major order, if every stride divides the node or is a multiple of it, all groups look
// alike.
bool groups_look_alike(const Mesh& mesh, int64_t per_node) {
  if (!mesh.device_ids.empty()) return false;
  int64_t stride = 1;
  for (size_t i = mesh.axes.size(); i-- > 0;) {
    stride *= mesh.axes[i].size;
    if (per_node % stride != 0 && stride % per_node != 0) return false;
  }
  return true;
}

int64_t nodes_of_first_group(const std::vector<Strided>& axes, int64_t per_node) {
  std::set<int64_t> nodes;
  std::vector<int64_t> at(axes.size(), 0);
  int64_t device = 0;
  while (true) {
    nodes.insert(device / per_node);
    size_t i = 0;
    for (; i < axes.size(); ++i) {
      device += axes[i].stride;
      if (++at[i] < axes[i].size) break;
      device -= axes[i].stride * axes[i].size;
      at[i] = 0;
    }
    if (i == axes.size()) return static_cast<int64_t>(nodes.size());
  }
}

int64_t most_nodes_of_a_group(const Mesh& mesh, const std::vector<Strided>& axes,
                              int64_t per_node) {
  std::map<int64_t, std::set<int64_t>> nodes_by_group;
  for (int64_t position = 0; position < mesh.num_devices(); ++position) {
    int64_t group = position;
    for (const Strided& axis : axes) group -= position / axis.stride % axis.size * axis.stride;
    nodes_by_group[group].insert(mesh.device_at(position) / per_node);
  }
  size_t most = 1;
  for (const auto& [group, nodes] : nodes_by_group) most = std::max(most, nodes.size());
  return static_cast<int64_t>(most);
}

double shared_traffic_per_byte(CollectiveKind kind, double ranks) {
  switch (kind) {
    case CollectiveKind::AllGather: {
      constexpr double kOneForAll = 16;  // members of a group that shares what it gathers
      return ranks < kOneForAll ? 2 * (ranks - 1) / ranks : 2 / ranks;
    }
    case CollectiveKind::AllReduce:
    case CollectiveKind::ReduceScatter:
      return 1 + 1 / ranks;
    default:
      return 2;
  }
}

double traffic_per_byte(CollectiveKind kind, double ranks) {
  switch (kind) {
    case CollectiveKind::AllReduce:
      return 2 * (ranks - 1) / ranks;
    case CollectiveKind::Permute:
      return 1;
    default:
      return (ranks - 1) / ranks;
  }
}

double latency_us(CollectiveKind kind, const CollectiveProtocol& protocol,
                  const GroupLinks& links) {
  const double ranks = static_cast<double>(links.ranks), nodes = static_cast<double>(links.nodes);
  const double once = protocol.base_us + (links.nodes > 1 ? protocol.across_base_us : 0);
  if (kind == CollectiveKind::Permute)
    return once + (links.nodes > 1 ? protocol.across_us : protocol.inside_us);
  return once + protocol.ring_us * (ranks - nodes) +
         protocol.inside_us * static_cast<double>(links.per_node - 1) +
         protocol.across_us * (nodes - 1) + protocol.across_log2_us * std::log2(nodes);
}

// An all_reduce inside each node, while a tree over the nodes moves its results. Deep trees are
// pipelined.
double tree_per_byte(const CollectiveProtocol& protocol, const GroupLinks& links) {
  const auto per_node = static_cast<double>(links.per_node);
  double inside = traffic_per_byte(CollectiveKind::AllReduce, per_node);
  if (protocol.in_switch && links.per_node > 1) inside = 1 + 1 / per_node;
  const double across = std::min(6.0, std::log2(static_cast<double>(links.nodes)));
  return std::max(inside / protocol.inside_gbps, across / (per_node * protocol.across_gbps)) * 1e-9;
}

double sent_per_byte(CollectiveKind kind, const CollectiveProtocol& protocol,
                     const GroupLinks& links) {
  const auto ranks = static_cast<double>(links.ranks),
             per_node = static_cast<double>(links.per_node);
  const double inside = protocol.inside_gbps * 1e9, across = protocol.across_gbps * 1e9;
  if (protocol.shared_memory) return shared_traffic_per_byte(kind, ranks) / inside;
  if (protocol.tree && kind == CollectiveKind::AllReduce) return tree_per_byte(protocol, links);
  if (links.nodes == 1) return traffic_per_byte(kind, ranks) / inside;
  if (kind == CollectiveKind::AllToAll)
    return (per_node - 1) / ranks / inside + (ranks - per_node) / ranks / across;
  if (kind == CollectiveKind::Permute) return 1 / across;
  return traffic_per_byte(kind, ranks) / std::min(inside, per_node * across);
}

CostLine line_of(CollectiveKind kind, const CollectiveProtocol& protocol, const GroupLinks& links) {
  const double own = protocol.local_gbps > 0 && kind != CollectiveKind::Permute
                         ? 1 / (static_cast<double>(links.ranks) * protocol.local_gbps * 1e9)
                         : 0;
  return {latency_us(kind, protocol, links) * 1e-6, sent_per_byte(kind, protocol, links) + own};
}

std::vector<CostLine> lines_of(CollectiveKind kind, const GroupLinks& links,
                               const MachineProfile& profile) {
  const auto& protocols = profile.collectives[static_cast<size_t>(kind)];
  if (protocols.empty())
    throw_user("machine profile '{}' has no protocol for {}", profile.name, name(kind));
  std::vector<CostLine> lines;
  for (const CollectiveProtocol& protocol : protocols)
    lines.push_back(line_of(kind, protocol, links));
  return lines;
}

// Those that are the least for some size, in the order of their sizes.
std::vector<CostLine> least_lines(std::vector<CostLine> lines) {
  std::sort(lines.begin(), lines.end(), [](const CostLine& a, const CostLine& b) {
    return a.latency != b.latency ? a.latency < b.latency : a.per_byte < b.per_byte;
  });
  std::vector<CostLine> least;
  for (const CostLine& line : lines) {
    if (!least.empty() && line.per_byte >= least.back().per_byte) continue;
    while (least.size() > 1) {
      const CostLine &a = least[least.size() - 2], &b = least.back();
      // b is the least between its meeting with a and that with the new line, if there is anything.
      if ((line.latency - a.latency) * (a.per_byte - b.per_byte) >
          (b.latency - a.latency) * (a.per_byte - line.per_byte))
        break;
      least.pop_back();
    }
    least.push_back(line);
  }
  return least;
}

// A ring along one axis with links of its own; `share` is the part of the buffer that is left to
// it.
CostLine line_of(CollectiveKind kind, const AxisLink& link, int64_t size, double share) {
  const double steps = kind == CollectiveKind::Permute     ? 1
                       : kind == CollectiveKind::AllReduce ? 2.0 * (size - 1)
                                                           : size - 1.0;
  return {steps * link.latency_us * 1e-6,
          share * traffic_per_byte(kind, static_cast<double>(size)) / (link.gbps * 1e9)};
}

// Phases that shrink the buffer for those after them: an all_gather ends on the fastest axis, a
// reduce_scatter begins there; the time is the same. An all_reduce scatters and gathers around it.
bool phases_shrink(CollectiveKind kind) {
  return kind == CollectiveKind::AllGather || kind == CollectiveKind::ReduceScatter ||
         kind == CollectiveKind::AllReduce;
}

}  // namespace

GroupLinks group_links(const Mesh& mesh, const AxisList& axes, const MachineProfile& profile) {
  const int64_t ranks = total_size(axes);
  if (ranks <= 1) return {};
  if (mesh.num_devices() <= profile.devices_per_node && mesh.device_ids.empty())
    return shape_of(ranks, 1);
  const std::vector<Strided> parts = strided(mesh, axes);
  const int64_t nodes = groups_look_alike(mesh, profile.devices_per_node)
                            ? nodes_of_first_group(parts, profile.devices_per_node)
                            : most_nodes_of_a_group(mesh, parts, profile.devices_per_node);
  return shape_of(ranks, nodes);
}

double collective_traffic(CollectiveKind kind, int64_t ranks, bool shared_memory) {
  const auto n = static_cast<double>(ranks);
  return shared_memory ? shared_traffic_per_byte(kind, n) : traffic_per_byte(kind, n);
}

double CollectiveCost::seconds(double bytes) const {
  if (lines_.empty()) return 0;
  double least = lines_[0].latency + lines_[0].per_byte * bytes;
  for (size_t i = 1; i < lines_.size(); ++i)
    least = std::min(least, lines_[i].latency + lines_[i].per_byte * bytes);
  return least;
}

CollectiveCost collective_cost(CollectiveKind kind, const GroupLinks& links,
                               const MachineProfile& profile) {
  if (links.ranks <= 1) return {};
  std::vector<CostLine> lines = lines_of(kind, links, profile);
  // A device may also complete everything and keep its part: trees are quicker than rings on small
  // buffers. And an all_reduce can be run as its two halves.
  if (kind == CollectiveKind::ReduceScatter) {
    const auto whole = lines_of(CollectiveKind::AllReduce, links, profile);
    lines.insert(lines.end(), whole.begin(), whole.end());
  } else if (kind == CollectiveKind::AllReduce) {
    const auto gathers = lines_of(CollectiveKind::AllGather, links, profile);
    for (const CostLine& scatter : lines_of(CollectiveKind::ReduceScatter, links, profile))
      for (const CostLine& gather : gathers)
        lines.push_back({scatter.latency + gather.latency, scatter.per_byte + gather.per_byte});
  }
  return CollectiveCost(least_lines(std::move(lines)));
}

namespace {

// Without its launch.
CollectiveCost cost_over_axes(CollectiveKind kind, const Mesh& mesh, const AxisList& axes,
                              const MachineProfile& profile) {
  if (profile.axis_links.empty())
    return collective_cost(kind, group_links(mesh, axes, profile), profile);
  struct Phase {
    AxisLink link;
    int64_t size;
  };
  std::vector<Phase> phases;
  AxisList rest;
  for (const AxisRef& ref : axes) {
    auto links = profile.axis_links.find(mesh.axes[ref.axis].name);
    if (links == profile.axis_links.end())
      rest.push_back(ref);
    else
      phases.push_back({links->second[static_cast<size_t>(kind)], ref.size});
  }
  std::vector<CostLine> lines = {{0, 0}};
  double share = 1;
  if (!rest.empty()) {
    lines = collective_cost(kind, group_links(mesh, rest, profile), profile).lines();
    if (phases_shrink(kind)) share /= static_cast<double>(total_size(rest));
  }
  std::sort(phases.begin(), phases.end(), [](const Phase& a, const Phase& b) {
    return a.link.gbps != b.link.gbps ? a.link.gbps > b.link.gbps : a.size < b.size;
  });
  for (const Phase& phase : phases) {
    const CostLine added = line_of(kind, phase.link, phase.size, share);
    for (CostLine& line : lines) {
      line.latency += added.latency;
      line.per_byte += added.per_byte;
    }
    if (phases_shrink(kind)) share /= static_cast<double>(phase.size);
  }
  return CollectiveCost(std::move(lines));
}

}  // namespace

CollectiveCost collective_cost(CollectiveKind kind, const Mesh& mesh, const AxisList& axes,
                               const MachineProfile& profile) {
  const CollectiveCost alone = cost_over_axes(kind, mesh, axes, profile);
  std::vector<CostLine> lines = alone.lines();
  // A measured collective follows another one of its kind; in a program it is launched.
  if (total_size(axes) > 1)
    for (CostLine& line : lines) line.latency += profile.executor.launch_us * 1e-6;
  return CollectiveCost(std::move(lines));
}

double collective_seconds(CollectiveKind kind, double bytes, const Mesh& mesh, const AxisList& axes,
                          const MachineProfile& profile) {
  return collective_cost(kind, mesh, axes, profile).seconds(bytes);
}

}  // namespace cleave
