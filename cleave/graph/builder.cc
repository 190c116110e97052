#include "cleave/graph/builder.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/local_op.h"
#include "cleave/graph/op_def.h"

namespace cleave {
GraphBuilder GraphBuilder::function(Graph& graph, std::string name, std::vector<Type> args) {
  Function function;
  function.name = std::move(name);
  function.visibility = "public";
  function.body = graph.add_region();
  function.arg_types = args;
  function.arg_attrs.resize(args.size());
  for (size_t i = 0; i < args.size(); ++i)
    graph.add_argument(function.body, std::move(args[i]), "arg" + std::to_string(i));
  const RegionId body = function.body;
  graph.functions.push_back(std::move(function));
  return {graph, body};
}

std::vector<ValueId> GraphBuilder::emit_all(std::string_view op, std::vector<ValueId> operands,
                                            AttrDict attrs) {
  const OpDef& def = op_named(op);
  if (!def.infer) throw_user("{}: the result type cannot be inferred; give it", op);
  // Inference needs a node; a probe without results serves, and stays dead.
  const NodeId probe = graph_.add_node(op, operands, {}, attrs);
  std::vector<Type> types = def.infer(graph_, graph_.node(probe));
  const NodeId node = graph_.add_node(op, std::move(operands), std::move(types), std::move(attrs));
  graph_.append(region_, node);
  return graph_.node(node).results;
}

ValueId GraphBuilder::emit(std::string_view op, std::vector<ValueId> operands, AttrDict attrs) {
  return emit_all(op, std::move(operands), std::move(attrs)).front();
}

ValueId GraphBuilder::emit_as(Type result, std::string_view op, std::vector<ValueId> operands,
                              AttrDict attrs) {
  const NodeId node =
      graph_.add_node(op, std::move(operands), {std::move(result)}, std::move(attrs));
  if (const OpDef* def = graph_.node(node).def; def->verify) def->verify(graph_, graph_.node(node));
  graph_.append(region_, node);
  return graph_.node(node).results.front();
}

ValueId GraphBuilder::constant(double value, DType dtype, Shape shape) {
  Literal literal = splat_literal(Type::tensor(dtype, std::move(shape)), value);
  const Type type = literal.type;
  AttrDict attrs;
  attrs.set("value", literal_attr(std::move(literal)));
  return emit_as(type, "stablehlo.constant", {}, std::move(attrs));
}

ValueId GraphBuilder::broadcast(ValueId value, Shape shape, std::vector<int64_t> dims) {
  AttrDict attrs;
  attrs.set("broadcast_dimensions", ints_attr(std::move(dims)));
  return emit_as(Type::tensor(dtype(value), std::move(shape)), "stablehlo.broadcast_in_dim",
                 {value}, std::move(attrs));
}

ValueId GraphBuilder::reshape(ValueId value, Shape new_shape) {
  if (num_elements(new_shape) != num_elements(shape(value)))
    throw_user("stablehlo.reshape: <{}> has {} elements and <{}> has {}", to_string(shape(value)),
               num_elements(shape(value)), to_string(new_shape), num_elements(new_shape));
  return emit_as(Type::tensor(dtype(value), std::move(new_shape)), "stablehlo.reshape", {value});
}

ValueId GraphBuilder::transpose(ValueId value, std::vector<int64_t> permutation) {
  AttrDict attrs;
  attrs.set("permutation", ints_attr(std::move(permutation)));
  return emit("stablehlo.transpose", {value}, std::move(attrs));
}

ValueId GraphBuilder::convert(ValueId value, DType to) {
  return emit_as(Type::tensor(to, shape(value)), "stablehlo.convert", {value});
}

ValueId GraphBuilder::compare(std::string_view direction, ValueId a, ValueId b) {
  AttrDict attrs;
  attrs.set("comparison_direction",
            EnumAttr{"stablehlo.comparison_direction", std::string(direction)});
  return emit("stablehlo.compare", {a, b}, std::move(attrs));
}

ValueId GraphBuilder::iota(DType dtype, Shape shape, int64_t dim) {
  AttrDict attrs;
  attrs.set("iota_dimension", int_attr(dim));
  return emit_as(Type::tensor(dtype, std::move(shape)), "stablehlo.iota", {}, std::move(attrs));
}

ValueId GraphBuilder::slice(ValueId value, std::vector<int64_t> start, std::vector<int64_t> limit) {
  AttrDict attrs;
  attrs.set("strides", ints_attr(std::vector<int64_t>(start.size(), 1)));
  attrs.set("start_indices", ints_attr(std::move(start)));
  attrs.set("limit_indices", ints_attr(std::move(limit)));
  return emit("stablehlo.slice", {value}, std::move(attrs));
}

ValueId GraphBuilder::reduce(ValueId value, std::string_view op, double init,
                             std::vector<int64_t> dims) {
  const ValueId start = constant(init, dtype(value));
  Shape reduced;
  for (size_t d = 0; d < shape(value).size(); ++d)
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) == dims.end())
      reduced.push_back(shape(value)[d]);
  const Type scalar = Type::tensor(dtype(value), {});
  AttrDict attrs;
  attrs.set("dimensions", ints_attr(std::move(dims)));
  const NodeId node =
      graph_.add_node("stablehlo.reduce", {value, start},
                      {Type::tensor(dtype(value), std::move(reduced))}, std::move(attrs));
  GraphBuilder body(graph_, graph_.add_region(node));
  const ValueId a = graph_.add_argument(body.region(), scalar);
  const ValueId b = graph_.add_argument(body.region(), scalar);
  body.finish({body.emit(op, {a, b})});
  graph_.append(region_, node);
  return graph_.node(node).results.front();
}

ValueId GraphBuilder::reduce_and_broadcast(ValueId value, std::string_view op, double init,
                                           std::vector<int64_t> dims) {
  std::vector<int64_t> kept;
  for (int64_t d = 0; d < static_cast<int64_t>(shape(value).size()); ++d)
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) kept.push_back(d);
  const Shape full = shape(value);
  return broadcast(reduce(value, op, init, std::move(dims)), full, std::move(kept));
}

void GraphBuilder::finish(std::vector<ValueId> results) {
  const bool is_function = !graph_.region(region_).owner.valid();
  if (is_function) {
    for (Function& function : graph_.functions) {
      if (function.body != region_) continue;
      for (ValueId value : results) function.result_types.push_back(type(value));
      function.result_attrs.resize(results.size());
    }
  }
  graph_.append(region_, graph_.add_node(is_function ? "func.return" : "stablehlo.return",
                                         std::move(results), {}));
}

}  // namespace cleave
