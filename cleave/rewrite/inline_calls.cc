#include <algorithm>
#include <set>
#include <utility>

#include "cleave/graph/cloner.h"
#include "cleave/ops/op.h"
#include "cleave/rewrite/simplify.h"

namespace cleave {
namespace {

class Inliner {
 public:
  Inliner(Graph& graph, const std::function<void(NodeId, NodeId)>& copied)
      : graph_(graph), copied_(copied) {}

  bool run() {
    for (size_t i = 0; i < graph_.functions.size(); ++i)
      if (graph_.functions[i].body.valid()) expand(graph_.functions[i].body);
    if (changed_) drop_unused();
    return changed_;
  }

 private:
  // A call is expanded inside the callee first, so that a body is copied in its final form.
  void expand(RegionId region) {
    if (!done_.insert(region.index).second) return;
    active_.insert(region.index);
    ValueMap renamed;
    const std::vector<NodeId> nodes = std::exchange(graph_.region(region).nodes, {});
    for (NodeId id : nodes) {
      replace_operands(graph_, id, renamed);
      const std::vector<RegionId> regions = graph_.node(id).regions;
      for (RegionId inner : regions) expand(inner);
      const RegionId body = callee(graph_.node(id));
      if (body.valid()) expand(body);
      if (!body.valid() || active_.count(body.index)) {
        graph_.append(region, id);
        continue;
      }
      Cloner clone(graph_, ValueMap::sparse());
      clone.copied = copied_;
      renamed.set(graph_.node(id).results,
                  clone.inline_body(body, std::vector(graph_.node(id).operands), region));
      changed_ = true;
    }
    active_.erase(region.index);
  }

  RegionId callee(const Node& node) const {
    if (!is<op::Call>(node)) return {};
    const Function* function = graph_.find_function(node.attrs.get_string("callee"));
    return function ? function->body : RegionId();
  }

  // A function stays if its name is written somewhere: in a call, a composite, a custom call.
  void drop_unused() {
    std::set<std::string, std::less<>> named;
    graph_.walk([&](NodeId id) {
      for (const NamedAttribute& attribute : graph_.node(id).attrs.entries())
        note_symbols(attribute.value, named);
    });
    std::erase_if(graph_.functions, [&](const Function& function) {
      return function.visibility == "private" && !named.count(function.name);
    });
  }
  static void note_symbols(const Attribute& attribute, std::set<std::string, std::less<>>& named) {
    if (const auto* symbol = attribute.as<SymbolRefAttr>()) named.insert(symbol->root);
    if (const auto* list = attribute.as<ArrayAttr>())
      for (const Attribute& element : list->elements) note_symbols(element, named);
    if (const auto* text = attribute.as<StringAttr>()) named.insert(text->value);
    if (const auto* dict = attribute.as<DictAttr>())
      for (const NamedAttribute& entry : dict->dict.entries()) note_symbols(entry.value, named);
  }

  Graph& graph_;
  const std::function<void(NodeId, NodeId)>& copied_;
  std::set<uint32_t> done_, active_;
  bool changed_ = false;
};

}  // namespace

bool inline_calls(Graph& graph, const std::function<void(NodeId from, NodeId to)>& copied) {
  return Inliner(graph, copied).run();
}

}  // namespace cleave
