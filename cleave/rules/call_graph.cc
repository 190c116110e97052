#include "cleave/rules/call_graph.h"

#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

void collect_calls(const Graph& graph, RegionId region, std::vector<NodeId>& calls) {
  for (NodeId id : graph.region(region).nodes) {
    for (RegionId inner : graph.node(id).regions) collect_calls(graph, inner, calls);
    if (is<op::Call>(graph.node(id))) calls.push_back(id);
  }
}

void post_order(const Graph& graph, int function, std::vector<uint8_t>& seen,
                std::vector<int>& order) {
  if (std::exchange(seen[function], 1)) return;
  for (NodeId call : calls_in(graph, function)) {
    const std::string_view callee = callee_name(graph.node(call));
    for (size_t i = 0; i < graph.functions.size(); ++i)
      if (graph.functions[i].name == callee) post_order(graph, static_cast<int>(i), seen, order);
  }
  order.push_back(function);
}

}  // namespace

int function_named(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.functions.size(); ++i)
    if (graph.functions[i].name == name) return static_cast<int>(i);
  throw_user("call of @{}, which is not a function of the module", name);
}

int function_called(const Graph& graph, const Node& call) {
  return function_named(graph, callee_name(call));
}

void set_callee(Node& call, std::string name) {
  call.attrs.set("callee", SymbolRefAttr{std::move(name), {}});
}

std::vector<NodeId> calls_in(const Graph& graph, RegionId region) {
  std::vector<NodeId> calls;
  if (region.valid()) collect_calls(graph, region, calls);
  return calls;
}

std::vector<NodeId> calls_in(const Graph& graph, int function) {
  return calls_in(graph, graph.functions[function].body);
}

std::vector<int> call_graph_post_order(const Graph& graph) {
  std::vector<uint8_t> seen(graph.functions.size());
  std::vector<int> order;
  for (size_t i = 0; i < graph.functions.size(); ++i)
    post_order(graph, static_cast<int>(i), seen, order);
  return order;
}

std::vector<NodeId> calls_in_post_order(const Graph& graph) {
  std::vector<NodeId> calls;
  for (int function : call_graph_post_order(graph))
    for (NodeId call : calls_in(graph, function)) calls.push_back(call);
  return calls;
}

std::string original_name(const Function& function) {
  const Attribute* attr = function.attrs.find(kOriginalName);
  const StringAttr* name = attr ? attr->as<StringAttr>() : nullptr;
  return name ? name->value : function.name;
}

FreshNames::FreshNames(const Graph& graph, int counter) : counter_(counter) {
  for (const Function& function : graph.functions) taken_.insert(function.name);
  for (const MeshPtr& mesh : graph.meshes) taken_.insert(mesh->name);
}

std::string FreshNames::operator()(const std::string& name) {
  std::string fresh = name;
  while (!taken_.insert(fresh).second) fresh = fmt::format("{}_{}", name, counter_++);
  return fresh;
}

std::string clone_function(Graph& graph, int function, FreshNames& names) {
  Function clone = graph.functions[function];
  clone.attrs.set(kOriginalName, string_attr(original_name(clone)));
  if (clone.body.valid()) clone.body = clone_region(graph, clone.body);
  for (NodeId call : calls_in(graph, clone.body)) {
    std::string name = clone_function(graph, function_called(graph, graph.node(call)), names);
    set_callee(graph.node(call), std::move(name));
  }
  clone.name = names(clone.name);
  graph.functions.push_back(clone);
  return clone.name;
}

void clone_callee(Graph& graph, NodeId call, int& counter) {
  FreshNames names(graph, counter);
  std::string name = clone_function(graph, function_called(graph, graph.node(call)), names);
  set_callee(graph.node(call), std::move(name));
  counter = names.counter();
}

std::vector<ShardingSpec> shardings_of(const std::vector<AttrDict>& attrs,
                                       const std::vector<Type>& types) {
  MeshPtr mesh;
  for (const AttrDict& dict : attrs)
    if (const ShardingSpec* spec = sharding_in(dict); spec && !mesh && !spec->mesh->is_maximal())
      mesh = spec->mesh;
  std::vector<ShardingSpec> specs;
  if (!mesh) return specs;
  for (size_t i = 0; i < types.size(); ++i) {
    const ShardingSpec* spec = i < attrs.size() ? sharding_in(attrs[i]) : nullptr;
    specs.push_back(spec ? *spec : ShardingSpec::fully_open(mesh, types[i].rank()));
  }
  return specs;
}

void retarget_terminator(Graph& graph, RegionId body, std::string_view op) {
  Node& terminator = graph.node(graph.terminator(body));
  terminator.def = &op_named(op);
}

}  // namespace cleave
