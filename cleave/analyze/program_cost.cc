#include "cleave/analyze/program_cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cleave/analyze/asked_collectives.h"
#include "cleave/analyze/kernels.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/graph/location.h"
#include "cleave/graph/op_def.h"
#include "cleave/machine/collective.h"
#include "cleave/ops/collective/process_groups.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/op.h"
#include "cleave/reshard/reshard.h"
#include "cleave/spmd/device_groups.h"

namespace cleave::analyze {
namespace {

DType compute_dtype(const Graph& graph, const Node& node) {
  for (const auto* values : {&node.operands, &node.results})
    for (ValueId value : *values)
      if (graph.type(value).is_tensor()) return graph.type(value).dtype;
  return DType::F32;
}

AxisList sharding_axes(const ShardingSpec& spec) {
  AxisList axes;
  for (const DimSpec& dim : spec.dims) axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  std::sort(axes.begin(), axes.end());
  return axes;
}

// What a device of the middle gets from its neighbours: more than those at the border.
int64_t halo_bytes(const Layout& from, const Layout& to, const Type& type) {
  int64_t most = 0;
  const int64_t devices = from.spec.mesh->num_devices();
  for (int64_t device = 0; device < devices; ++device) {
    const ShardSlice mine = from.box(type.shape, device), wanted = to.box(type.shape, device);
    int64_t kept = 1;
    for (size_t d = 0; d < mine.size.size(); ++d) {
      const int64_t begin = std::max(mine.offset[d], wanted.offset[d]);
      const int64_t end =
          std::min(mine.offset[d] + mine.size[d], wanted.offset[d] + wanted.size[d]);
      kept *= std::max<int64_t>(0, end - begin);
    }
    most = std::max(most, (num_elements(wanted.size) - kept) * byte_size(type.dtype));
  }
  return most;
}

using Groups = std::vector<std::vector<int64_t>>;

Groups sorted(Groups groups) {
  for (std::vector<int64_t>& group : groups) std::sort(group.begin(), group.end());
  std::sort(groups.begin(), groups.end());
  return groups;
}

// The axes along which groups of devices lie; "groups of 4" if they lie along no axes.
std::string text_of_groups(const Mesh& mesh, const Groups& groups, int64_t ranks) {
  AxisList axes;
  const std::vector<int64_t> first = mesh.coordinates(mesh.position_of(groups.at(0).at(0)));
  for (int axis = 0; axis < static_cast<int>(mesh.axes.size()); ++axis)
    if (std::any_of(groups[0].begin(), groups[0].end(), [&](int64_t device) {
          return mesh.coordinates(mesh.position_of(device))[static_cast<size_t>(axis)] !=
                 first[static_cast<size_t>(axis)];
        }))
      axes.push_back(whole_axis(mesh, axis));
  if (!axes.empty() && sorted(groups) == sorted(groups_along(mesh, axes)))
    return to_string(axes, mesh);
  return fmt::format("groups of {}", ranks);
}

// A collective that the user wrote, in a manual computation: its groups are lists of devices.
TransferCost user_collective_cost(const Graph& graph, const Node& node, CollectiveKind kind,
                                  const Mesh& mesh, const MachineProfile& profile) {
  const int64_t devices = mesh.num_devices();
  TransferCost cost;
  cost.kind = name(kind);
  const bool permutes = is<op::CollectivePermute>(node);
  const bool global = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllReduce ||
                      kind == CollectiveKind::ReduceScatter;
  GroupLinks links{2, 2, 1};
  Groups groups;
  if (permutes) {
    for (const auto& [from, to] : device_pairs(node, channel_mode(node), {1, devices}, 0))
      if (from / profile.devices_per_node != to / profile.devices_per_node) links = {2, 1, 2};
  } else {
    groups = device_groups(node, global ? global_mode(node) : channel_mode(node), {1, devices});
    links = {1, 1, 1};
    for (const std::vector<int64_t>& group : groups) {
      std::map<int64_t, int64_t> nodes;
      for (int64_t device : group) ++nodes[device / profile.devices_per_node];
      const auto ranks = static_cast<int64_t>(group.size());
      const auto count = static_cast<int64_t>(nodes.size());
      if (ranks >= links.ranks && count >= links.nodes)
        links = {ranks, ceil_div(ranks, count), count};
    }
  }
  double bytes = 0, operands = 0;
  for (size_t i = 0; i < node.operands.size() && i < node.results.size(); ++i) {
    const int64_t operand = graph.operand_type(node, i).byte_count();
    operands += static_cast<double>(operand);
    bytes += static_cast<double>(std::max(operand, graph.result_type(node, i).byte_count()));
  }
  cost.axes = groups.empty() || groups[0].empty() ? fmt::format("groups of {}", links.ranks)
                                                  : text_of_groups(mesh, groups, links.ranks);
  cost.bytes = static_cast<int64_t>(received_bytes(kind, operands, links.ranks));
  cost.seconds = collective_cost(kind, links, profile).seconds(bytes);
  cost.nodes = links.nodes;
  return cost;
}

class Pricer {
 public:
  Pricer(const Program& program, const MachineProfile& profile, int64_t trips)
      : program_(program),
        trips_(trips),
        profile_(shared_by(profile, program.mesh->num_devices())),
        own_(instantiate_shapes(program, program.mesh->device_at(0))),
        instance_(own_),
        by_node_(program.graph.num_nodes()) {}

