#include <algorithm>
#include <set>

#include "cleave/graph/op_def.h"
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
  using Map = std::vector<ValueId>;  // by value, of those that have become another

  // A call is expanded inside the callee first, so that a body is copied in its final form.
  void expand(RegionId region) {
    if (!done_.insert(region.index).second) return;
    active_.insert(region.index);
    Map map;
    const std::vector<NodeId> nodes = graph_.region(region).nodes;
    std::vector<NodeId> list;
    for (NodeId id : nodes) {
      for (ValueId& operand : graph_.node(id).operands) operand = mapped(map, operand);
      const std::vector<RegionId> regions = graph_.node(id).regions;
      for (RegionId inner : regions) {
        rename(inner, map);
        expand(inner);
      }
      const RegionId body = callee(graph_.node(id));
      if (body.valid()) expand(body);
      if (!body.valid() || active_.count(body.index)) {
        list.push_back(id);
        continue;
      }
      const Node call = graph_.node(id);
      Map inside;
      set_all(inside, graph_.region(body).args, call.operands);
      const std::vector<NodeId> copies = graph_.region(body).nodes;
      for (NodeId inner : copies) {
        const Node node = graph_.node(inner);
        if (node.def && node.def->has(kTerminator)) {
          std::vector<ValueId> results;
          for (ValueId operand : node.operands) results.push_back(mapped(inside, operand));
          set_all(map, call.results, results);
          break;
        }
        list.push_back(copy(inner, region, inside));
      }
      changed_ = true;
    }
    graph_.region(region).nodes = std::move(list);
    active_.erase(region.index);
  }

  RegionId callee(const Node& node) const {
    if (!is<op::Call>(node)) return {};
    const Function* function = graph_.find_function(node.attrs.get_string("callee"));
    return function ? function->body : RegionId();
  }

  NodeId copy(NodeId from, RegionId region, Map& map) {
    const Node node = graph_.node(from);
    std::vector<ValueId> operands;
    for (ValueId operand : node.operands) operands.push_back(mapped(map, operand));
    std::vector<Type> types;
    for (ValueId result : node.results) types.push_back(graph_.type(result));
    const NodeId to = graph_.add_node(node.name, std::move(operands), std::move(types), node.attrs);
    graph_.node(to).parent = region;
    graph_.node(to).location = node.location;
    set_all(map, node.results, std::vector<ValueId>(graph_.node(to).results));
    for (RegionId source : node.regions) {
      const RegionId target = graph_.add_region(to);
      const std::vector<ValueId> args = graph_.region(source).args;
      for (ValueId arg : args) {
        const ValueId made = graph_.add_argument(target, graph_.type(arg), graph_.value(arg).name);
        set_all(map, {arg}, {made});
      }
      const std::vector<NodeId> nodes = graph_.region(source).nodes;
      for (NodeId inner : nodes) {
        const NodeId made = copy(inner, target, map);
        graph_.region(target).nodes.push_back(made);
      }
    }
    if (copied_) copied_(from, to);
    return to;
  }

  static ValueId mapped(const Map& map, ValueId value) {
    return value.index < map.size() && map[value.index].valid() ? map[value.index] : value;
  }
  static void set_all(Map& map, const std::vector<ValueId>& from, const std::vector<ValueId>& to) {
    for (size_t i = 0; i < from.size(); ++i) {
      if (map.size() <= from[i].index) map.resize(from[i].index + 1);
      map[from[i].index] = to[i];
    }
  }
  void rename(RegionId region, const Map& map) {
    for (NodeId id : graph_.region(region).nodes) {
      for (ValueId& operand : graph_.node(id).operands) operand = mapped(map, operand);
      for (RegionId inner : graph_.node(id).regions) rename(inner, map);
    }
  }

  // A function stays where its name is written somewhere: in a call, a composite, a custom call.
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
