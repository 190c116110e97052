#include "cleave/analyze/asked_collectives.h"

#include <algorithm>
#include <array>
#include <map>

#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/machine/collective.h"
#include "cleave/ops/collective/process_groups.h"
#include "cleave/ops/control/trip_count.h"
#include "cleave/ops/op.h"

namespace cleave::analyze {
namespace {

using Asked = std::map<std::string, AskedCollective>;

double bytes_of(const Asked& asked) {
  double bytes = 0;
  for (const auto& [kind, sum] : asked) bytes += sum.received_bytes;
  return bytes;
}

class Asker {
 public:
  Asker(const Graph& graph, int64_t devices, int64_t trips)
      : graph_(graph), devices_(devices), trips_(trips) {}

  Asked region(RegionId id) {
    Asked sums;
    for (NodeId node : graph_.region(id).nodes) add(sums, visit(graph_.node(node)), 1);
    return sums;
  }

 private:
  static void add(Asked& sums, const Asked& more, double times) {
    for (const auto& [kind, one] : more) {
      AskedCollective& sum = sums[kind];
      sum.kind = kind;
      sum.executions += times * one.executions;
      sum.received_bytes += times * one.received_bytes;
      sum.narrow_bytes += times * one.narrow_bytes;
    }
  }

  Asked visit(const Node& node) {
    Asked sums;
    switch (flow_of(node)) {
      case Flow::Call: {
        const Function* function = callee(graph_, node);
        return function && function->body.valid() ? region(function->body) : sums;
      }
      case Flow::Loop: {
        const auto trips = static_cast<double>(trip_count(graph_, node).value_or(trips_));
        const LoopRegions parts = *loop_of(node);
        add(sums, region(parts.condition), trips + 1);
        add(sums, region(parts.body), trips);
        return sums;
      }
      case Flow::Branches:
        for (RegionId branch : node.regions)
          if (Asked inside = region(branch); bytes_of(inside) >= bytes_of(sums))
            sums = std::move(inside);
        return sums;
      case Flow::Manual:
      case Flow::Named:
        return region(node.regions[0]);
      case Flow::Barrier:
      case Flow::None:
      case Flow::Scan:
        break;
    }
    if (node.def->collective) price(sums, node, *node.def->collective);
    return sums;
  }

  void price(Asked& sums, const Node& node, CollectiveKind kind) const {
    double operands = 0, narrow = 0;
    for (ValueId value : node.operands) {
      const auto bytes = static_cast<double>(graph_.type(value).byte_count());
      operands += bytes;
      const DType dtype = graph_.type(value).dtype;
      const bool is_narrow = dtype == DType::BF16 || (is_float(dtype) && bit_width(dtype) == 8);
      if (is_narrow) narrow += bytes;
    }
    AskedCollective one;
    one.executions = 1;
    if (is<op::CollectivePermute>(node)) {
      one.kind = "collective-permute";
      for (const auto& [from, to] : device_pairs(node, channel_mode(node), {1, devices_}, 0))
        if (from != to) one.received_bytes = operands;
    } else {
      const bool global = kind == CollectiveKind::AllGather || kind == CollectiveKind::AllReduce ||
                          kind == CollectiveKind::ReduceScatter;
      size_t most = 1;
      for (const auto& group :
           device_groups(node, global ? global_mode(node) : channel_mode(node), {1, devices_}))
        most = std::max(most, group.size());
      one.kind = kind == CollectiveKind::AllGather       ? "all-gather"
                 : kind == CollectiveKind::AllReduce     ? "all-reduce"
                 : kind == CollectiveKind::ReduceScatter ? "reduce-scatter"
                 : kind == CollectiveKind::AllToAll      ? "all-to-all"
                                                         : "collective-broadcast";
      one.received_bytes = received_bytes(kind, operands, static_cast<int64_t>(most));
    }
    if (operands > 0) one.narrow_bytes = one.received_bytes * narrow / operands;
    add(sums, {{one.kind, one}}, 1);
  }

  const Graph& graph_;
  const int64_t devices_, trips_;
};

}  // namespace

double received_bytes(CollectiveKind kind, double operands, int64_t ranks) {
  const auto n = static_cast<double>(ranks);
  switch (kind) {
    case CollectiveKind::AllGather:
      return operands * (n - 1);
    case CollectiveKind::AllReduce:
      return 2 * operands * (n - 1) / n;
    case CollectiveKind::ReduceScatter:
    case CollectiveKind::AllToAll:
      return operands * (n - 1) / n;
    case CollectiveKind::Permute:
      break;
  }
  return operands;
}

std::vector<AskedCollective> asked_collectives(const Graph& graph, const std::string& entry,
                                               int64_t devices, int64_t trips) {
  std::vector<AskedCollective> result;
  for (auto& [kind, sum] : Asker(graph, devices, trips).region(graph.find_function(entry)->body))
    if (sum.received_bytes > 0) result.push_back(sum);
  return result;
}

std::string asked_kind(const std::string& transfer) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kKinds = {
      {{"all_gather", "all-gather"},
       {"all_reduce", "all-reduce"},
       {"reduce_scatter", "reduce-scatter"},
       {"all_to_all", "all-to-all"},
       {"collective_permute", "collective-permute"},
       {"halo", "collective-permute"}}};
  for (const auto& [own, name] : kKinds)
    if (transfer == own) return std::string(name);
  return "";
}

}  // namespace cleave::analyze
