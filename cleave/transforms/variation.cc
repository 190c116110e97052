#include "cleave/transforms/variation.h"

#include <algorithm>

#include "cleave/graph/flow.h"
#include "cleave/ops/op_table.h"
#include "cleave/runtime/manual_scope.h"
#include "cleave/transforms/region_copy.h"
#include "cleave/transforms/scan_node.h"

namespace cleave {
namespace {

void add(Variation::Axes& axes, const Variation::Axes& more) {
  axes.insert(more.begin(), more.end());
}

}  // namespace

void Variation::run(RegionId region) {
  for (NodeId id : graph_.region(region).nodes) visit(graph_.node(id));
}

void Variation::visit(const Node& node) {
  switch (flow_of(node)) {
    case Flow::Loop:
      return visit_loop(node);
    case Flow::Scan:
      return visit_scan(node);
    case Flow::Branches:
      return visit_branches(node);
    case Flow::Named:
      return visit_inside(node);
    case Flow::None:
    case Flow::Manual:
    case Flow::Barrier:
    case Flow::Call:
      break;
  }
  // How an op that knows of devices changes the axes of its operands.
  using Change = void (Variation::*)(const Node&, Axes&) const;
  static const auto changes = OpTable<Change>()
                                  .set<op::PartitionId, op::ReplicaId>(&Variation::add_all)
                                  .set<op::AllReduce, op::AllGather>(&Variation::drop_spanned)
                                  .set<op::ReduceScatter>(&Variation::add_scattered)
                                  .set<op::AllToAll>(&Variation::add_exchanged)
                                  .set<op::CollectivePermute>(&Variation::add_permuted);
  Axes axes;
  for (ValueId operand : node.operands) add(axes, of(operand));
  for (ValueId capture : captured_values(graph_, node.regions)) add(axes, of(capture));
  if (node.attrs.has(kAlongAxes)) {
    axes.clear();
    for (int64_t axis : node.attrs.get_ints(kAlongAxes)) axes.insert(static_cast<int>(axis));
  } else if (const Change* change = changes.find(node)) {
    (this->*(*change))(node, axes);
  }
  for (ValueId result : node.results) axes_[result] = axes;
}

void Variation::add_all(const Node&, Axes& axes) const { add(axes, all_axes()); }
void Variation::drop_spanned(const Node& node, Axes& axes) const {
  for (int axis : spanned(groups_of(node, global_mode(node)))) axes.erase(axis);
}
void Variation::add_scattered(const Node& node, Axes& axes) const {
  add(axes, touched(groups_of(node, global_mode(node))));
}
void Variation::add_exchanged(const Node& node, Axes& axes) const {
  add(axes, touched(groups_of(node, channel_mode(node))));
}
void Variation::add_permuted(const Node& node, Axes& axes) const {
  const auto moves = device_pairs(node, channel_mode(node), {1, mesh_.num_devices()}, 0);
  for (int axis : all_axes())
    if (!same_along(moves, axis)) axes.insert(axis);
}

std::vector<Variation::Axes> Variation::all_of(const std::vector<ValueId>& values) {
  std::vector<Axes> axes;
  for (ValueId value : values) axes.push_back(of(value));
  return axes;
}

std::vector<Variation::Axes> Variation::returned(RegionId region, const std::vector<Axes>& args) {
  const std::vector<ValueId>& formal = graph_.region(region).args;
  for (size_t i = 0; i < formal.size(); ++i) axes_[formal[i]] = args[i];
  run(region);
  return all_of(graph_.node(graph_.terminator(region)).operands);
}

void Variation::visit_loop(const Node& node) {
  std::vector<Axes> carried = all_of(node.operands);
  for (bool changed = true; changed;) {
    const std::vector<Axes> before = carried;
    const Axes decided = returned(node.regions[0], carried)[0];
    const std::vector<Axes> next = returned(node.regions[1], carried);
    for (size_t i = 0; i < carried.size(); ++i) {
      add(carried[i], decided);
      add(carried[i], next[i]);
    }
    changed = carried != before;
  }
  for (size_t i = 0; i < carried.size(); ++i) axes_[node.results[i]] = carried[i];
}

void Variation::visit_scan(const Node& node) {
  const auto [inputs, carries, outputs] = scan_parts(node);
  std::vector<Axes> args = all_of(node.operands), results;
  for (bool changed = true; changed;) {
    const std::vector<Axes> before = args;
    results = returned(node.regions[0], args);
    for (size_t i = 0; i < carries; ++i) add(args[inputs + i], results[outputs + i]);
    changed = args != before;
  }
  for (size_t i = 0; i < outputs; ++i) axes_[node.results[i]] = results[i];
  for (size_t i = 0; i < carries; ++i) axes_[node.results[outputs + i]] = args[inputs + i];
}

void Variation::visit_branches(const Node& node) {
  std::vector<Axes> results(node.results.size(), of(node.operands[0]));
  for (RegionId region : node.regions) {
    const std::vector<Axes> made = returned(region, {});
    for (size_t i = 0; i < results.size(); ++i) add(results[i], made[i]);
  }
  for (size_t i = 0; i < results.size(); ++i) axes_[node.results[i]] = results[i];
}

void Variation::visit_inside(const Node& node) {
  const std::vector<Axes> results = returned(node.regions[0], all_of(node.operands));
  for (size_t i = 0; i < results.size(); ++i) axes_[node.results[i]] = results[i];
}

Variation::Axes Variation::all_axes() const {
  Axes axes;
  for (size_t a = 0; a < mesh_.axes.size(); ++a)
    if (mesh_.axes[a].size > 1) axes.insert(static_cast<int>(a));
  return axes;
}

Variation::Groups Variation::groups_of(const Node& node, GroupMode mode) const {
  return device_groups(node, mode, {1, mesh_.num_devices()});
}

Variation::Axes Variation::spanned(const Groups& groups) const {
  Axes axes;
  for (int axis : all_axes()) {
    bool whole = true;
    for (const auto& group : groups) {
      std::set<std::vector<int64_t>> rest, places;
      for (int64_t device : group) {
        std::vector<int64_t> at = mesh_.coordinates(mesh_.position_of(device));
        places.insert(at);
        at[axis] = 0;
        rest.insert(at);
      }
      whole &= places.size() == rest.size() * static_cast<size_t>(mesh_.axes[axis].size);
    }
    if (whole) axes.insert(axis);
  }
  return axes;
}

Variation::Axes Variation::touched(const Groups& groups) const {
  Axes axes;
  for (const auto& group : groups)
    for (int axis : all_axes()) {
      std::set<int64_t> places;
      for (int64_t device : group)
        places.insert(mesh_.coordinates(mesh_.position_of(device))[axis]);
      if (places.size() > 1) axes.insert(axis);
    }
  return axes;
}

bool Variation::same_along(const std::vector<std::pair<int64_t, int64_t>>& moves, int axis) const {
  std::set<std::pair<std::vector<int64_t>, std::vector<int64_t>>> rest;
  for (const auto& [source, target] : moves) {
    std::vector<int64_t> from = mesh_.coordinates(mesh_.position_of(source));
    std::vector<int64_t> to = mesh_.coordinates(mesh_.position_of(target));
    if (from[axis] != to[axis]) return false;
    from[axis] = to[axis] = 0;
    rest.emplace(std::move(from), std::move(to));
  }
  return moves.size() == rest.size() * static_cast<size_t>(mesh_.axes[axis].size);
}

}  // namespace cleave
