#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/ops/op.h"
#include "cleave/rules/data_flow.h"
#include "cleave/rules/sharding_passes.h"

namespace cleave {
namespace {

constexpr std::string_view kOriginalName = "sdy.original_func_name";
constexpr std::string_view kManualAxes = "sdy.func_manual_axes";
constexpr std::string_view kExecutionThread = "execution_thread";

std::string callee_of(const Node& call) { return std::string(call.attrs.get_string("callee")); }

void set_callee(Node& call, std::string name) {
  call.attrs.set("callee", SymbolRefAttr{std::move(name), {}});
}

int function_named(const Graph& graph, std::string_view name) {
  for (size_t i = 0; i < graph.functions.size(); ++i)
    if (graph.functions[i].name == name) return static_cast<int>(i);
  throw_user("call of @{}, which is not a function of the module", name);
}

// The calls in a function; inner ones before those around them.
void collect_calls(const Graph& graph, RegionId region, std::vector<NodeId>& calls) {
  for (NodeId id : graph.region(region).nodes) {
    for (RegionId inner : graph.node(id).regions) collect_calls(graph, inner, calls);
    if (is<op::Call>(graph.node(id))) calls.push_back(id);
  }
}
std::vector<NodeId> calls_in(const Graph& graph, int function) {
  std::vector<NodeId> calls;
  if (graph.functions[function].body.valid())
    collect_calls(graph, graph.functions[function].body, calls);
  return calls;
}

std::string original_name(const Function& function) {
  const Attribute* attr = function.attrs.find(kOriginalName);
  const StringAttr* name = attr ? attr->as<StringAttr>() : nullptr;
  return name ? name->value : function.name;
}

// f, f_0, f_1, ...: the numbers go on over all names, as MLIR's symbol table counts.
class FreshNames {
 public:
  explicit FreshNames(const Graph& graph, int counter = 0) : counter_(counter) {
    for (const Function& function : graph.functions) taken_.insert(function.name);
    for (const MeshPtr& mesh : graph.meshes) taken_.insert(mesh->name);
  }
  std::string operator()(const std::string& name) {
    std::string fresh = name;
    while (!taken_.insert(fresh).second) fresh = fmt::format("{}_{}", name, counter_++);
    return fresh;
  }
  int counter() const { return counter_; }

 private:
  std::set<std::string> taken_;
  int counter_;
};

// A copy of a function and, recursively, of everything that it calls. Returns its name.
std::string clone_function(Graph& graph, int function, FreshNames& names) {
  Function clone = graph.functions[function];
  clone.attrs.set(kOriginalName, string_attr(original_name(clone)));
  if (clone.body.valid()) clone.body = clone_region(graph, clone.body);
  std::vector<NodeId> calls;
  if (clone.body.valid()) collect_calls(graph, clone.body, calls);
  for (NodeId call : calls) {
    const int callee = function_named(graph, callee_of(graph.node(call)));
    std::string name = clone_function(graph, callee, names);
    set_callee(graph.node(call), std::move(name));
  }
  clone.name = names(clone.name);
  graph.functions.push_back(clone);
  return clone.name;
}

// The shardings of arguments or results, open where one has none; empty where no one has any.
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
  terminator.name = op;
  terminator.def = find_op(op);
}

void post_order(const Graph& graph, int function, std::vector<uint8_t>& seen,
                std::vector<int>& order) {
  if (std::exchange(seen[function], 1)) return;
  for (NodeId call : calls_in(graph, function)) {
    const std::string callee = callee_of(graph.node(call));
    for (size_t i = 0; i < graph.functions.size(); ++i)
      if (graph.functions[i].name == callee) post_order(graph, static_cast<int>(i), seen, order);
  }
  order.push_back(function);
}

}  // namespace

std::vector<int> call_graph_post_order(const Graph& graph) {
  std::vector<uint8_t> seen(graph.functions.size());
  std::vector<int> order;
  for (size_t i = 0; i < graph.functions.size(); ++i)
    post_order(graph, static_cast<int>(i), seen, order);
  return order;
}

