#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {

// The elements of an array in row-major order, and an array of such.
template <typename T>
std::vector<T> values(const Array& array) {
  const Array packed = array.contiguous();
  return {packed.data<T>(), packed.data<T>() + packed.num_elements()};
}
template <typename T>
Array make(DType dtype, Shape shape, const std::vector<T>& data) {
  return Array::from_bytes(dtype, std::move(shape), data.data());
}

// A module in text, and what its ops say about themselves: not verified, so that tests see what
// types are inferred for what the verifier refuses.
//   Module m("func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> { ... }");
//   m.rule("stablehlo.dot"), m.run({x, y})
class Module {
 public:
  explicit Module(std::string_view text) : graph_(parse_module_unverified(text)) {}

  const Graph& graph() const { return graph_; }
  // The first op of that name.
  const Node& node(std::string_view op) const {
    const Node* found = nullptr;
    graph_.walk([&](NodeId id) {
      if (!found && graph_.node(id).name() == op) found = &graph_.node(id);
    });
    if (!found) throw InternalError("the module has no such op");
    return *found;
  }
  std::string rule(std::string_view op) const {
    return to_string(node(op).def->rule(graph_, node(op)));
  }
  OpShardingRule rule_of(std::string_view op) const { return node(op).def->rule(graph_, node(op)); }
  PartialTransfer partial(std::string_view op) const {
    return node(op).def->partial(graph_, node(op));
  }
  OpCost cost(std::string_view op) const { return node(op).def->cost(graph_, node(op)); }
  // What inference and verification say against the op; empty where nothing.
  std::string complaint(std::string_view op) const {
    try {
      const std::vector<Type> types = node(op).def->infer(graph_, node(op));
      for (size_t i = 0; i < types.size(); ++i)
        if (!(types[i] == graph_.result_type(node(op), i)))
          return "inferred " + cleave::to_string(types[i]);
      if (node(op).def->verify) node(op).def->verify(graph_, node(op));
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  std::vector<Array> run(std::vector<Array> args) const {
    return run_function(graph_, "main", args);
  }

 private:
  Graph graph_;
};

}  // namespace cleave
