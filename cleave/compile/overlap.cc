#include "cleave/compile/overlap.h"

#include <algorithm>
#include <map>
#include <set>

#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

struct Machine {
  const OverlapOptions& options;
  std::function<double(ValueId)> bytes;  // on one device
  bool free_order = false;               // transfers may change places
};

// Takes part of what a device has: nobody is waited for.
bool is_slice(const Node& node) { return node.attrs.get_string("cleave.step") == "all_slice"; }

bool is_effect(const Node& node) {
  if (is_transfer(node) && is_slice(node)) return false;
  return !node.def->has(kPure) || node.def->has(kCollective);
}

// One region: its nodes, without the terminator, by their place.
class RegionOrder {
 public:
  RegionOrder(Graph& graph, RegionId region, const Machine& machine)
      : graph_(graph), region_(region), machine_(machine) {}

  void run() {
    const std::vector<NodeId> nodes = graph_.region(region_).nodes;
    for (NodeId id : nodes) {
      const std::vector<RegionId> inner = graph_.node(id).regions;
      if (!is<op::Fusion>(graph_.node(id)))
        for (RegionId each : inner) RegionOrder(graph_, each, machine_).run();
    }
    const bool any = std::any_of(nodes.begin(), nodes.end(),
                                 [&](NodeId id) { return is_transfer(graph_.node(id)); });
    if (!any) return;
    nodes_.assign(nodes.begin(), nodes.end() - 1);
    measure();
    connect();
    schedule();
    order_.push_back(nodes.back());
    graph_.region(region_).nodes = std::move(order_);
  }

 private:
  struct Item {
    bool is_transfer = false, grows = false;
    double seconds = 0;   // its own, or of its messages
    double before = 0;    // of what stood before it
    double earliest = 0;  // when its operands are there
    size_t first_use = 0;
    size_t waits_for = 0;
    std::vector<size_t> next;
  };

  double bytes_of(const std::vector<ValueId>& values) const {
    double sum = 0;
    for (ValueId value : values) sum += machine_.bytes(value);
    return sum;
  }

  double seconds_of(const Node& node) const {
    const OverlapOptions& o = machine_.options;
    if (is_transfer(node) && !is_slice(node))
      return o.latency + std::max(bytes_of(node.operands), bytes_of(node.results)) / o.link;
    if (node.def->opaque || node.def->has(kViewLike) || node.def->has(kConstantLike)) return 0;
    double flops = 0;
    if (node.def->cost && node.regions.empty()) {
      double whole = 0;
      for (ValueId value : node.results) whole += static_cast<double>(type_bytes(value));
      flops = node.def->cost(graph_, node).flops * bytes_of(node.results) / std::max(1.0, whole);
    }
    return std::max(flops / o.flops, (bytes_of(node.operands) + bytes_of(node.results)) / o.memory);
  }

  double type_bytes(ValueId value) const {
    const Type& type = graph_.type(value);
    return type.is_tensor() && type.has_static_shape() ? static_cast<double>(type.byte_count()) : 0;
  }