void order_functions_by_calls(Graph& graph) {
  const std::vector<int> order = call_graph_post_order(graph);
  std::vector<Function> functions;
  for (auto it = order.rbegin(); it != order.rend(); ++it)
    functions.push_back(std::move(graph.functions[*it]));
  graph.functions = std::move(functions);
}

void clone_callee(Graph& graph, NodeId call, int& counter) {
  FreshNames names(graph, counter);
  const int callee = function_named(graph, callee_of(graph.node(call)));
  std::string name = clone_function(graph, callee, names);
  set_callee(graph.node(call), std::move(name));
  counter = names.counter();
}

void flatten_call_graph(Graph& graph) {
  FreshNames names(graph);
  std::set<std::string> called;
  std::vector<NodeId> calls;
  for (int function : call_graph_post_order(graph))
    for (NodeId call : calls_in(graph, function)) calls.push_back(call);
  for (NodeId call : calls) {
    const std::string callee = callee_of(graph.node(call));
    if (called.insert(callee).second) continue;
    std::string name = clone_function(graph, function_named(graph, callee), names);
    set_callee(graph.node(call), std::move(name));
  }
}

void import_function_calls(Graph& graph, bool add_edges) {
  std::vector<NodeId> calls;
  for (int function : call_graph_post_order(graph))
    for (NodeId call : calls_in(graph, function)) calls.push_back(call);
  if (calls.empty()) return;
  GraphRewrite rewrite(graph);
  std::map<std::string, RegionId> moved;
  for (NodeId call : calls) {
    const std::string callee = callee_of(graph.node(call));
    const int index = function_named(graph, callee);
    const Function& function = graph.functions[index];
    std::vector<Type> types;
    for (ValueId result : graph.node(call).results) types.push_back(graph.type(result));
    AttrDict attrs;
    for (const NamedAttribute& attr : graph.node(call).attrs.entries())
      if (attr.name != kShardingAttr && attr.name != "callee" && attr.name != "no_inline")
        attrs.set(attr.name, attr.value);
    attrs.set("name", string_attr(original_name(function)));
    auto in = shardings_of(function.arg_attrs, function.arg_types);
    if (!in.empty()) attrs.set("in_shardings", ShardingsAttr{std::move(in)});
    auto out = get_shardings(graph.node(call), kShardingAttr);
    if (!out.empty()) attrs.set("out_shardings", ShardingsAttr{std::move(out)});
    if (const Attribute* thread = function.attrs.find(kExecutionThread))
      attrs.set(kExecutionThread, *thread);
    const std::vector<ValueId> operands = graph.node(call).operands;
    const NodeId computation =
        graph.add_node("sdy.named_computation", operands, std::move(types), std::move(attrs));
    RegionId body;
    if (auto it = moved.find(callee); it != moved.end()) {
      body = clone_region(graph, it->second);
    } else {
      body = graph.functions[index].body;
      retarget_terminator(graph, body, "sdy.return");
      moved.emplace(callee, body);
    }
    graph.node(computation).regions.push_back(body);
    graph.region(body).owner = computation;
    // In place: the call may stand in a body that has moved already.
    graph.insert_before(call, computation);
    for (size_t r = 0; r < graph.node(call).results.size(); ++r)
      rewrite.replace_uses(graph.node(call).results[r], graph.node(computation).results[r]);
    rewrite.erase(call);
  }
  std::erase_if(graph.functions,
                [&](const Function& function) { return moved.contains(function.name); });
  rewrite.apply();
  if (add_edges)
    add_data_flow_edges(graph, [](const Node& node) { return is<op::NamedComputation>(node); });
}