  ProgramCost run() {
    const Function& entry = *instance_.graph.find_function(program_.entry);
    region(entry.body, 1);
    add_host(entry);
    std::map<std::pair<std::string, std::string>, CollectiveCostSum> sums;
    for (NodeId id : order_) {
      const NodeCost& node = by_node_[id.index];
      result_.seconds += node.seconds;
      result_.nodes.push_back(node);
      if (!node.is_transfer) continue;
      const double seconds = node.seconds - node.spill_seconds;
      result_.transfer_seconds += seconds;
      CollectiveCostSum& sum = sums[{node.transfer.kind, node.transfer.axes}];
      sum.kind = node.transfer.kind;
      sum.axes = node.transfer.axes;
      sum.executions += node.executions;
      sum.bytes += static_cast<double>(node.transfer.bytes) * node.executions;
      sum.seconds += seconds;
    }
    for (double seconds : result_.compute) result_.compute_seconds += seconds;
    for (auto& [key, sum] : sums) result_.transfers.push_back(std::move(sum));
    std::stable_sort(result_.transfers.begin(), result_.transfers.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    return std::move(result_);
  }

 private:
  void region(RegionId id, double times) {
    for (NodeId node : instance_.graph.region(id).nodes) visit(node, times);
  }

  void visit(NodeId id, double times) {
    const Graph& graph = instance_.graph;
    const Node& node = graph.node(id);
    switch (flow_of(node)) {
      case Flow::Call:
        return call(node, times);
      case Flow::Loop:
        return loop(node, times);
      case Flow::Branches:
        return branches(node, times);
      case Flow::Manual:
      case Flow::Named:
        return region(node.regions[0], times);
      case Flow::Barrier:
        return;
      case Flow::None:
      case Flow::Scan:
        return price(id, times);
    }
  }

  void call(const Node& node, double times) {
    const Function* function = callee(instance_.graph, node);
    if (function && function->body.valid()) region(function->body, times);
  }

  void loop(const Node& node, double times) {
    const std::optional<int64_t> known = trip_count(instance_.graph, node);
    if (!known) ++result_.unknown_loops;
    const auto trips = static_cast<double>(known.value_or(trips_));
    const LoopRegions parts = *loop_of(node);
    region(parts.condition, times * (trips + 1));
    region(parts.body, times * trips);
  }

  void branches(const Node& node, double times) {
    std::vector<double> seconds;
    for (RegionId branch : node.regions) {
      Pricer alone(program_, instance_, profile_, trips_);
      alone.region(branch, times);
      seconds.push_back(0);
      for (NodeId id : alone.order_) seconds.back() += alone.by_node_[id.index].seconds;
    }
    if (!seconds.empty()) region(node.regions[dearest_of(seconds)], times);
  }

  Pricer(const Program& program, const Instance& instance, const MachineProfile& profile,
         int64_t trips)
      : program_(program),
        trips_(trips),
        profile_(profile),
        instance_(instance),
        by_node_(program.graph.num_nodes()) {}

  // At the end of the entry.
  void add_host(const Function& entry) {
    const double seconds = step_seconds(instance_.graph, entry.body, profile_);
    const NodeId origin = instance_.origin[instance_.graph.terminator(entry.body).index];
    if (seconds <= 0 || !origin.valid()) return;
    NodeCost& end = entry_of(origin);
    end.executions = 1;
    end.seconds += seconds;
    result_.compute[static_cast<size_t>(KernelClass::Elementwise)] += seconds;
  }

  NodeCost& entry_of(NodeId origin) {
    NodeCost& entry = by_node_[origin.index];
    if (!entry.node.valid()) {
      entry.node = origin;
      entry.executions = 0;
      order_.push_back(origin);
    }
    return entry;
  }

  // A change of layout of a value that is not in memory.
  double spilled(NodeId origin) const {
    const Node& transfer = program_.graph.node(origin);
    if (!transfer.attrs.has(kSpillsAttr)) return 0;
    const ValueId value = transfer.operands[0];
    return spill_seconds(spill_bytes(program_.graph, behind_transfers(program_.graph, value)),
                         program_.layout(value).spec, profile_);
  }

  void price(NodeId id, double times) {
    const Graph& graph = instance_.graph;
    const Node& node = graph.node(id);
    const NodeId origin = instance_.origin[id.index];
    if (!origin.valid()) return;
    TransferCost transfer;
    double seconds = 0, spill = 0;
    bool moves = true;
    if (is<op::Transfer>(node)) {
      transfer = priced_transfer(origin);
      spill = spilled(origin);
      result_.compute[static_cast<size_t>(KernelClass::Elementwise)] += spill * times;
      seconds = transfer.seconds + spill;
    } else if (node.def->collective) {
      transfer = user_collective_cost(graph, node, *node.def->collective, *program_.mesh, profile_);
      seconds = transfer.seconds;
    } else {
      moves = false;
      const OpCost cost = op_cost(graph, node);
      result_.flops += cost.flops * times;
      seconds = node_seconds(program_, instance_, id, profile_);
      if (seconds > 0) result_.compute[static_cast<size_t>(cost.kernel)] += seconds * times;
      transfer.seconds = 0;
    }
    if (seconds <= 0) return;
    NodeCost& entry = entry_of(origin);
    entry.spill_seconds += spill * times;
    if (moves) {
      entry.is_transfer = true;
      entry.transfer = std::move(transfer);
    } else if (seconds * times >= entry.seconds) {
      entry.kernel = op_cost(graph, node).kernel;
    }
    if (first_of_origin(id)) entry.executions += times;
    entry.seconds += seconds * times;
  }

  // An op may become several nodes of a device; they are one execution.
  bool first_of_origin(NodeId id) {
    const NodeId origin = instance_.origin[id.index];
    return id.index == 0 || instance_.origin[id.index - 1] != origin ||
           by_node_[origin.index].executions == 0;
  }

  const TransferCost& priced_transfer(NodeId origin) {
    auto it = prices_.find(origin);
    if (it == prices_.end())
      it = prices_.emplace(origin, transfer_cost(program_, origin, profile_)).first;
    return it->second;
  }

  const Program& program_;
  const int64_t trips_;  // of loops that do not say
  const MachineProfile profile_;
  const Instance own_;  // empty if another pricer's is used
  const Instance& instance_;
  std::vector<NodeCost> by_node_;  // by the Program's nodes
  std::vector<NodeId> order_;
  std::map<NodeId, TransferCost> prices_;
  ProgramCost result_;
};

std::string row(const std::string& what, double seconds, double total) {
  return fmt::format("  {:<26} {:>10} {:>5.1f}%", what, seconds_text(seconds),
                     total > 0 ? 100 * seconds / total : 0);
}

}  // namespace

double node_seconds(const Graph& graph, const Node& node, const MachineProfile& profile) {
  if (const std::optional<KernelUse> use = kernel_use(node))
    return kernel_seconds(graph, node, *use, profile);
  return op_seconds(op_cost(graph, node), compute_dtype(graph, node), profile);
}

bool is_inside_kernel(const Program& program, const Instance& instance, NodeId id) {
  const Node& node = instance.graph.node(id);
  const NodeId origin = instance.origin[id.index];
  if (!origin.valid() || !program.graph.node(origin).attrs.has(kKernelAttr)) return false;
  const OpDef& def = *node.def;
  if (&def == program.graph.node(origin).def && kernel_use(node)) return false;
  return def.has(kElementwise) || def.has(kViewLike) || def.has(kRepeats) ||
         def.has(kConstantLike) || def.has(kWindow);
}

double node_seconds(const Program& program, const Instance& instance, NodeId id,
                    const MachineProfile& profile) {
  if (is_inside_kernel(program, instance, id)) return 0;
  return node_seconds(instance.graph, instance.graph.node(id), profile);
}

TransferCost transfer_cost(const Program& program, NodeId id, const MachineProfile& profile) {
  const Node& node = program.graph.node(id);
  const Layout& from = program.layout(node.operands[0]);
  const Layout& to = program.layout(node.results[0]);
  const Type& type = program.graph.operand_type(node, 0);
  TransferCost cost;
  cost.kind = node.attrs.get_string("cleave.step");
  cost.axes = node.attrs.get_string("cleave.axes");
  if (const auto kind = step_kind_from_name(cost.kind)) {
    const ReshardStep step = make_step(*kind, from.spec, to.spec, type.shape, type.dtype, profile);
    cost.bytes = step.bytes;
    cost.seconds = step.seconds;
    return cost;
  }
  cost.bytes = halo_bytes(from, to, type);
  if (cost.bytes > 0)
    cost.seconds = collective_seconds(CollectiveKind::Permute, static_cast<double>(cost.bytes),
                                      *from.spec.mesh, sharding_axes(from.spec), profile);
  cost.nodes = group_links(*from.spec.mesh, sharding_axes(from.spec), profile).nodes;
  return cost;
}

std::vector<NodeCost> ProgramCost::dearest(size_t n) const {
  std::vector<NodeCost> sorted = nodes;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const NodeCost& a, const NodeCost& b) { return a.seconds > b.seconds; });
  if (sorted.size() > n) sorted.resize(n);
  return sorted;
}

