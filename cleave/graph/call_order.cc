#include "cleave/graph/call_order.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cleave/core/error.h"

namespace cleave {
namespace {

constexpr size_t kMostCalls = 500;         // one inside the other
constexpr int64_t kMostOps = 100'000'000;  // of a function with its calls written out

void collect_symbols(const Attribute& attribute, std::vector<std::string_view>& symbols) {
  if (const auto* symbol = attribute.as<SymbolRefAttr>()) symbols.push_back(symbol->root);
  if (const auto* array = attribute.as<ArrayAttr>())
    for (const Attribute& element : array->elements) collect_symbols(element, symbols);
  if (const auto* dict = attribute.as<DictAttr>())
    for (const NamedAttribute& entry : dict->dict.entries()) collect_symbols(entry.value, symbols);
}

class CallOrder {
 public:
  explicit CallOrder(const Graph& graph) : graph_(graph), functions_(graph.functions.size()) {
    for (size_t f = 0; f < graph.functions.size(); ++f)
      if (!index_.emplace(graph.functions[f].name, f).second)
        throw_user("two functions are called @{}", graph.functions[f].name);
    for (size_t f = 0; f < graph.functions.size(); ++f) collect(f);
  }

  void run() {
    for (size_t f = 0; f < functions_.size(); ++f)
      if (functions_[f].state == State::New) visit(f);
  }

 private:
  enum class State { New, Open, Done };
  struct Entry {
    State state = State::New;
    std::vector<size_t> callees;  // as often as they are named
    int64_t ops = 0;              // with calls written out, once it is Done
    size_t depth = 1;             // of calls inside each other
  };

  void collect(size_t f) {
    Entry& entry = functions_[f];
    if (!graph_.functions[f].body.valid()) return;
    graph_.walk(graph_.functions[f].body, [&](NodeId id) {
      ++entry.ops;
      std::vector<std::string_view> symbols;
      for (const NamedAttribute& attribute : graph_.node(id).attrs.entries())
        collect_symbols(attribute.value, symbols);
      for (std::string_view symbol : symbols)
        if (const auto it = index_.find(symbol); it != index_.end())
          entry.callees.push_back(it->second);
    });
  }

  // With a stack of its own: a chain of calls may be as long as the module.
  void visit(size_t root) {
    struct Frame {
      size_t function;
      size_t next = 0;
    };
    std::vector<Frame> stack{{root}};
    functions_[root].state = State::Open;
    while (!stack.empty()) {
      Frame& top = stack.back();
      Entry& entry = functions_[top.function];
      if (top.next == entry.callees.size()) {
        entry.state = State::Done;
        stack.pop_back();
        continue;
      }
      const size_t callee = entry.callees[top.next];
      Entry& called = functions_[callee];
      if (called.state == State::Open) {
        std::string circle;
        bool inside = false;
        for (const Frame& frame : stack) {
          inside |= frame.function == callee;
          if (inside) circle += "@" + graph_.functions[frame.function].name + " -> ";
        }
        const std::string& name = graph_.functions[callee].name;
        throw_user("@{} calls itself: {}@{}; recursion is not supported", name, circle, name);
      }
      if (called.state == State::New) {
        called.state = State::Open;
        stack.push_back({callee});
        continue;
      }
      ++top.next;
      entry.depth = std::max(entry.depth, called.depth + 1);
      if (entry.depth > kMostCalls)
        throw_user("@{}: calls are nested more than {} deep", graph_.functions[top.function].name,
                   kMostCalls);
      entry.ops += called.ops;
      if (entry.ops > kMostOps)
        throw_user("@{}: with its calls written out it has more than {} ops",
                   graph_.functions[top.function].name, kMostOps);
    }
  }

  const Graph& graph_;
  std::unordered_map<std::string_view, size_t> index_;
  std::vector<Entry> functions_;
};

}  // namespace

void verify_call_order(const Graph& graph) { CallOrder(graph).run(); }

}  // namespace cleave