void export_named_computations(Graph& graph) {
  std::vector<NodeId> computations;
  auto collect = [&](auto&& self, RegionId region) -> void {
    for (NodeId id : graph.region(region).nodes) {
      for (RegionId inner : graph.node(id).regions) self(self, inner);
      if (is<op::NamedComputation>(graph.node(id))) computations.push_back(id);
    }
  };
  for (const Function& function : graph.functions)
    if (function.body.valid()) collect(collect, function.body);
  if (computations.empty()) return;

  // The edges of named computations go, after their shardings are on the computations.
  std::vector<NodeId> edge_of(graph.num_values());
  graph.walk([&](NodeId id) {
    if (is<op::DataFlowEdge>(graph.node(id))) edge_of[graph.node(id).operands[0].index] = id;
  });
  GraphRewrite rewrite(graph);
  auto sink = [&](NodeId id, std::string_view attr, const std::vector<ValueId>& owners) {
    MeshPtr mesh;
    std::vector<std::optional<ShardingSpec>> found;
    for (ValueId owner : owners) {
      const NodeId edge = edge_of[owner.index];
      found.push_back(edge.valid() ? get_sharding(graph, graph.node(edge).results[0])
                                   : std::nullopt);
      if (found.back() && !mesh) mesh = found.back()->mesh;
      if (!edge.valid()) continue;
      rewrite.replace_uses(graph.node(edge).results[0], owner);
      rewrite.erase(edge);
    }
    if (!mesh) return;
    std::vector<ShardingSpec> specs;
    for (size_t i = 0; i < owners.size(); ++i)
      specs.push_back(found[i] ? *found[i]
                               : ShardingSpec::fully_open(mesh, graph.type(owners[i]).rank()));
    set_shardings(graph.node(id), attr, std::move(specs));
  };
  FreshNames names(graph);
  for (NodeId id : computations) {
    const RegionId body = graph.node(id).regions[0];
    sink(id, "in_shardings", graph.region(body).args);
    sink(id, "out_shardings", graph.node(id).results);
    const Node& node = graph.node(id);
    Function function;
    const std::string name(node.attrs.get_string("name"));
    // Marks of transforms (checkpoint, custom derivatives) keep their meaning.
    if (name.starts_with("cleave.")) continue;
    function.name = names(name);
    function.visibility = "private";
    function.body = body;
    function.attrs.set(kOriginalName, string_attr(name));
    for (ValueId arg : graph.region(body).args) function.arg_types.push_back(graph.type(arg));
    for (ValueId result : node.results) function.result_types.push_back(graph.type(result));
    function.arg_attrs.resize(function.arg_types.size());
    function.result_attrs.resize(function.result_types.size());
    const auto in = get_shardings(node, "in_shardings");
    for (size_t i = 0; i < in.size(); ++i)
      function.arg_attrs[i].set(kShardingAttr, ShardingAttr{in[i]});
    AttrDict attrs;
    for (const NamedAttribute& attr : node.attrs.entries()) {
      if (attr.name == kExecutionThread) function.attrs.set(kExecutionThread, attr.value);
      if (attr.name == kExecutionThread || attr.name == "name" || attr.name == "in_shardings")
        continue;
      attrs.set(attr.name == "out_shardings" ? kShardingAttr : std::string_view(attr.name),
                attr.value);
    }
    attrs.set("callee", SymbolRefAttr{function.name, {}});
    std::vector<Type> types = function.result_types;
    const std::vector<ValueId> operands = node.operands;
    retarget_terminator(graph, body, "func.return");
    graph.region(body).owner = {};
    graph.node(id).regions.clear();
    graph.functions.push_back(std::move(function));
    const NodeId call = graph.add_node("func.call", operands, std::move(types), std::move(attrs));
    graph.insert_before(id, call);
    for (size_t r = 0; r < graph.node(id).results.size(); ++r)
      rewrite.replace_uses(graph.node(id).results[r], graph.node(call).results[r]);
    rewrite.erase(id);
  }
  rewrite.apply();
}

