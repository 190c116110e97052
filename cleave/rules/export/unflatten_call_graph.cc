#include <utility>

#include "cleave/graph/value_sharding.h"
#include "cleave/rules/call_graph.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void unflatten_call_graph(Graph& graph, bool ignore_shardings) {
  struct Key {
    std::string name;
    std::vector<std::string> manual;
    std::vector<ShardingSpec> in, out;
    bool operator==(const Key&) const = default;
  };
  auto key_of = [&](const Function& function, bool ignore) {
    Key key{original_name(function), {}, {}, {}};
    const Attribute* attr = function.attrs.find(kFunctionManualAxes);
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
    const int function = function_called(graph, graph.node(call));
    Key key = key_of(graph.functions[function], ignore_shardings);
    for (Entry& entry : cache)
      if (entry.key == key) return entry;
    return cache.emplace_back(Entry{std::move(key), function});
  };
  for (NodeId call : calls) entry_of(call);
  if (ignore_shardings)
    for (NodeId call : calls) {
      const int function = function_called(graph, graph.node(call));
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
    function.attrs.erase(kFunctionManualAxes);
  }
}

}  // namespace cleave
