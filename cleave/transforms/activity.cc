#include "cleave/transforms/activity.h"

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

const std::vector<ValueId>& Activity::returned(RegionId region) const {
  return graph_.node(graph_.terminator(region)).operands;
}

void Activity::visit(RegionId region) {
  for (NodeId id : graph_.region(region).nodes) visit_node(graph_.node(id));
}

void Activity::visit_node(const Node& node) {
  if (is<op::While>(node)) {
    const auto& args = graph_.region(node.regions[1]).args;
    for (size_t i = 0; i < args.size(); ++i) flow(node.operands[i], args[i]);
    visit(node.regions[1]);
    const auto& out = returned(node.regions[1]);
    for (size_t i = 0; i < args.size(); ++i) {
      flow(out[i], args[i]);
      flow(args[i], node.results[i]);
    }
    return;
  }
  if (is<op::Case, op::If>(node)) {
    for (RegionId branch : node.regions) {
      visit(branch);
      const auto& out = returned(branch);
      for (size_t i = 0; i < out.size(); ++i) flow(out[i], node.results[i]);
    }
    return;
  }
  if (is<op::Scan>(node)) {
    const ScanParts parts = scan_parts(node);
    const auto& args = graph_.region(node.regions[0]).args;
    for (size_t i = 0; i < args.size(); ++i) flow(node.operands[i], args[i]);
    visit(node.regions[0]);
    const auto& out = returned(node.regions[0]);
    for (size_t i = 0; i < out.size(); ++i) {
      flow(out[i], node.results[i]);
      if (i >= parts.outputs) {
        const ValueId carry = args[parts.inputs + i - parts.outputs];
        flow(out[i], carry);
        flow(carry, node.results[i]);
      }
    }
    return;
  }
  if (is<op::ManualComputation>(node) || is_named(node, kCheckpoint)) {
    const auto& args = graph_.region(node.regions[0]).args;
    for (size_t i = 0; i < args.size(); ++i) flow(node.operands[i], args[i]);
    visit(node.regions[0]);
    const auto& out = returned(node.regions[0]);
    for (size_t i = 0; i < out.size(); ++i) flow(out[i], node.results[i]);
    return;
  }
  if (stops_gradient(node) || (node.def && node.def->jvp == jvp_zero)) return;
  for (ValueId operand : node.operands)
    if ((*this)(operand))
      for (ValueId result : node.results) mark(result);
}

}  // namespace cleave
