#include "cleave/discover/op_call.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"

namespace cleave {
namespace {

Domain domain_of(std::string_view text) {
  if (text == "nonzero") return Domain::NonZero;
  if (text == "positive") return Domain::Positive;
  if (text == "bool") return Domain::Bool;
  if (text == "index") return Domain::Index;
  if (text == "sorted") return Domain::Sorted;
  if (text == "definite") return Domain::Definite;
  throw_user("discover.domain \"{}\" is none of nonzero, positive, bool, index, sorted, definite",
             text);
}

std::optional<std::vector<int64_t>> as_ints(const Attribute& attribute) {
  if (auto* dense = attribute.as<DenseArrayAttr>())
    return dense->floats.empty() ? std::optional(dense->ints) : std::nullopt;
  auto* array = attribute.as<ArrayAttr>();
  if (!array) return std::nullopt;
  std::vector<int64_t> values;
  for (const Attribute& element : array->elements) {
    auto* integer = element.as<IntegerAttr>();
    if (!integer) return std::nullopt;
    values.push_back(integer->value);
  }
  return values;
}

std::optional<AttrValue> as_value(const Attribute& attribute) {
  if (auto* value = attribute.as<bool>()) return *value;
  if (auto* value = attribute.as<IntegerAttr>())
    return value->type.dtype == DType::Bool ? AttrValue(value->value != 0)
                                            : AttrValue(value->value);
  if (auto* value = attribute.as<FloatAttr>()) return value->value;
  if (auto* value = attribute.as<StringAttr>()) return value->value;
  if (auto* value = attribute.as<EnumAttr>()) return value->value;
  if (auto ints = as_ints(attribute)) return *ints;
  return std::nullopt;
}

// The attribute with another value of the same kind.
Attribute changed(const Attribute& old, const AttrValue& value) {
  if (auto* integer = old.as<IntegerAttr>()) {
    if (auto* flag = std::get_if<bool>(&value)) return IntegerAttr{*flag, integer->type};
    return IntegerAttr{std::get<int64_t>(value), integer->type};
  }
  if (old.as<bool>()) return Attribute(std::get<bool>(value));
  if (auto* number = old.as<FloatAttr>()) return FloatAttr{std::get<double>(value), number->type};
  if (old.as<StringAttr>()) return string_attr(std::get<std::string>(value));
  if (auto* choice = old.as<EnumAttr>())
    return EnumAttr{choice->name, std::get<std::string>(value)};
  const auto& ints = std::get<std::vector<int64_t>>(value);
  if (auto* dense = old.as<DenseArrayAttr>()) return DenseArrayAttr{dense->dtype, ints, {}};
  ArrayAttr array;
  for (int64_t element : ints) array.elements.push_back(int_attr(element));
  return array;
}

// The op of a region with one op that combines two scalars.
Node* reducer_of(Graph& graph, const Node& node) {
  if (node.regions.empty()) return nullptr;
  const Region& region = graph.region(node.regions.front());
  if (region.nodes.size() != 2) return nullptr;
  Node& op = graph.node(region.nodes.front());
  return op.attrs.empty() && op.operands.size() == 2 ? &op : nullptr;
}

void set_attribute(Graph& graph, Node& node, const std::string& name, const AttrValue& value) {
  if (name == "result") {
    graph.value(node.results[0]).type.shape = std::get<std::vector<int64_t>>(value);
    return;
  }
  if (name == "body") {
    Node& reducer = *reducer_of(graph, node);
    reducer.def = &op_named(std::get<std::string>(value));
    if (reducer.def->opaque)
      throw_user("body '{}' is no op; write it as stablehlo.add", reducer.name());
    return;
  }
  if (const Attribute* old = node.attrs.find(name)) {
    node.attrs.set(name, changed(*old, value));
    return;
  }
  for (const NamedAttribute& entry : node.attrs.entries()) {
    auto* fields = entry.value.as<StructAttr>();
    if (!fields || !fields->find(name)) continue;
    StructAttr copy = *fields;
    for (NamedAttribute& field : copy.fields)
      if (field.name == name) field.value = changed(field.value, value);
    node.attrs.set(entry.name, std::move(copy));
    return;
  }
  throw_internal("{} has no attribute {}", node.name(), name);
}

bool is_shown(std::string_view name) {
  return name.find('.') == std::string_view::npos && name != "backend_config";
}

// What the op infers from its operands, attributes and, if they count, declared results.
std::vector<Type> inferred(const Graph& graph, const Node& node) {
  std::vector<Type> types;
  for (ValueId result : node.results) types.push_back(graph.type(result));
  return node.def->infer ? node.def->infer(graph, node) : types;
}

}  // namespace

NodeId called_op(const Graph& call) {
  const Region& body = call.region(call.find_function("main")->body);
  NodeId op;
  for (NodeId id : body.nodes) {
    const Node& node = call.node(id);
    if (!node.def->opaque && !node.def->has(kTerminator) && !node.operands.empty()) op = id;
  }
  internal_check(op.valid(), "a call without an op");
  return op;
}

std::vector<std::optional<size_t>> arguments_of(const Graph& call) {
  const std::vector<ValueId>& args = call.region(call.find_function("main")->body).args;
  std::vector<std::optional<size_t>> arguments;
  for (ValueId operand : call.node(called_op(call)).operands) {
    const auto it = std::find(args.begin(), args.end(), operand);
    arguments.push_back(it == args.end() ? std::nullopt : std::optional<size_t>(it - args.begin()));
  }
  return arguments;
}

std::vector<Placement> with_constants(const Graph& call, const std::vector<Placement>& arguments) {
  std::vector<Placement> operands;
  for (const std::optional<size_t>& argument : arguments_of(call))
    operands.push_back(argument ? arguments[*argument] : Placement::replicate());
  return operands;
}

bool has_explicit_result(const Graph& call) {
  Graph changed = call;
  const Node& node = changed.node(called_op(changed));
  if (!node.def->infer) return true;
  if (node.results.size() != 1) return false;
  // One more dimension of size 1 changes nothing else, and is taken if the shape is free.
  Type& type = changed.value(node.results[0]).type;
  type.shape.push_back(1);
  const Type longer = type;
  try {
    return node.def->infer(changed, node).front().shape == longer.shape;
  } catch (const UserError&) {
    return false;
  }
}

Sample sample_of_arguments(const Graph& call) {
  const Function& main = *call.find_function("main");
  Sample sample;
  for (size_t i = 0; i < main.arg_types.size(); ++i) {
    TensorDesc desc{main.arg_types[i].dtype, main.arg_types[i].shape};
    const AttrDict& attrs = main.arg_attrs[i];
    if (attrs.has("discover.domain")) desc.domain = domain_of(attrs.get_string("discover.domain"));
    desc.limit = attrs.get_int("discover.limit", 0);
    sample.operands.push_back(std::move(desc));
  }
  return sample;
}

Sample sample_of(const Graph& call) {
  Sample sample = sample_of_arguments(call);
  Graph copy = call;
  const Node& node = copy.node(called_op(copy));
  auto add = [&](const NamedAttribute& entry) {
    if (auto value = as_value(entry.value); value && is_shown(entry.name))
      sample.attrs[entry.name] = *value;
  };
  for (const NamedAttribute& entry : node.attrs.entries()) {
    add(entry);
    if (auto* fields = entry.value.as<StructAttr>())
      for (const NamedAttribute& field : fields->fields) add(field);
  }
  if (const Node* reducer = reducer_of(copy, node)) sample.attrs["body"] = reducer->name();
  if (has_explicit_result(call) && node.results.size() == 1)
    sample.attrs["result"] = call.result_type(node).shape;
  return sample;
}

Graph with_sample(const Graph& call, const std::vector<TensorDesc>& operands,
                  const AttrMap& attrs) {
  Graph graph = call;
  Function& main = *graph.find_function("main");
  if (operands.size() != main.arg_types.size())
    throw_user("{} takes {} operands here, {} given", call.node(called_op(call)).name(),
               main.arg_types.size(), operands.size());
  const std::vector<ValueId> args = graph.region(main.body).args;
  for (size_t i = 0; i < operands.size(); ++i) {
    graph.value(args[i]).type = Type::tensor(operands[i].dtype, operands[i].shape);
    main.arg_types[i] = graph.type(args[i]);
  }
  Node& node = graph.node(called_op(graph));
  for (const auto& [name, value] : attrs) set_attribute(graph, node, name, value);
  try {
    const std::vector<Type> types = inferred(graph, node);
    for (size_t r = 0; r < types.size(); ++r) graph.value(node.results[r]).type = types[r];
    if (node.def->verify) node.def->verify(graph, node);
  } catch (const UserError& error) {
    if (attrs.empty()) throw;
    throw_user("{}\n  attributes here: {}", error.what(), to_string(attrs));
  }
  const Node& end = graph.node(graph.terminator(main.body));
  for (size_t r = 0; r < end.operands.size(); ++r)
    main.result_types[r] = graph.type(end.operands[r]);
  return graph;
}

}  // namespace cleave
