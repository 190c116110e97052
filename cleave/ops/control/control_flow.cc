#include "cleave/ops/control/family.h"
#include "cleave/ops/cost.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"

// Loops, branches, calls and what ends a region. Values flow through them unchanged, so none has a
// rule: propagation follows the edges (kDataFlow, kCall).
namespace cleave {
namespace {

std::vector<Type> types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<Type> types;
  for (ValueId value : values) types.push_back(graph.type(value));
  return types;
}

std::string text_of(const std::vector<Type>& types) {
  std::string text;
  for (const Type& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return "(" + text + ")";
}

bool all_compatible(const std::vector<Type>& a, const std::vector<Type>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!compatible(a[i], b[i])) return false;
  return true;
}

// What the region returns. A region under construction has no terminator yet.
std::vector<Type> returned_types(const Graph& graph, const Node& node, size_t region) {
  const Region& body = graph.region(node.regions[region]);
  require(!body.nodes.empty(), node, "region {} is empty", region);
  return types_of(graph, graph.node(body.nodes.back()).operands);
}

bool read_predicate(const Array& array) { return *array.data<uint8_t>() != 0; }

// ---- while ----

void verify_while(const Graph& graph, const Node& node) {
  require(node.regions.size() == 2, node, "has {} regions, not a condition and a body",
          node.regions.size());
  const std::vector<Type> carried = types_of(graph, node.operands);
  for (size_t r = 0; r < 2; ++r) {
    const std::vector<Type> args = types_of(graph, graph.region(node.regions[r]).args);
    require(all_compatible(args, carried), node, "the {} takes {}, the loop carries {}",
            r == 0 ? "condition" : "body", text_of(args), text_of(carried));
  }
  const std::vector<Type> condition = returned_types(graph, node, 0);
  require(condition.size() == 1 && condition[0] == Type::tensor(DType::Bool, {}), node,
          "the condition returns {}, not tensor<i1>", text_of(condition));
  const std::vector<Type> body = returned_types(graph, node, 1);
  require(all_compatible(body, carried), node, "the body returns {}, the loop carries {}",
          text_of(body), text_of(carried));
}

std::vector<Array> eval_while(EvalContext& context, const Node& node, std::span<const Array> args) {
  std::vector<Array> carried(args.begin(), args.end());
  while (read_predicate(context.run_region(node.regions[0], carried)[0]))
    carried = context.consume_region(node.regions[1], std::move(carried));
  return carried;
}

// ---- case, if ----

std::vector<Type> infer_branches(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  require(!node.regions.empty(), node, "has no branch");
  const std::vector<Type> types = returned_types(graph, node, 0);
  for (size_t i = 1; i < node.regions.size(); ++i) {
    const std::vector<Type> others = returned_types(graph, node, i);
    require(all_compatible(types, others), node, "branch 0 returns {} and branch {} returns {}",
            text_of(types), i, text_of(others));
  }
  return types;
}

void verify_branches(const Graph& graph, const Node& node) {
  const bool is_if = node.name() == "stablehlo.if";
  const Type expected = Type::tensor(is_if ? DType::Bool : DType::I32, {});
  require(graph.operand_type(node, 0) == expected, node, "is decided by {}, not by {}",
          to_string(graph.operand_type(node, 0)), to_string(expected));
  if (is_if)
    require(node.regions.size() == 2, node, "has {} branches, not two", node.regions.size());
  for (RegionId region : node.regions)
    require(graph.region(region).args.empty(), node, "a branch takes arguments");
}

// Anything outside [0, n) takes the last branch.
std::vector<Array> eval_case(EvalContext& context, const Node& node, std::span<const Array> args) {
  const auto count = static_cast<int32_t>(node.regions.size());
  int32_t index = *args[0].data<int32_t>();
  if (index < 0 || index >= count) index = count - 1;
  return context.run_region(node.regions[static_cast<size_t>(index)], {});
}

std::vector<Array> eval_if(EvalContext& context, const Node& node, std::span<const Array> args) {
  return context.run_region(node.regions[read_predicate(args[0]) ? 0 : 1], {});
}

// ---- calls and returns ----

std::vector<Type> infer_call(const Graph& graph, const Node& node) {
  const std::string_view name = node.attrs.get_string("callee");
  const Function* callee = graph.find_function(name);
  require(callee, node, "there is no function @{}", name);
  require(all_compatible(types_of(graph, node.operands), callee->arg_types), node,
          "@{} takes {}, {} is given", name, text_of(callee->arg_types),
          text_of(types_of(graph, node.operands)));
  return callee->result_types;
}

std::vector<Array> eval_call(EvalContext& context, const Node& node, std::span<const Array> args) {
  return context.call(node.attrs.get_string("callee"), args);
}

std::vector<Type> infer_nothing(const Graph&, const Node&) { return {}; }

// ---- tuples ----

// A tuple travels as an array of no elements whose buffer is the list of its elements.
struct TupleElements {
  std::vector<Array> arrays;
};

std::vector<Type> infer_tuple(const Graph& graph, const Node& node) {
  return {Type::tuple(types_of(graph, node.operands))};
}

std::vector<Array> eval_tuple(EvalContext&, const Node&, std::span<const Array> args) {
  auto elements = std::make_shared<TupleElements>();
  elements->arrays.assign(args.begin(), args.end());
  auto* bytes = reinterpret_cast<std::byte*>(elements.get());
  return {Array(DType::U8, {0}, {1}, 0, Buffer(std::shared_ptr<void>(elements, bytes), bytes))};
}

std::vector<Type> infer_get_tuple_element(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& type = graph.operand_type(node, 0);
  require(type.kind == Type::Kind::Tuple, node, "the operand is {}, no tuple", to_string(type));
  const int64_t index = node.attrs.get_int("index");
  require(index >= 0 && index < static_cast<int64_t>(type.elements.size()), node,
          "index {} is outside of {}", index, to_string(type));
  return {type.elements[static_cast<size_t>(index)]};
}

std::vector<Array> eval_get_tuple_element(EvalContext&, const Node& node,
                                          std::span<const Array> args) {
  const auto* elements = reinterpret_cast<const TupleElements*>(args[0].raw());
  return {elements->arrays[static_cast<size_t>(node.attrs.get_int("index"))]};
}

}  // namespace

void register_control_flow_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.while",
                .traits = kDataFlow,
                .flow = Flow::Loop,
                .infer = infer_identity,
                .verify = verify_while,
                .eval = eval_while});
  registry.add({.name = "stablehlo.case",
                .traits = kDataFlow,
                .flow = Flow::Branches,
                .infer = infer_branches,
                .verify = verify_branches,
                .eval = eval_case});
  registry.add({.name = "stablehlo.if",
                .traits = kDataFlow,
                .flow = Flow::Branches,
                .infer = infer_branches,
                .verify = verify_branches,
                .eval = eval_if});
  registry.add({.name = "func.call",
                .traits = kCall,
                .flow = Flow::Call,
                .callee_attr = "callee",
                .infer = infer_call,
                .eval = eval_call});
  for (const char* name : {"func.return", "stablehlo.return", "sdy.return"})
    registry.add({.name = name, .traits = kTerminator, .infer = infer_nothing});
  registry.add({.name = "stablehlo.tuple",
                .traits = kPure,
                .infer = infer_tuple,
                .cost = no_cost,
                .eval = eval_tuple,
                .forwards = true});
  registry.add({.name = "stablehlo.get_tuple_element",
                .traits = kPure,
                .infer = infer_get_tuple_element,
                .cost = no_cost,
                .eval = eval_get_tuple_element,
                .forwards = true});
}

}  // namespace cleave
