#include <fmt/format.h>

#include "cleave/graph/op_def.h"
#include "cleave/graph/text/attribute_printer.h"
#include "cleave/graph/text/module_parser.h"
#include "cleave/graph/text/printer.h"

// Ops whose syntax no format describes: constants, and those with regions of their own.

namespace cleave::text {
namespace {

// --- stablehlo.constant, sdy.constant: ` dense<1.0> : tensor<2xf32>`

void parse_constant(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  if (lex.accept("(")) {
    lex.expect(")");
    if (lex.accept("<")) {
      op.attrs = parser.attributes().dict();
      lex.expect(">");
    }
    const size_t pos = lex.next_pos();
    if (parser.attributes().at_dict()) parser.add_attrs(op, parser.attributes().dict(), pos);
    lex.expect(":");
    parser.signature(op);
    return;
  }
  op.attrs = parser.attributes().optional_dict();
  const size_t pos = lex.next_pos();
  Attribute value = parser.attributes().attribute();
  const auto* elements = value.as<ElementsAttr>();
  if (!elements) lex.fail_at(pos, "expected a dense constant");
  op.result_types = {elements->literal.type};
  op.attrs.set("value", std::move(value));
}

void print_constant(Printer& p, const Node& node) {
  const Attribute* value = node.attrs.find("value");
  const auto* elements = value ? value->as<ElementsAttr>() : nullptr;
  if (!elements || elements->literal.type != p.graph.result_type(node)) {
    p.generic_tail(node);
    return;
  }
  p.attr_dict(node, [](std::string_view name) { return name == "value"; });
  p.out += ' ';
  p.attribute(*value);
}

// --- stablehlo.while(%iterArg = %0) : tensor<i32>
//      cond { ... } do { ... }

void parse_while(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  std::vector<NamedArgument> args;
  lex.expect("(");
  if (!lex.accept(")")) {
    do {
      args.push_back({lex.value_name(), {}});
      lex.expect("=");
      op.operands.push_back(parser.operand());
    } while (lex.accept(","));
    lex.expect(")");
  }
  if (!op.operands.empty()) {
    lex.expect(":");
    const size_t pos = lex.next_pos();
    op.result_types = parser.attributes().type_list();
    parser.check_types(op.operands, op.result_types, pos);
    for (size_t i = 0; i < args.size(); ++i) args[i].type = op.result_types[i];
  }
  if (lex.accept_word("attributes")) op.attrs = parser.attributes().dict();
  lex.expect_word("cond");
  op.regions.push_back(parser.region(args));
  lex.expect_word("do");
  op.regions.push_back(parser.region(args));
}

void print_while(Printer& p, const Node& node) {
  const Region& body = p.graph.region(node.regions.at(1));
  p.out += '(';
  for (size_t i = 0; i < node.operands.size(); ++i) {
    if (i) p.out += ", ";
    p.value(body.args.at(i));
    p.out += " = ";
    p.value(node.operands[i]);
  }
  p.out += ')';
  if (!node.operands.empty()) {
    p.out += " : ";
    p.types_of(node.operands);
  }
  p.attr_dict(
      node, [](std::string_view) { return false; }, " attributes ");
  p.new_line();
  p.out += "cond ";
  p.region(node.regions[0], false);
  p.out += " do ";
  p.region(node.regions[1], false);
}

// --- stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0] : (...) -> ...
//     stablehlo.reduce(%0 init: %1), (%2 init: %3) across dimensions = [0] : (...) -> (...)
//      reducer(%a: t, %b: t) (%c: t, %d: t)  { ... }

bool is_compact_reducer(std::string_view name) {
  for (std::string_view known :
       {"stablehlo.add", "stablehlo.and", "stablehlo.maximum", "stablehlo.minimum",
        "stablehlo.multiply", "stablehlo.or", "stablehlo.xor"})
    if (name == known) return true;
  return false;
}

Type scalar_of(const Type& type) {
  Type scalar = type;
  scalar.shape.clear();
  scalar.encoding.clear();
  return scalar;
}

void parse_reduce(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  Graph& graph = parser.graph();
  std::vector<ValueId> inits;
  while (lex.accept("(")) {
    op.operands.push_back(parser.operand());
    lex.expect_word("init");
    lex.expect(":");
    inits.push_back(parser.operand());
    lex.expect(")");
    if (!lex.accept(",")) break;
  }
  const size_t pairs = op.operands.size();
  if (pairs == 0) lex.fail("expected '(%operand init: %init)'");
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  std::string_view inner;
  if (lex.accept_word("applies")) {
    const size_t pos = lex.next_pos();
    inner = lex.word();
    if (!is_compact_reducer(inner))
      lex.fail_at(pos, fmt::format("'{}' cannot be applied by a reduce; it must be a commutative "
                                   "binary op",
                                   inner));
  }
  lex.expect_word("across");
  lex.expect_word("dimensions");
  lex.expect("=");
  std::vector<int64_t> dimensions = parser.attributes().int_list();
  op.attrs = parser.attributes().optional_dict();
  op.attrs.set("dimensions", ints_attr(std::move(dimensions)));
  lex.expect(":");
  parser.signature(op);
  if (!inner.empty()) {
    const Type type = scalar_of(graph.type(op.operands[0]));
    const RegionId body = graph.add_region();
    const ValueId lhs = graph.add_argument(body, type);
    const ValueId rhs = graph.add_argument(body, type);
    const NodeId apply = graph.add_node(inner, {lhs, rhs}, {type});
    graph.append(body, apply);
    graph.append(body, graph.add_node("stablehlo.return", {graph.node(apply).results[0]}, {}));
    op.regions.push_back(body);
    return;
  }
  lex.expect_word("reducer");
  std::vector<NamedArgument> args(2 * pairs);
  for (size_t i = 0; i < pairs; ++i) {
    const size_t pos = lex.next_pos();
    std::vector<NamedArgument> pair = parser.argument_list();
    if (pair.size() != 2) lex.fail_at(pos, "expected two arguments");
    args[i] = std::move(pair[0]);
    args[pairs + i] = std::move(pair[1]);
  }
  op.regions.push_back(parser.region(args));
}

// The op of a reducer that does nothing but apply it to its two arguments; null where it does more.
const Node* compact_reducer(const Graph& graph, const Node& node) {
  const Region& body = graph.region(node.regions.at(0));
  if (body.nodes.size() != 2 || node.operands.empty()) return nullptr;
  const Node& inner = graph.node(body.nodes[0]);
  const Node& end = graph.node(body.nodes[1]);
  if (!is_compact_reducer(inner.name()) || !inner.attrs.empty() || end.name() != "stablehlo.return")
    return nullptr;
  const Type type = scalar_of(graph.type(node.operands[0]));
  if (inner.operands != body.args || inner.results.size() != 1 || end.operands != inner.results)
    return nullptr;
  for (ValueId operand : inner.operands)
    if (graph.type(operand) != type) return nullptr;
  return graph.result_type(inner) == type ? &inner : nullptr;
}

void print_reduce(Printer& p, const Node& node) {
  const size_t pairs = node.operands.size() / 2;
  for (size_t i = 0; i < pairs; ++i) {
    if (i) p.out += ", ";
    p.out += '(';
    p.value(node.operands[i]);
    p.out += " init: ";
    p.value(node.operands[pairs + i]);
    p.out += ')';
  }
  const Node* inner = compact_reducer(p.graph, node);
  if (inner) {
    p.out += " applies ";
    p.out += inner->name();
  }
  p.out += " across dimensions = ";
  append_ints(p.out, node.attrs.get_ints("dimensions"));
  p.attr_dict(node, [](std::string_view name) { return name == "dimensions"; });
  p.out += " : ";
  p.signature(node);
  if (inner) return;
  p.new_line();
  p.out += " reducer";
  const Region& body = p.graph.region(node.regions.at(0));
  for (size_t i = 0; i < pairs; ++i) {
    p.out += '(';
    p.region_argument(body.args.at(i));
    p.out += ", ";
    p.region_argument(body.args.at(pairs + i));
    p.out += ") ";
  }
  p.out += ' ';
  p.region(node.regions[0], false);
}

// --- sdy.manual_computation(%0) in_shardings=[...] out_shardings=[...] manual_axes={"x"}
//     (%arg1: t) { ... } : (...) -> ...

void print_shardings(Printer& p, const Node& node, std::string_view name) {
  const Attribute* value = node.attrs.find(name);
  const auto* shardings = value ? value->as<ShardingsAttr>() : nullptr;
  if (!shardings) return;
  p.out += ' ';
  p.out += name;
  p.out += "=[";
  for (size_t i = 0; i < shardings->specs.size(); ++i) {
    if (i) p.out += ", ";
    p.out += to_string_with_mesh(shardings->specs[i]);
  }
  p.out += ']';
}

bool parse_shardings(ModuleParser& parser, ParsedOp& op, std::string_view name) {
  if (!parser.lexer().accept_word(name)) return false;
  parser.lexer().expect("=");
  op.attrs.set(name, ShardingsAttr{parser.attributes().sharding_list()});
  return true;
}

void parse_computation_body(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  const std::vector<NamedArgument> args = parser.argument_list();
  op.regions.push_back(parser.region(args, true));
  // A body may leave out its terminator.
  Graph& graph = parser.graph();
  const RegionId body = op.regions.back();
  const std::vector<NodeId>& nodes = graph.region(body).nodes;
  if (nodes.empty() || graph.node(nodes.back()).name() != "sdy.return")
    graph.append(body, graph.add_node("sdy.return", {}, {}));
  const size_t pos = lex.next_pos();
  if (parser.attributes().at_dict()) parser.add_attrs(op, parser.attributes().dict(), pos);
  lex.expect(":");
  parser.signature(op);
}

void print_computation_body(Printer& p, const Node& node) {
  const Region& body = p.graph.region(node.regions.at(0));
  p.out += " (";
  for (size_t i = 0; i < body.args.size(); ++i) {
    if (i) p.out += ", ";
    p.region_argument(body.args[i]);
  }
  p.out += ") ";
  p.region(node.regions[0], false);
  p.attr_dict(node, [](std::string_view name) {
    return name == "in_shardings" || name == "out_shardings" || name == "manual_axes" ||
           name == "name";
  });
  p.out += " : ";
  p.signature(node);
}

void parse_manual_computation(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  lex.expect("(");
  op.operands = parser.operand_list();
  lex.expect(")");
  if (!parse_shardings(parser, op, "in_shardings")) lex.fail("expected 'in_shardings'");
  if (!parse_shardings(parser, op, "out_shardings")) lex.fail("expected 'out_shardings'");
  lex.expect_word("manual_axes");
  lex.expect("=");
  op.attrs.set("manual_axes", ManualAxesAttr{parser.attributes().manual_axes()});
  parse_computation_body(parser, op);
}

void print_manual_computation(Printer& p, const Node& node) {
  p.out += '(';
  p.values(node.operands);
  p.out += ')';
  print_shardings(p, node, "in_shardings");
  print_shardings(p, node, "out_shardings");
  p.out += " manual_axes=";
  if (const Attribute* axes = node.attrs.find("manual_axes"); axes && axes->as<ManualAxesAttr>())
    append_manual_axes(p.out, *axes->as<ManualAxesAttr>());
  print_computation_body(p, node);
}

// --- sdy.named_computation<"f">(%0) in_shardings=[...] out_shardings=[...] (%arg1: t) { ... } :
// ...

void parse_named_computation(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  lex.expect("<");
  op.attrs.set("name", string_attr(lex.string_literal()));
  lex.expect(">");
  lex.expect("(");
  op.operands = parser.operand_list();
  lex.expect(")");
  parse_shardings(parser, op, "in_shardings");
  parse_shardings(parser, op, "out_shardings");
  parse_computation_body(parser, op);
}

void print_named_computation(Printer& p, const Node& node) {
  p.out += '<';
  append_string(p.out, node.attrs.get_string("name"));
  p.out += ">(";
  p.values(node.operands);
  p.out += ')';
  print_shardings(p, node, "in_shardings");
  print_shardings(p, node, "out_shardings");
  print_computation_body(p, node);
}

// --- chlo.scan(%input) inits (%init) dimension=0 attributes {is_reverse = true} { ... } :
// signature

Attribute segment_sizes(size_t first, size_t second) {
  return DenseArrayAttr{
      DType::I32, {static_cast<int64_t>(first), static_cast<int64_t>(second)}, {}};
}

void parse_scan(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  lex.expect("(");
  op.operands = parser.operand_list();
  lex.expect(")");
  lex.expect_word("inits");
  lex.expect("(");
  const std::vector<ValueId> inits = parser.operand_list();
  lex.expect(")");
  lex.expect_word("dimension");
  lex.expect("=");
  op.attrs.set("dimension", int_attr(lex.integer()));
  if (lex.accept_word("attributes")) {
    const size_t pos = lex.next_pos();
    parser.add_attrs(op, parser.attributes().dict(), pos);
  }
  op.attrs.set("operandSegmentSizes", segment_sizes(op.operands.size(), inits.size()));
  op.operands.insert(op.operands.end(), inits.begin(), inits.end());
  op.regions.push_back(parser.region({}));
  lex.expect(":");
  const size_t pos = lex.next_pos();
  parser.signature(op);
  if (op.result_types.size() < inits.size())
    lex.fail_at(pos, fmt::format("{} results do not hold {} carried values", op.result_types.size(),
                                 inits.size()));
  op.attrs.set("resultSegmentSizes",
               segment_sizes(op.result_types.size() - inits.size(), inits.size()));
}

void print_scan(Printer& p, const Node& node) {
  const std::vector<int64_t> sizes = node.attrs.get_ints_or_empty("operandSegmentSizes");
  if (sizes.size() != 2 || node.regions.size() != 1 || sizes[0] < 0 ||
      sizes[0] > static_cast<int64_t>(node.operands.size())) {
    p.generic_tail(node);
    return;
  }
  const std::span<const ValueId> operands(node.operands);
  p.out += '(';
  p.values(operands.first(static_cast<size_t>(sizes[0])));
  p.out += ") inits (";
  p.values(operands.subspan(static_cast<size_t>(sizes[0])));
  p.out += fmt::format(") dimension={}", node.attrs.get_int("dimension"));
  const size_t before = p.out.size();
  p.attr_dict(
      node,
      [](std::string_view name) {
        return name == "dimension" || name == "operandSegmentSizes" || name == "resultSegmentSizes";
      },
      "  attributes ");
  p.out += p.out.size() == before ? "  " : " ";
  p.region(node.regions[0], true);
  p.out += " : ";
  p.signature(node);
}

struct CustomSyntax {
  std::string_view op;
  ParseFn parse;
  PrintFn print;
};

constexpr CustomSyntax kSyntaxes[] = {
    {"stablehlo.constant", parse_constant, print_constant},
    {"sdy.constant", parse_constant, print_constant},
    {"arith.constant", parse_constant, print_constant},
    {"stablehlo.while", parse_while, print_while},
    {"stablehlo.reduce", parse_reduce, print_reduce},
    {"chlo.scan", parse_scan, print_scan},
    {"sdy.manual_computation", parse_manual_computation, print_manual_computation},
    {"sdy.named_computation", parse_named_computation, print_named_computation},
};

const CustomSyntax* find_custom(std::string_view op) {
  for (const CustomSyntax& syntax : kSyntaxes)
    if (syntax.op == op) return &syntax;
  return nullptr;
}

}  // namespace

ParseFn custom_parser(std::string_view op) {
  const CustomSyntax* syntax = find_custom(op);
  return syntax ? syntax->parse : nullptr;
}

PrintFn custom_printer(std::string_view op) {
  const CustomSyntax* syntax = find_custom(op);
  return syntax ? syntax->print : nullptr;
}

Attribute parse_axis_lists(std::string_view text, const MeshPtr& mesh) {
  TextCursor cursor(text);
  AxisListsAttr result;
  result.mesh = mesh;
  if (cursor.peek() == '{') {
    result.name = "sdy.axis_ref_list";
    result.lists.push_back(parse_axis_list(cursor, *mesh));
    return result;
  }
  result.name = "sdy.list_of_axis_ref_lists";
  cursor.expect("[");
  if (cursor.accept("]")) return result;
  do result.lists.push_back(parse_axis_list(cursor, *mesh));
  while (cursor.accept(","));
  cursor.expect("]");
  return result;
}

Attribute parse_moves(std::string_view text, const MeshPtr& mesh) {
  TextCursor cursor(text);
  AllToAllAttr result;
  result.mesh = mesh;
  cursor.expect("[");
  if (cursor.accept("]")) return result;
  do {
    AllToAllMove move;
    move.axes = parse_axis_list(cursor, *mesh);
    cursor.expect(":");
    move.source_dim = cursor.integer();
    cursor.expect("->");
    move.target_dim = cursor.integer();
    result.moves.push_back(std::move(move));
  } while (cursor.accept(","));
  cursor.expect("]");
  return result;
}

}  // namespace cleave::text
