#include "cleave/compile/fusion_writer.h"

#include <functional>

#include "cleave/graph/cloner.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave {

bool has_static_tensor(const Graph& graph, ValueId value) {
  const Type& type = graph.type(value);
  return type.is_tensor() && type.has_static_shape() && has_kernels(type.dtype);
}

bool is_splat_constant(const Node& node) {
  if (!node.def->has(kConstantLike)) return false;
  const Attribute* value = node.attrs.find("value");
  const ElementsAttr* elements = value ? value->as<ElementsAttr>() : nullptr;
  return elements && (elements->literal.splat || elements->literal.num_elements() == 1);
}

bool is_cheap_leaf(const Graph& graph, const Node& node) {
  if (node.results.size() != 1 || !has_static_tensor(graph, node.results[0])) return false;
  if (is<op::BroadcastInDim>(node)) return has_static_tensor(graph, node.operands[0]);
  return is<op::Iota>(node) || is_splat_constant(node);
}

void leaf_sources(const Graph& graph, ValueId value, std::vector<ValueId>& sources) {
  const NodeId id = graph.value(value).producer;
  if (!id.valid() || !is_cheap_leaf(graph, graph.node(id))) {
    sources.push_back(value);
    return;
  }
  for (ValueId operand : graph.node(id).operands) leaf_sources(graph, operand, sources);
}

NodeId write_fusion(Graph& graph, RegionId region, const std::vector<NodeId>& nodes,
                    const std::vector<ValueId>& outputs) {
  std::vector<Type> types;
  for (ValueId value : outputs) types.push_back(graph.type(value));
  const NodeId fusion = graph.add_node("cleave.fusion", {}, types);
  graph.node(fusion).parent = region;
  const RegionId body = graph.add_region(fusion);
  std::vector<ValueId> operands;
  Cloner clone(graph, ValueMap::sparse());
  std::function<ValueId(ValueId)> import = [&](ValueId value) {
    if (const ValueId here = clone.values()[value]; here.valid()) return here;
    const NodeId leaf = graph.value(value).producer;
    if (!leaf.valid() || !is_cheap_leaf(graph, graph.node(leaf))) {
      operands.push_back(value);
      clone.map(value, graph.add_argument(body, graph.type(value)));
      return clone.mapped(value);
    }
    const std::vector<ValueId> sources = graph.node(leaf).operands;
    for (ValueId source : sources) import(source);
    clone.copy(leaf, body);
    return clone.mapped(value);
  };
  for (NodeId id : nodes) {
    for (size_t i = 0; i < graph.node(id).operands.size(); ++i) {
      const ValueId imported = import(graph.node(id).operands[i]);
      graph.node(id).operands[i] = imported;
    }
    graph.append(body, id);
    for (ValueId result : graph.node(id).results) clone.map(result, result);
  }
  graph.append(body, graph.add_node("stablehlo.return", outputs, {}));
  graph.node(fusion).operands = operands;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ValueId result = graph.node(fusion).results[i];
    graph.value(result).name = graph.value(outputs[i]).name;
  }
  return fusion;
}

}  // namespace cleave