ProgramCost program_cost(const Program& program, const MachineProfile& profile, int64_t trips) {
  return Pricer(program, profile, trips).run();
}

int dearest_of(const std::vector<double>& seconds) {
  constexpr double kRounding = 1e-9;
  const double most = *std::max_element(seconds.begin(), seconds.end());
  const auto first = std::find_if(seconds.begin(), seconds.end(),
                                  [&](double s) { return s >= most * (1 - kRounding); });
  return static_cast<int>(first - seconds.begin());
}

std::string to_string(const ProgramCost& cost, const Program& program, size_t most) {
  const double total = cost.seconds > 0 ? cost.seconds : 1;
  std::string text = fmt::format(
      "{}: {} compute ({:.0f}%), {} communication ({:.0f}%)\n", seconds_text(cost.seconds),
      seconds_text(cost.compute_seconds), 100 * cost.compute_seconds / total,
      seconds_text(cost.transfer_seconds), 100 * cost.transfer_seconds / total);
  for (int c = 0; c < kNumAllKernelClasses; ++c)
    if (cost.compute[c] > 0)
      text += row(std::string(name(static_cast<KernelClass>(c))), cost.compute[c], total) + "\n";
  for (const CollectiveCostSum& sum : cost.transfers)
    text += fmt::format("{}  x{:<5.0f} {}\n", row(sum.kind + " " + sum.axes, sum.seconds, total),
                        sum.executions, bytes_text(static_cast<int64_t>(sum.bytes)));
  if (cost.unknown_loops > 0)
    text += fmt::format("  {} loops of unknown trip count are counted as one trip\n",
                        cost.unknown_loops);
  if (most > 0) text += fmt::format("the {} dearest:\n", most == 10 ? "ten" : std::to_string(most));
  for (const NodeCost& node : cost.dearest(most)) {
    const Node& op = program.graph.node(node.node);
    std::string what = node.is_transfer ? node.transfer.kind + " " + node.transfer.axes : op.name();
    if (node.is_transfer && op.attrs.has("cleave.for"))
      what += " for " + std::string(op.attrs.get_string("cleave.for"));
    if (!op.results.empty()) what += "  " + to_string(program.graph.result_type(op));
    if (const std::string line = source_line(op.location); !line.empty()) what += "  " + line;
    text += fmt::format("  {:>10} {:>5.1f}%  x{:<4.0f} {}\n", seconds_text(node.seconds),
                        100 * node.seconds / total, node.executions, what);
  }
  return text;
}

}  // namespace cleave::analyze
