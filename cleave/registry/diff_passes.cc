#include <algorithm>
#include <charconv>
#include <set>

#include "cleave/core/error.h"
#include "cleave/registry/pass_families.h"
#include "cleave/transforms/diff.h"

namespace cleave {
namespace {

// "0,2"
std::vector<size_t> parse_args(const std::string& text) {
  std::vector<size_t> args;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at != end) {
    size_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || (next != end && *next != ','))
      throw_user("args='{}': expected numbers of arguments such as args=0,2", text);
    args.push_back(value);
    at = next == end ? end : next + 1;
  }
  return args;
}

// Functions that nobody calls any more, private or the one that was differentiated.
void drop_unused(Graph& graph, const std::string& original) {
  while (true) {
    std::set<std::string, std::less<>> used;
    graph.walk([&](NodeId id) {
      const Node& node = graph.node(id);
      for (const NamedAttribute& entry : node.attrs.entries()) {
        if (const auto* symbol = entry.value.as<SymbolRefAttr>()) used.insert(symbol->root);
        if (const auto* dict = entry.value.as<DictAttr>())
          for (const NamedAttribute& inner : dict->dict.entries())
            if (const auto* symbol = inner.value.as<SymbolRefAttr>()) used.insert(symbol->root);
        if (const auto* list = entry.value.as<ArrayAttr>())
          for (const Attribute& element : list->elements)
            if (const auto* symbol = element.as<SymbolRefAttr>()) used.insert(symbol->root);
      }
    });
    const size_t before = graph.functions.size();
    std::erase_if(graph.functions, [&](const Function& function) {
      return (function.visibility == "private" || function.name == original) &&
             !used.contains(function.name);
    });
    if (graph.functions.size() == before) return;
  }
}

// The derivative takes the place and the name of the function.
void apply(Graph& graph, const PassOptions& options,
           std::string (*transform)(Graph&, std::string_view, const DiffOptions&)) {
  const std::string name = options.get("function", "main");
  const std::string made = transform(graph, name, {parse_args(options.get("args")), {}, true});
  const std::string old = name + "_of_derivative";
  Function* source = graph.find_function(name);
  if (!source) return;
  source->name = old;
  graph.walk([&](NodeId id) {
    Node& node = graph.node(id);
    for (const char* attr : {"callee", "decomposition"})
      if (const Attribute* value = node.attrs.find(attr);
          value && value->as<SymbolRefAttr>() && value->as<SymbolRefAttr>()->root == name)
        node.attrs.set(attr, SymbolRefAttr{old, {}});
  });
  drop_unused(graph, old);
  const auto it = std::ranges::find(graph.functions, made, &Function::name);
  it->name = name;
  std::rotate(graph.functions.begin(), it, it + 1);
  for (size_t& count : graph.functions_before_mesh) count = 0;
}

}  // namespace

void register_diff_passes(PassRegistry& registry) {
  const std::vector<std::string> options{"function", "args"};
  registry.add({"cleave-jvp", options,
                [](Graph& graph, const PassOptions& o, PassContext&) { apply(graph, o, jvp); }});
  registry.add({"cleave-vjp", options,
                [](Graph& graph, const PassOptions& o, PassContext&) { apply(graph, o, vjp); }});
  registry.add({"cleave-grad", options,
                [](Graph& graph, const PassOptions& o, PassContext&) { apply(graph, o, grad); }});
  registry.add(
      {"cleave-value-and-grad", options,
       [](Graph& graph, const PassOptions& o, PassContext&) { apply(graph, o, value_and_grad); }});
}

}  // namespace cleave
