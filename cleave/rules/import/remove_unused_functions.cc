#include <algorithm>
#include <set>

#include "cleave/rules/import/import_passes.h"

namespace cleave {

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

}  // namespace cleave