  void measure() {
    items_.resize(nodes_.size());
    double time = 0;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = graph_.node(nodes_[i]);
      Item& item = items_[i];
      item.is_transfer = is_transfer(node) && !is_slice(node);
      item.grows = bytes_of(node.results) > bytes_of(node.operands);
      item.seconds = seconds_of(node);
      item.before = time;
      item.first_use = nodes_.size();
      if (!item.is_transfer) time += item.seconds;
    }
    total_ = time;
  }

  void connect() {
    std::map<uint32_t, size_t> made;
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (ValueId result : graph_.node(nodes_[i]).results) made[result.index] = i;
    size_t last_effect = nodes_.size();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = graph_.node(nodes_[i]);
      std::set<size_t> needs;
      auto read = [&](const Node& reader) {
        for (ValueId operand : reader.operands)
          if (const auto it = made.find(operand.index); it != made.end()) needs.insert(it->second);
      };
      read(node);
      bool effect = is_effect(node);
      for (RegionId inner : node.regions)
        graph_.walk(inner, [&](NodeId id) {
          read(graph_.node(id));
          effect = effect || is_effect(graph_.node(id));
        });
      for (size_t each : needs) items_[each].first_use = std::min(items_[each].first_use, i);
      if (effect && !(machine_.free_order && items_[i].is_transfer)) {
        if (last_effect < nodes_.size()) needs.insert(last_effect);
        last_effect = i;
      }
      items_[i].waits_for = needs.size();
      for (size_t each : needs) items_[each].next.push_back(i);
    }
  }

  void emit(size_t i) {
    Item& item = items_[i];
    double there = 0;
    if (item.is_transfer) {
      link_free_ = there = std::max(time_, link_free_) + item.seconds;
    } else {
      time_ = std::max(time_, item.earliest) + item.seconds;
    }
    order_.push_back(nodes_[i]);
    emitted_[i] = true;
    while (lowest_ < nodes_.size() && emitted_[lowest_]) ++lowest_;
    for (size_t next : item.next) {
      if (there > 0) items_[next].earliest = std::max(items_[next].earliest, there);
      if (--items_[next].waits_for == 0) ready_.insert(next);
    }
  }

  // Whether a transfer whose result takes more memory than its operand is to start now.
  bool is_due(const Item& item) const {
    const double use = item.first_use < nodes_.size() ? items_[item.first_use].before : total_;
    const double now = lowest_ < nodes_.size() ? items_[lowest_].before : total_;
    return use - now <= 2 * item.seconds;
  }

  size_t choose() const {
    size_t soonest = nodes_.size(), not_due = nodes_.size();
    for (size_t i : ready_) {
      const Item& item = items_[i];
      if (!item.is_transfer) continue;
      if (!item.grows || is_due(item)) return i;
      if (not_due == nodes_.size()) not_due = i;
    }
    for (size_t i : ready_) {
      const Item& item = items_[i];
      if (item.is_transfer) continue;
      if (item.earliest <= time_) return i;
      if (soonest == nodes_.size() || item.earliest < items_[soonest].earliest) soonest = i;
    }
    return soonest < nodes_.size() ? soonest : not_due;
  }

  void schedule() {
    emitted_.assign(nodes_.size(), false);
    for (size_t i = 0; i < items_.size(); ++i)
      if (items_[i].waits_for == 0) ready_.insert(i);
    while (!ready_.empty()) {
      const size_t i = choose();
      ready_.erase(i);
      emit(i);
    }
  }

  Graph& graph_;
  const RegionId region_;
  const Machine& machine_;
  std::vector<NodeId> nodes_, order_;
  std::vector<Item> items_;
  std::vector<bool> emitted_;
  std::set<size_t> ready_;
  size_t lowest_ = 0;  // the first that is not emitted
  double time_ = 0, link_free_ = 0, total_ = 0;
};

}  // namespace

OverlapOptions overlap_options(const PassOptions& options) {
  OverlapOptions result;
  const auto microseconds = static_cast<int64_t>(result.latency * 1e6 + 0.5);
  result.latency = static_cast<double>(options.get_int("latency-us", microseconds)) * 1e-6;
  const auto megabytes = static_cast<int64_t>(result.link / 1e6 + 0.5);
  result.link = static_cast<double>(options.get_int("link-mb", megabytes)) * 1e6;
  return result;
}

void overlap_transfers(Graph& graph, const OverlapOptions& options) {
  const Machine machine{options, [&](ValueId value) {
                          const Type& type = graph.type(value);
                          return type.is_tensor() && type.has_static_shape()
                                     ? static_cast<double>(type.byte_count())
                                     : 0.0;
                        }};
  for (const Function& function : graph.functions) {
    if (!function.body.valid()) continue;
    RegionOrder(graph, function.body, machine).run();
    graph.walk(function.body, [&](NodeId id) {
      if (is_transfer(graph.node(id))) graph.node(id).attrs.set("cleave.overlap", Attribute());
    });
  }
}

void order_transfers(Program& program, const OverlapOptions& options) {
  const Graph& graph = program.graph;
  const Machine machine{
      options,
      [&](ValueId value) {
        const Type& type = graph.type(value);
        if (!type.is_tensor() || !type.has_static_shape()) return 0.0;
        return static_cast<double>(num_elements(program.layout(value).box(type.shape, 0).size) *
                                   byte_size(type.dtype));
      },
      true};
  for (const Function& function : program.graph.functions)
    if (function.body.valid()) RegionOrder(program.graph, function.body, machine).run();
}

}  // namespace cleave