void unflatten_call_graph(Graph& graph, bool ignore_shardings) {
  struct Key {
    std::string name;
    std::vector<std::string> manual;
    std::vector<ShardingSpec> in, out;
    bool operator==(const Key&) const = default;
  };
  auto key_of = [&](const Function& function, bool ignore) {
    Key key{original_name(function), {}, {}, {}};
    const Attribute* attr = function.attrs.find(kManualAxes);
    if (const auto* manual = attr ? attr->as<ManualAxesAttr>() : nullptr) key.manual = manual->axes;
    if (ignore) return key;
    key.in = shardings_of(function.arg_attrs, function.arg_types);
    key.out = shardings_of(function.result_attrs, function.result_types);
    return key;
  };
  struct Entry {
    Key key;
    int function;
  };
  std::vector<Entry> cache;
  std::vector<std::pair<Key, int>> counts;
  auto count_of = [&](const Key& key) -> int& {
    for (auto& [known, count] : counts)
      if (known == key) return count;
    return counts.emplace_back(key, 0).second;
  };
  std::vector<NodeId> calls;
  for (size_t f = 0; f < graph.functions.size(); ++f)
    for (NodeId call : calls_in(graph, static_cast<int>(f))) calls.push_back(call);
  auto entry_of = [&](NodeId call) -> Entry& {
    const int function = function_named(graph, callee_of(graph.node(call)));
    Key key = key_of(graph.functions[function], ignore_shardings);
    for (Entry& entry : cache)
      if (entry.key == key) return entry;
    return cache.emplace_back(Entry{std::move(key), function});
  };
  for (NodeId call : calls) entry_of(call);
  if (ignore_shardings)
    for (NodeId call : calls) {
      const int function = function_named(graph, callee_of(graph.node(call)));
      const int count = ++count_of(key_of(graph.functions[function], false));
      Entry& entry = entry_of(call);
      if (count > count_of(key_of(graph.functions[entry.function], false)))
        entry.function = function;
    }
  for (NodeId call : calls) {
    std::string name = graph.functions[entry_of(call).function].name;
    set_callee(graph.node(call), std::move(name));
  }
  for (Function& function : graph.functions) {
    function.attrs.erase(kOriginalName);
    function.attrs.erase(kManualAxes);
  }
}

void remove_unused_functions(Graph& graph) {
  if (std::none_of(graph.functions.begin(), graph.functions.end(),
                   [](const Function& function) { return function.visibility == "private"; }))
    return;
  while (true) {
    std::set<std::string> used;
    graph.walk([&](NodeId id) {
      for (const NamedAttribute& attr : graph.node(id).attrs.entries()) {
        if (const auto* symbol = attr.value.as<SymbolRefAttr>()) used.insert(symbol->root);
        if (const auto* array = attr.value.as<ArrayAttr>())
          for (const Attribute& element : array->elements)
            if (const auto* symbol = element.as<SymbolRefAttr>()) used.insert(symbol->root);
      }
    });
    if (!std::erase_if(graph.functions, [&](const Function& function) {
          return function.visibility == "private" && !used.contains(function.name);
        }))
      return;
  }
}

void propagate_shardings_from_functions_to_calls(Graph& graph) {
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    if (!is<op::Call>(node) || node.attrs.has(kShardingAttr)) return;
    const Function& callee = graph.functions[function_named(graph, callee_of(node))];
    auto specs = shardings_of(callee.result_attrs, callee.result_types);
    if (!specs.empty()) set_shardings(node, kShardingAttr, std::move(specs));
  });
}

void propagate_to_function_results(Graph& graph) {
  const int main = main_function(graph);
  for (size_t f = 0; f < graph.functions.size(); ++f) {
    Function& function = graph.functions[f];
    if (static_cast<int>(f) == main || !function.body.valid()) continue;
    const Node& terminator = graph.node(graph.terminator(function.body));
    for (size_t i = 0; i < terminator.operands.size(); ++i) {
      if (const auto spec = get_sharding(graph, terminator.operands[i])) {
        function.result_attrs[i].set(kShardingAttr, ShardingAttr{*spec});
      } else {
        function.result_attrs[i].erase(kShardingAttr);
      }
    }
  }
}

