#include "cleave/runtime/narrow_eval.h"

#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/graph/cloner.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/narrow.h"
#include "cleave/ops/literal_array.h"
#include "cleave/ops/op.h"
#include "cleave/runtime/interpreter.h"

namespace cleave {
namespace {

// For ops that see the bits of an integer and not its value, it is widened with zeros in front.
bool reads_bits(const Node& node) { return node.def->has(kReadsBits); }

bool is_literal(const Node& node) {
  return node.def->has(kConstantLike) && node.attrs.has("value");
}

Type widened(Type type, bool bits) {
  if (!type.is_tensor() || !is_narrow(type.dtype)) return type;
  type.dtype = bits ? DType::U8 : wide_type(type.dtype);
  return type;
}

Array widened(const Array& array, bool bits) {
  if (!is_narrow(array.dtype())) return array;
  if (!bits) return convert(array, wide_type(array.dtype()));
  const DType plain = array.dtype() == DType::I2   ? DType::U2
                      : array.dtype() == DType::I4 ? DType::U4
                                                   : array.dtype();
  return convert(convert(array, plain), DType::U8);
}

void widen_literal(Node& node) {
  const Literal& narrow = node.attrs.get_literal("value");
  if (!is_narrow(narrow.type.dtype)) return;
  const Array wide = widened(array_of(narrow), false).contiguous();
  Literal literal;
  literal.type = widened(narrow.type, false);
  literal.bytes =
      std::make_shared<const std::vector<std::byte>>(wide.raw(), wide.raw() + wide.num_bytes());
  node.attrs.set("value", literal_attr(std::move(literal)));
}

// A module whose @main is the node alone, on wide types.
Graph wide_module(const Graph& graph, const Node& node) {
  const bool bits = reads_bits(node);
  Graph wide;
  Function main;
  main.name = "main";
  main.body = wide.add_region();
  Cloner clone(graph, wide, ValueMap::sparse());
  for (ValueId operand : node.operands) {
    main.arg_types.push_back(widened(graph.type(operand), bits));
    clone.map(operand, wide.add_argument(main.body, main.arg_types.back()));
  }
  const NodeId copy = clone.copy(graph.value(node.results[0]).producer, main.body);
  for (uint32_t v = 0; v < wide.num_values(); ++v)
    wide.value({v}).type = widened(wide.type({v}), bits);
  for (uint32_t n = 0; n < wide.num_nodes(); ++n)
    if (Node& inner = wide.node({n}); is_literal(inner)) widen_literal(inner);
  for (ValueId result : wide.node(copy).results) main.result_types.push_back(wide.type(result));
  wide.append(main.body, wide.add_node("func.return", wide.node(copy).results, {}));
  main.arg_attrs.resize(main.arg_types.size());
  main.result_attrs.resize(main.result_types.size());
  wide.functions.push_back(std::move(main));
  return wide;
}

std::vector<Array> eval_wide(EvalContext& context, const Node& node,
                             std::span<const Array> operands) {
  const Graph& graph = context.graph();
  const bool bits = reads_bits(node);
  std::vector<Array> args;
  for (const Array& operand : operands) args.push_back(widened(operand, bits));
  const Graph wide = wide_module(graph, node);
  std::vector<Array> results = run_verified(wide, "main", args);
  for (size_t i = 0; i < results.size(); ++i) {
    const DType dtype = graph.result_type(node, i).dtype;
    if (is<op::CountLeadingZeros>(node)) {
      const auto unused = static_cast<uint8_t>(8 - bit_width(dtype));
      const Array shift = splat(Array::scalar<uint8_t>(DType::U8, unused), results[i].shape());
      results[i] = binary(BinaryOp::Subtract, results[i], shift);
    }
    if (is_narrow(dtype)) results[i] = convert(results[i], dtype);
  }
  return results;
}

// Whether its regions need what is outside: values, or functions of the module.
bool reaches_outside(const Graph& graph, const Node& node) {
  bool calls = false;
  for (RegionId region : node.regions)
    graph.walk(region, [&](NodeId id) {
      const OpDef* def = graph.node(id).def;
      calls |= def->has(kCall);
    });
  return calls || !captured_values(graph, node.regions).empty();
}

}  // namespace

bool has_narrow_elements(const Graph& graph, const Node& node) {
  const auto is = [&](ValueId value) {
    return graph.type(value).is_tensor() && is_narrow(graph.type(value).dtype);
  };
  return std::any_of(node.operands.begin(), node.operands.end(), is) ||
         std::any_of(node.results.begin(), node.results.end(), is);
}

EvalFn narrow_eval(const Graph& graph, const Node& node) {
  for (Trait moves : {kViewLike, kDataFlow, kCall, kTerminator, kCollective})
    if (node.def->has(moves)) return node.def->eval;
  if (node.results.empty() || is_literal(node) || is<op::Convert>(node)) return node.def->eval;
  if (node.def->has(kReadsWidth)) {
    const auto whole_bytes = [&](ValueId value) {
      return bit_width(graph.type(value).dtype) % 8 == 0;
    };
    const bool bytes = std::all_of(node.operands.begin(), node.operands.end(), whole_bytes) &&
                       std::all_of(node.results.begin(), node.results.end(), whole_bytes);
    return is<op::BitcastConvert>(node) && bytes ? node.def->eval : nullptr;
  }
  if (!node.def->eval || reaches_outside(graph, node)) return nullptr;
  return eval_wide;
}

}  // namespace cleave
