#include "cleave/rewrite/rewriter.h"

#include <cmath>
#include <cstring>

#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/op.h"

namespace cleave {

bool Rewriter::run(const Rule& rule) {
  replaced_.assign(graph_.num_values(), {});
  for (size_t i = 0; i < graph_.functions.size(); ++i)
    if (graph_.functions[i].body.valid()) walk(graph_.functions[i].body, rule);
  return changed_;
}

void Rewriter::walk(RegionId region, const Rule& rule) {
  const std::vector<NodeId> nodes = graph_.region(region).nodes;
  std::vector<NodeId> list;
  list.reserve(nodes.size());
  for (NodeId id : nodes) {
    for (ValueId& operand : graph_.node(id).operands) operand = resolve(operand);
    const std::vector<RegionId> regions = graph_.node(id).regions;
    for (RegionId inner : regions) walk(inner, rule);
    list_ = &list;
    region_ = region;
    rule(*this, id);
    list.push_back(id);
  }
  graph_.region(region).nodes = std::move(list);
}

ValueId Rewriter::resolve(ValueId value) const {
  while (value.index < replaced_.size() && replaced_[value.index].valid())
    value = replaced_[value.index];
  return value;
}

const Node* Rewriter::producer(ValueId value) const {
  const NodeId id = graph_.value(value).producer;
  return id.valid() ? &graph_.node(id) : nullptr;
}

const Literal* Rewriter::constant(ValueId value) const {
  const Node* node = producer(value);
  if (!node || !node->def->has(kConstantLike) || is<op::Iota>(*node)) return nullptr;
  const Attribute* attribute = node->attrs.find("value");
  const ElementsAttr* elements = attribute ? attribute->as<ElementsAttr>() : nullptr;
  if (!elements || !elements->literal.bytes || elements->literal.type != type(value))
    return nullptr;
  return has_kernels(elements->literal.type.dtype) ? &elements->literal : nullptr;
}

ValueId Rewriter::emit(std::string_view op, std::vector<ValueId> operands, Type type,
                       AttrDict attrs) {
  const NodeId id = graph_.add_node(op, std::move(operands), {std::move(type)}, std::move(attrs));
  graph_.node(id).parent = region_;
  list_->push_back(id);
  changed_ = true;
  return graph_.node(id).results[0];
}

ValueId Rewriter::emit_constant(Literal literal) {
  AttrDict attrs;
  Type type = literal.type;
  attrs.set("value", literal_attr(std::move(literal)));
  return emit("stablehlo.constant", {}, std::move(type), std::move(attrs));
}

ValueId Rewriter::emit_reshape(ValueId value, Shape shape) {
  Type result = type(value);
  result.shape = std::move(shape);
  return emit("stablehlo.reshape", {value}, std::move(result));
}

void Rewriter::replace(ValueId from, ValueId to) {
  internal_check(type(from) == type(to), "a value is replaced by one of another type");
  if (replaced_.size() < graph_.num_values()) replaced_.resize(graph_.num_values());
  replaced_[from.index] = to;
  if (graph_.value(to).name.empty()) graph_.value(to).name = graph_.value(from).name;
  changed_ = true;
}

bool is_pinned(const Node& node) { return node.attrs.has("sdy.sharding"); }

std::optional<Literal> splat_of(const Literal& literal) {
  const auto size = static_cast<size_t>(byte_size(literal.type.dtype));
  const size_t count = literal.bytes->size() / size;
  if (count == 0) return std::nullopt;
  for (size_t i = 1; !literal.splat && i < count; ++i)
    if (std::memcmp(literal.data(), literal.data() + i * size, size) != 0) return std::nullopt;
  Literal scalar = literal;
  scalar.type.shape.clear();
  scalar.splat = false;
  scalar.bytes =
      std::make_shared<const std::vector<std::byte>>(literal.data(), literal.data() + size);
  return scalar;
}

std::optional<double> splat_value(const Literal& literal) {
  if (is_complex(literal.type.dtype)) return std::nullopt;
  const std::optional<Literal> scalar = splat_of(literal);
  if (!scalar) return std::nullopt;
  const Array wide = convert(array_of(*scalar), DType::F64);
  return *wide.data<double>();
}

}  // namespace cleave
