#include "cleave/graph/flow.h"

#include <set>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

class EdgeList {
 public:
  EdgeList(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  std::vector<FlowEdge> run() {
    switch (flow_of(node_)) {
      case Flow::None:
      case Flow::Call:
        break;
      case Flow::Loop:
        loop();
        break;
      case Flow::Branches:
        for (RegionId region : node_.regions) leave(region, 0, 0);
        break;
      case Flow::Manual:
      case Flow::Named:
        add(node_.operands, args(node_.regions[0]), FlowEdge::Enter);
        leave(node_.regions[0], 0, 0);
        break;
      case Flow::Barrier:
        add(node_.operands, node_.results, FlowEdge::Skip);
        break;
      case Flow::Scan:
        scan();
        break;
    }
    return std::move(edges_);
  }

 private:
  const std::vector<ValueId>& args(RegionId region) const { return graph_.region(region).args; }

  // Pairs what begins at `from` in one list with what begins at `to` in the other.
  void add(const std::vector<ValueId>& from, const std::vector<ValueId>& to, FlowEdge::Kind kind,
           size_t first_from = 0, size_t first_to = 0) {
    for (size_t i = 0; first_from + i < from.size() && first_to + i < to.size(); ++i)
      edges_.push_back({from[first_from + i], to[first_to + i], kind});
  }
  void leave(RegionId region, size_t first_from, size_t first_to) {
    add(returned_values(graph_, region), node_.results, FlowEdge::Leave, first_from, first_to);
  }

  void loop() {
    const LoopRegions loop = *loop_of(node_);
    const std::vector<ValueId> end = returned_values(graph_, loop.body);
    for (RegionId region : {loop.condition, loop.body}) {
      add(node_.operands, args(region), FlowEdge::Enter);
      add(end, args(region), FlowEdge::Carry);
    }
    add(end, node_.results, FlowEdge::Leave);
    add(node_.operands, node_.results, FlowEdge::Skip);
  }

  void scan() {
    const ScanParts parts = scan_parts(node_);
    const RegionId body = node_.regions[0];
    add(node_.operands, args(body), FlowEdge::Enter, parts.inputs, parts.inputs);
    add(returned_values(graph_, body), args(body), FlowEdge::Carry, parts.outputs, parts.inputs);
    leave(body, parts.outputs, parts.outputs);
  }

  const Graph& graph_;
  const Node& node_;
  std::vector<FlowEdge> edges_;
};

struct CaptureWalk {
  const Graph& graph;
  std::set<ValueId> defined, seen;
  std::vector<ValueId> captured;

  void region(RegionId id) {
    for (ValueId arg : graph.region(id).args) defined.insert(arg);
    for (NodeId node_id : graph.region(id).nodes) node(node_id);
  }
  void node(NodeId id) {
    const Node& n = graph.node(id);
    for (ValueId operand : n.operands)
      if (!defined.contains(operand) && seen.insert(operand).second) captured.push_back(operand);
    for (ValueId result : n.results) defined.insert(result);
    for (RegionId inner : n.regions) region(inner);
  }
};

}  // namespace

Flow flow_of(const Node& node) { return node.def->flow; }

std::vector<FlowEdge> flow_edges(const Graph& graph, const Node& node) {
  return EdgeList(graph, node).run();
}

std::optional<LoopRegions> loop_of(const Node& node) {
  if (flow_of(node) != Flow::Loop || node.regions.size() != 2) return std::nullopt;
  return LoopRegions{node.regions[0], node.regions[1]};
}

ScanParts scan_parts(const Node& node) {
  const std::vector<int64_t> segments = node.attrs.get_ints_or_empty("operandSegmentSizes");
  const size_t inputs =
      segments.size() == 2 ? static_cast<size_t>(segments[0]) : node.operands.size() / 2;
  const size_t carries = node.operands.size() - inputs;
  return {inputs, carries, node.results.size() - carries};
}

std::vector<ValueId> returned_values(const Graph& graph, RegionId region) {
  const std::vector<NodeId>& nodes = graph.region(region).nodes;
  return nodes.empty() ? std::vector<ValueId>() : graph.node(nodes.back()).operands;
}

std::string_view callee_name(const Node& node) {
  return node.def->callee_attr ? node.attrs.get_string(node.def->callee_attr) : std::string_view();
}

const Function* callee(const Graph& graph, const Node& node) {
  const std::string_view name = callee_name(node);
  return name.empty() ? nullptr : graph.find_function(name);
}

const Function& callee_with_body(const Graph& graph, const Node& node) {
  const Function* function = callee(graph, node);
  if (!function || !function->body.valid())
    throw_user("{}: the module has no function @{} with a body", node.name(), callee_name(node));
  return *function;
}

std::vector<ValueId> captured_values(const Graph& graph, const std::vector<RegionId>& regions) {
  CaptureWalk walk{graph, {}, {}, {}};
  for (RegionId region : regions) walk.region(region);
  return walk.captured;
}

std::vector<ValueId> captured_by_nodes(const Graph& graph, const std::vector<NodeId>& nodes) {
  CaptureWalk walk{graph, {}, {}, {}};
  for (NodeId node : nodes) walk.node(node);
  return walk.captured;
}

}  // namespace cleave
