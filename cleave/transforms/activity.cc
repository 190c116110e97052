#include "cleave/transforms/activity.h"

#include "cleave/graph/flow.h"
#include "cleave/ops/diff_util.h"
#include "cleave/ops/op.h"
#include "cleave/transforms/region_copy.h"
#include "cleave/transforms/scan_node.h"

namespace cleave {

bool is_named(const Node& node, std::string_view name) {
  return is<op::NamedComputation>(node) && node.attrs.has("name") &&
         node.attrs.get_string("name") == name;
}
bool stops_gradient(const Node& node) { return node.attrs.has(kStopGradient); }

Activity::Activity(const Graph& graph, RegionId region, const std::vector<ValueId>& seeds)
    : graph_(graph), active_(graph.num_values()) {
  for (ValueId seed : seeds) mark(seed);
  do {
    changed_ = false;
    visit(region);
  } while (changed_);
}

bool Activity::any_result(const Node& node) const {
  for (ValueId result : node.results)
    if ((*this)(result)) return true;
  return false;
}

void Activity::mark(ValueId id) {
  if (active_[id.index] || !is_differentiable(graph_.type(id))) return;
  active_[id.index] = true;
  changed_ = true;
}

void Activity::flow(ValueId from, ValueId to) {
  if ((*this)(from)) mark(to);
}

void Activity::visit(RegionId region) {
  for (NodeId id : graph_.region(region).nodes) visit_node(graph_.node(id));
}

void Activity::visit_node(const Node& node) {
  switch (flow_of(node)) {
    case Flow::Loop:
      return visit_regions(node, {loop_of(node)->body});
    case Flow::Branches:
    case Flow::Manual:
    case Flow::Scan:
      return visit_regions(node, node.regions);
    case Flow::Named:
      if (is_named(node, kCheckpoint) || is_named(node, kKeep))
        return visit_regions(node, node.regions);
      break;
    case Flow::None:
    case Flow::Barrier:
    case Flow::Call:
      break;
  }
  if (stops_gradient(node) || node.def->jvp == jvp_zero) return;
  for (ValueId operand : node.operands)
    if ((*this)(operand))
      for (ValueId result : node.results) mark(result);
}

void Activity::visit_regions(const Node& node, const std::vector<RegionId>& regions) {
  const std::vector<FlowEdge> edges = flow_edges(graph_, node);
  auto follow = [&] {
    for (const FlowEdge& edge : edges) flow(edge.from, edge.to);
  };
  follow();
  const bool scans = flow_of(node) == Flow::Scan;
  if (scans) enter_scan(node);
  for (RegionId region : regions) visit(region);
  follow();
  if (scans) leave_scan(node);
}

// Slices are no edges.
void Activity::enter_scan(const Node& node) {
  const std::vector<ValueId>& args = graph_.region(node.regions[0]).args;
  for (size_t i = 0; i < scan_parts(node).inputs; ++i) flow(node.operands[i], args[i]);
}
void Activity::leave_scan(const Node& node) {
  const auto [inputs, carries, outputs] = scan_parts(node);
  const std::vector<ValueId> returned = returned_values(graph_, node.regions[0]);
  for (size_t i = 0; i < outputs; ++i) flow(returned[i], node.results[i]);
  // A scan of no steps returns what it began with.
  for (size_t i = 0; i < carries; ++i)
    flow(graph_.region(node.regions[0]).args[inputs + i], node.results[outputs + i]);
}

}  // namespace cleave
