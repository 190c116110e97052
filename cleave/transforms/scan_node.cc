#include "cleave/transforms/scan_node.h"

#include "cleave/graph/flow.h"
#include "cleave/graph/op_def.h"
#include "cleave/ops/op.h"

namespace cleave {

namespace {

Attribute segments(size_t first, size_t second) {
  return DenseArrayAttr{
      DType::I32, {static_cast<int64_t>(first), static_cast<int64_t>(second)}, {}};
}

// Constants that the body uses are copied into it; other values from outside come as carries.
void close_body(Graph& graph, ScanBody& body, std::vector<ValueId>& carries) {
  RegionId region = graph.add_region();
  adopt(graph, region, body.args, body.nodes);
  end_region(graph, region, "stablehlo.return", [&] {
    std::vector<ValueId> all = body.outputs;
    all.insert(all.end(), body.carries.begin(), body.carries.end());
    return all;
  }());
  const std::vector<ValueId> captured = captured_values(graph, {region});
  graph.region(region).nodes.pop_back();
  ValueTable inner;
  Cloner clone(graph, &inner);
  std::vector<NodeId> constants;
  for (ValueId value : captured) {
    const NodeId producer = graph.value(value).producer;
    const bool constant = producer.valid() && graph.node(producer).def->has(kConstantLike);
    if (constant) {
      constants.push_back(clone.shell(producer));
      graph.node(constants.back()).parent = region;
    } else {
      const Type type = graph.type(value);
      const ValueId arg = graph.add_argument(region, type);
      inner.set(value, arg);
      carries.push_back(value);
      body.carries.push_back(arg);
    }
  }
  for (NodeId node : body.nodes) replace_operands(graph, node, inner);
  body.outputs = inner.map(body.outputs);
  body.carries = inner.map(body.carries);
  body.nodes.insert(body.nodes.begin(), constants.begin(), constants.end());
  body.args = graph.region(region).args;
}

}  // namespace

std::vector<ValueId> write_scan(GraphBuilder& b, std::vector<ValueId> inputs,
                                std::vector<ValueId> carries, ScanBody body, bool is_reverse) {
  Graph& graph = b.graph();
  const size_t wanted = body.outputs.size() + body.carries.size();
  const int64_t steps = graph.type(inputs[0]).shape[0];
  close_body(graph, body, carries);
  std::vector<Type> types;
  for (ValueId out : body.outputs) {
    Type type = graph.type(out);
    type.shape.insert(type.shape.begin(), steps);
    types.push_back(std::move(type));
  }
  for (ValueId carry : body.carries) types.push_back(graph.type(carry));
  AttrDict attrs;
  attrs.set("dimension", int_attr(0));
  attrs.set("operandSegmentSizes", segments(inputs.size(), carries.size()));
  attrs.set("resultSegmentSizes", segments(body.outputs.size(), body.carries.size()));
  if (is_reverse) attrs.set("is_reverse", true);
  std::vector<ValueId> operands = std::move(inputs);
  operands.insert(operands.end(), carries.begin(), carries.end());
  const NodeId node =
      graph.add_node("chlo.scan", std::move(operands), std::move(types), std::move(attrs));
  const RegionId region = graph.add_region(node);
  adopt(graph, region, body.args, body.nodes);
  std::vector<ValueId> returned = body.outputs;
  returned.insert(returned.end(), body.carries.begin(), body.carries.end());
  end_region(graph, region, "stablehlo.return", std::move(returned));
  graph.append(b.region(), node);
  std::vector<ValueId> results = graph.node(node).results;
  results.resize(wanted);
  return results;
}

namespace {

// A scan whose body takes values from outside, closed.
void copy_open_scan(Graph& graph, Cloner& clone, NodeId source, RegionId target) {
  const Node node = graph.node(source);
  const ScanParts parts = scan_parts(node);
  const RegionId scratch = graph.add_region();
  clone.region(node.regions[0], scratch);
  const std::vector<ValueId> returned = graph.node(graph.terminator(scratch)).operands;
  auto split = [](const std::vector<ValueId>& all, size_t at) {
    const auto middle = all.begin() + static_cast<ptrdiff_t>(at);
    return std::pair(std::vector<ValueId>(all.begin(), middle),
                     std::vector<ValueId>(middle, all.end()));
  };
  ScanBody body;
  body.args = graph.region(scratch).args;
  body.nodes = graph.region(scratch).nodes;
  body.nodes.pop_back();
  std::tie(body.outputs, body.carries) = split(returned, parts.outputs);
  auto [inputs, carries] = split(clone.mapped(node.operands), parts.inputs);
  GraphBuilder b(graph, target);
  const std::vector<ValueId> results =
      write_scan(b, std::move(inputs), std::move(carries), std::move(body),
                 node.attrs.get_bool("is_reverse", false));
  clone.map(node.results, results);
}

}  // namespace

void copy_closed(Graph& graph, NodeId source, RegionId target, ValueTable& table) {
  Cloner clone(graph, &table);
  clone.rewrite = [&](NodeId id, RegionId to) {
    const Node& node = graph.node(id);
    if (!is<op::Scan>(node) || captured_values(graph, node.regions).empty()) return false;
    copy_open_scan(graph, clone, id, to);
    return true;
  };
  clone.node(source, target);
}

}  // namespace cleave
