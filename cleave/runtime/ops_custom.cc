#include "cleave/runtime/ops_custom.h"

#include "cleave/core/error.h"
#include "cleave/runtime/record.h"

namespace cleave {

std::vector<Tensor> custom_call(const std::string& name, std::span<const Tensor> operands,
                                const AttrDict& attrs, std::vector<Type> results) {
  std::vector<Type> types;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].valid())
      throw_user("{}: operand {} is an empty Tensor: assign it a value first", name, i);
    types.push_back(operands[i].type());
  }
  if (results.empty()) results = registered_types(name, types, attrs);
  Graph graph;
  GraphBuilder builder = GraphBuilder::function(graph, "main", types);
  std::vector<ValueId> values;
  for (size_t i = 0; i < types.size(); ++i) values.push_back(builder.arg(i));
  // As JAX writes a call of a foreign function.
  constexpr int64_t kTypedForeignFunction = 4;
  AttrDict all;
  all.set("call_target_name", string_attr(name));
  if (!attrs.empty()) {
    all.set("api_version", int_attr(kTypedForeignFunction, DType::I32));
    all.set("mhlo.backend_config", DictAttr{attrs});
  }
  const NodeId node =
      graph.add_node("stablehlo.custom_call", std::move(values), std::move(results), all);
  graph.append(builder.region(), node);
  builder.finish(graph.node(node).results);
  return record_function(std::move(graph), operands);
}

Tensor custom_call_one(const std::string& name, std::initializer_list<Tensor> operands,
                       const AttrDict& attrs) {
  std::vector<Tensor> results = custom_call(name, operands, attrs);
  if (results.size() != 1)
    throw_user("{} has {} results; custom_call gives them all", name, results.size());
  return std::move(results[0]);
}

}  // namespace cleave
