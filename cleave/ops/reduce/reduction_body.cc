#include "cleave/ops/reduce/reduction_body.h"

#include <algorithm>
#include <cstring>

#include "cleave/ops/identity.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

std::optional<Reducer> reducer_of(std::string_view op) {
  if (op == "stablehlo.add") return Reducer::Sum;
  if (op == "stablehlo.multiply") return Reducer::Prod;
  if (op == "stablehlo.maximum") return Reducer::Max;
  if (op == "stablehlo.minimum") return Reducer::Min;
  if (op == "stablehlo.and") return Reducer::And;
  if (op == "stablehlo.or") return Reducer::Or;
  if (op == "stablehlo.xor") return Reducer::Xor;
  return std::nullopt;
}

}  // namespace

bool is_promotable(DType from, DType to) {
  if (from == to) return true;
  const auto is_int = [](DType type) { return is_integer(type) || type == DType::Bool; };
  if (is_float(from) && is_float(to)) return true;
  const bool alike = (is_int(from) && is_int(to)) || (is_complex(from) && is_complex(to));
  return alike && bit_width(from) <= bit_width(to);
}

size_t num_reduced(const Node& node) { return node.operands.size() / 2; }

DType body_dtype(const Graph& graph, const Node& node, size_t i) {
  if (!node.regions.empty()) {
    const Region& body = graph.region(node.regions[0]);
    if (i < body.args.size()) return graph.type(body.args[i]).dtype;
  }
  return graph.operand_type(node, i).dtype;
}

std::string body_text(const Graph& graph, const Node& node, size_t i) {
  if (!node.regions.empty()) {
    const Region& body = graph.region(node.regions[0]);
    if (i < body.args.size()) return graph.type(body.args[i]).text;
  }
  return graph.operand_type(node, i).text;
}

void verify_reduction_body(const Graph& graph, const Node& node) {
  require(node.regions.size() == 1, node, "needs a body of one region");
  const size_t n = num_reduced(node);
  const Region& body = graph.region(node.regions[0]);
  require(body.args.size() == 2 * n, node, "the body must take {} arguments, got {}", 2 * n,
          body.args.size());
  require(!body.nodes.empty() && graph.node(body.nodes.back()).operands.size() == n, node,
          "the body must return {} value(s)", n);
  for (size_t i = 0; i < n; ++i) {
    const Type& first = graph.type(body.args[i]);
    const Type& second = graph.type(body.args[n + i]);
    const Type& returned = graph.type(graph.node(body.nodes.back()).operands[i]);
    require(first.is_tensor() && first.rank() == 0 && compatible(first, second) &&
                compatible(first, returned),
            node, "the body must take two scalars of a type and return one, got {} and {} -> {}",
            to_string(first), to_string(second), to_string(returned));
    for (size_t operand : {i, n + i}) {
      const Type& type = graph.operand_type(node, operand);
      require(is_promotable(type.dtype, first.dtype), node,
              "the body folds {}, which does not hold all of operand {}, {}", to_string(first),
              operand, to_string(type));
    }
  }
}

std::optional<std::vector<Reducer>> recognise_reducers(const Graph& graph, RegionId region) {
  const Region& body = graph.region(region);
  if (body.nodes.empty()) return std::nullopt;
  const Node& terminator = graph.node(body.nodes.back());
  const size_t n = terminator.operands.size();
  const auto computing =
      std::ranges::count_if(body.nodes, [&](NodeId id) { return !is_identity_op(graph.node(id)); });
  if (n == 0 || body.args.size() != 2 * n || static_cast<size_t>(computing) != n + 1)
    return std::nullopt;
  std::vector<Reducer> reducers;
  for (size_t i = 0; i < n; ++i) {
    const NodeId producer = graph.value(behind_identities(graph, terminator.operands[i])).producer;
    if (!producer.valid()) return std::nullopt;
    const Node& node = graph.node(producer);
    const auto reducer = reducer_of(node.name());
    if (!reducer || node.parent != region || node.operands.size() != 2) return std::nullopt;
    const ValueId a = body.args[i], b = body.args[n + i];
    const ValueId left = behind_identities(graph, node.operands[0]);
    const ValueId right = behind_identities(graph, node.operands[1]);
    const bool forward = left == a && right == b;
    const bool backward = left == b && right == a;
    if (!forward && !backward) return std::nullopt;
    if (!has_reduce(*reducer, graph.type(a).dtype)) return std::nullopt;
    reducers.push_back(*reducer);
  }
  return reducers;
}

std::optional<ReduceOp> reduce_op(Reducer reducer, DType dtype) {
  const bool boolean = dtype == DType::Bool;
  switch (reducer) {
    case Reducer::Sum:
      return boolean ? ReduceOp::Or : ReduceOp::Sum;
    case Reducer::Prod:
      return boolean ? ReduceOp::And : ReduceOp::Prod;
    case Reducer::Max:
      return boolean ? ReduceOp::Or : ReduceOp::Max;
    case Reducer::Min:
      return boolean ? ReduceOp::And : ReduceOp::Min;
    case Reducer::And:
      return ReduceOp::And;
    case Reducer::Or:
      return ReduceOp::Or;
    case Reducer::Xor:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<ReduceOp> common_reduce_op(const Graph& graph, RegionId region) {
  const auto reducers = recognise_reducers(graph, region);
  if (!reducers) return std::nullopt;
  std::optional<ReduceOp> common;
  for (size_t i = 0; i < reducers->size(); ++i) {
    const auto op = reduce_op((*reducers)[i], graph.type(graph.region(region).args[i]).dtype);
    if (!op || (common && *common != *op)) return std::nullopt;
    common = op;
  }
  return common;
}

bool is_identity_constant(const Graph& graph, ValueId value, Reducer reducer) {
  const NodeId producer = graph.value(value).producer;
  if (!producer.valid()) return false;
  const Node& node = graph.node(producer);
  if (node.name() != "stablehlo.constant" && node.name() != "sdy.constant") return false;
  const Attribute* attribute = node.attrs.find("value");
  const ElementsAttr* elements = attribute ? attribute->as<ElementsAttr>() : nullptr;
  if (!elements || !elements->literal.bytes) return false;
  const Literal& literal = elements->literal;
  const DType dtype = literal.type.dtype;
  if (!has_kernels(dtype) || !has_reduce(reducer, dtype)) return false;
  const auto size = static_cast<size_t>(byte_size(dtype));
  const Array identity = reduce_identity(reducer, dtype);
  for (size_t at = 0; at + size <= literal.bytes->size(); at += size) {
    if (std::memcmp(literal.data() + at, identity.raw(), size) == 0) continue;
    // A negative zero is an identity of the sum as well.
    if (reducer != Reducer::Sum || !is_float(dtype)) return false;
    for (size_t b = 0; b < size; ++b) {
      const auto expected = b + 1 == size ? std::byte{0x80} : std::byte{0};
      if (literal.data()[at + b] != expected) return false;
    }
  }
  return true;
}

}  // namespace cleave