void insert_call_reshards(Graph& graph) {
  GraphRewrite rewrite(graph);
  auto same = [](const ShardingSpec& a, const std::optional<ShardingSpec>& b) {
    if (a.is_fully_replicated()) return !b || b->is_fully_replicated();
    return b && a.same_layout(*b);
  };
  graph.walk([&](NodeId id) {
    if (!is<op::Call>(graph.node(id))) return;
    const Function& callee = graph.functions[function_named(graph, callee_of(graph.node(id)))];
    std::vector<ShardingSpec> returned = shardings_of(callee.result_attrs, callee.result_types);
    const std::vector<ShardingSpec> wanted = get_shardings(graph.node(id), kShardingAttr);
    if (returned.empty()) {
      if (wanted.empty()) return;
      for (const ShardingSpec& spec : wanted)
        returned.push_back(ShardingSpec::closed_replicated(spec.mesh, spec.rank()));
    }
    const std::vector<ValueId> results = graph.node(id).results;
    // Each right behind the call: those of later results stand first.
    for (size_t i = results.size(); i-- > 0;) {
      const auto want = i < wanted.size() ? std::optional(wanted[i]) : std::nullopt;
      if (same(returned[i], want)) continue;
      AttrDict attrs;
      attrs.set("sharding", ShardingAttr{want ? *want
                                              : ShardingSpec::closed_replicated(
                                                    returned[i].mesh, returned[i].rank())});
      const Type type = graph.type(results[i]);
      const NodeId reshard = graph.add_node("sdy.reshard", {results[i]}, {type}, std::move(attrs));
      rewrite.insert_after(id, reshard);
      rewrite.replace_uses(results[i], graph.node(reshard).results[0], reshard);
    }
    set_shardings(graph.node(id), kShardingAttr, std::move(returned));
  });
  rewrite.apply();
}

void add_function_data_flow_edges(Graph& graph) {
  const int main = main_function(graph);
  GraphRewrite rewrite(graph);
  auto make_edge = [&](ValueId value) {
    AttrDict attrs;
    if (const auto spec = get_sharding(graph, value))
      attrs.set(kShardingAttr, ShardingsAttr{{*spec}});
    const Type type = graph.type(value);
    const NodeId edge =
        graph.add_node("sdy.func_data_flow_edge", {value}, {type}, std::move(attrs));
    rewrite.replace_uses(value, graph.node(edge).results[0], edge);
    return edge;
  };
  auto is_static = [&](ValueId value) {
    return graph.type(value).is_tensor() && graph.type(value).has_static_shape();
  };
  for (size_t f = 0; f < graph.functions.size(); ++f) {
    if (static_cast<int>(f) == main || !graph.functions[f].body.valid()) continue;
    const RegionId body = graph.functions[f].body;
    const std::vector<ValueId> args = graph.region(body).args;
    for (ValueId arg : args)
      if (is_static(arg)) rewrite.insert_at_start(body, make_edge(arg));
  }
  graph.walk([&](NodeId id) {
    if (!is<op::Call>(graph.node(id))) return;
    const std::vector<ValueId> results = graph.node(id).results;
    for (ValueId result : results)
      if (is_static(result)) rewrite.insert_after(id, make_edge(result));
  });
  rewrite.apply();
}

void sink_function_data_flow_edges(Graph& graph) {
  GraphRewrite rewrite(graph);
  graph.walk([&](NodeId id) {
    if (!is<op::FuncDataFlowEdge>(graph.node(id))) return;
    const ValueId operand = graph.node(id).operands[0], result = graph.node(id).results[0];
    const auto old = get_sharding(graph, operand);
    if (const auto spec = get_sharding(graph, result)) {
      set_sharding(graph, operand, *spec);
    } else if (old) {
      set_sharding(graph, operand, ShardingSpec::fully_open(old->mesh, old->rank()));
    }
    rewrite.replace_uses(result, operand);
    rewrite.erase(id);
  });
  rewrite.apply();
}

}  // namespace cleave
