#include "cleave/graph/scalar_code.h"

#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

void add_symbols(const Attribute& attribute, std::vector<std::string>& names) {
  if (const auto* symbol = attribute.as<SymbolRefAttr>()) names.push_back(symbol->root);
  if (const auto* list = attribute.as<ArrayAttr>())
    for (const Attribute& element : list->elements) add_symbols(element, names);
}

}  // namespace

std::vector<std::string> functions_named_by(const Node& node) {
  std::vector<std::string> names;
  for (const NamedAttribute& attr : node.attrs.entries()) add_symbols(attr.value, names);
  return names;
}

std::set<std::string> scalar_functions(const Graph& graph) {
  std::vector<std::string> todo;
  auto collect = [&](RegionId region) {
    graph.walk(region, [&](NodeId id) {
      for (std::string& name : functions_named_by(graph.node(id))) todo.push_back(std::move(name));
    });
  };
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    for (const NamedAttribute& attr : node.attrs.entries())
      if (attr.value.as<ArrayAttr>()) add_symbols(attr.value, todo);
    if (node.def->has(kDataFlow)) return;
    for (RegionId region : node.regions) collect(region);
  });
  std::set<std::string> found;
  while (!todo.empty()) {
    const std::string name = std::move(todo.back());
    todo.pop_back();
    const Function* function = graph.find_function(name);
    if (!function || !function->body.valid() || !found.insert(name).second) continue;
    collect(function->body);
  }
  return found;
}

}  // namespace cleave
