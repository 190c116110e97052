#include <utility>

#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/call_graph.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {
namespace {

class Exporter {
 public:
  explicit Exporter(Graph& graph)
      : graph_(graph), edge_of_(find_data_flow_edges(graph)), rewrite_(graph), names_(graph) {}

  void run(const std::vector<NodeId>& computations) {
    for (NodeId id : computations) {
      sink(id, "in_shardings", graph_.region(graph_.node(id).regions[0]).args);
      sink(id, "out_shardings", graph_.node(id).results);
      // Marks of transforms (checkpoint, custom derivatives) keep their meaning.
      if (!graph_.node(id).attrs.get_string("name").starts_with("cleave.")) export_one(id);
    }
    rewrite_.apply();
  }

 private:
  // The edges of a named computation go, after their shardings are on the computation.
  void sink(NodeId id, std::string_view attr, const std::vector<ValueId>& owners) {
    std::vector<ShardingSpec> specs = edge_shardings(graph_, owners, edge_of_);
    for (ValueId owner : owners) {
      const NodeId edge = edge_of_[owner.index];
      if (!edge.valid()) continue;
      rewrite_.replace_uses(graph_.node(edge).results[0], owner);
      rewrite_.erase(edge);
    }
    if (!specs.empty()) set_shardings(graph_.node(id), attr, std::move(specs));
  }

  Function function_for(const Node& node) {
    Function function;
    const std::string name(node.attrs.get_string("name"));
    function.name = names_(name);
    function.visibility = "private";
    function.body = node.regions[0];
    function.attrs.set(kOriginalName, string_attr(name));
    if (const Attribute* thread = node.attrs.find(kExecutionThread))
      function.attrs.set(kExecutionThread, *thread);
    for (ValueId arg : graph_.region(function.body).args)
      function.arg_types.push_back(graph_.type(arg));
    for (ValueId result : node.results) function.result_types.push_back(graph_.type(result));
    function.arg_attrs.resize(function.arg_types.size());
    function.result_attrs.resize(function.result_types.size());
    const auto in = get_shardings(node, "in_shardings");
    for (size_t i = 0; i < in.size(); ++i)
      function.arg_attrs[i].set(kShardingAttr, ShardingAttr{in[i]});
    return function;
  }

  static AttrDict call_attrs(const Node& node, const std::string& callee) {
    AttrDict attrs;
    for (const NamedAttribute& attr : node.attrs.entries()) {
      if (attr.name == kExecutionThread || attr.name == "name" || attr.name == "in_shardings")
        continue;
      attrs.set(attr.name == "out_shardings" ? kShardingAttr : std::string_view(attr.name),
                attr.value);
    }
    attrs.set("callee", SymbolRefAttr{callee, {}});
    return attrs;
  }

  void export_one(NodeId id) {
    Function function = function_for(graph_.node(id));
    AttrDict attrs = call_attrs(graph_.node(id), function.name);
    std::vector<Type> types = function.result_types;
    const std::vector<ValueId> operands = graph_.node(id).operands;
    retarget_terminator(graph_, function.body, "func.return");
    graph_.region(function.body).owner = {};
    graph_.node(id).regions.clear();
    graph_.functions.push_back(std::move(function));
    const NodeId call = graph_.add_node("func.call", operands, std::move(types), std::move(attrs));
    graph_.insert_before(id, call);
    for (size_t r = 0; r < graph_.node(id).results.size(); ++r)
      rewrite_.replace_uses(graph_.node(id).results[r], graph_.node(call).results[r]);
    rewrite_.erase(id);
  }

  Graph& graph_;
  const std::vector<NodeId> edge_of_;
  GraphRewrite rewrite_;
  FreshNames names_;
};

// Inner computations before those around them.
void collect_computations(const Graph& graph, RegionId region, std::vector<NodeId>& found) {
  for (NodeId id : graph.region(region).nodes) {
    for (RegionId inner : graph.node(id).regions) collect_computations(graph, inner, found);
    if (is<op::NamedComputation>(graph.node(id))) found.push_back(id);
  }
}

}  // namespace

void export_named_computations(Graph& graph) {
  std::vector<NodeId> computations;
  for (const Function& function : graph.functions)
    if (function.body.valid()) collect_computations(graph, function.body, computations);
  if (!computations.empty()) Exporter(graph).run(computations);
}

}  // namespace cleave
