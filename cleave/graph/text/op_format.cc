#include <fmt/format.h>

#include <charconv>
#include <cstdlib>

#include "cleave/graph/text/attribute_printer.h"
#include "cleave/graph/text/module_parser.h"
#include "cleave/graph/text/op_specials.h"
#include "cleave/graph/text/printer.h"

// The syntaxes that a format describes, read and printed piece by piece.

namespace cleave::text {
namespace {

using Piece = OpSyntax::Piece;

bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
}

// Calls `each` for the tokens of a literal text: words, and punctuation by characters ("->" is
// one).
template <typename Each>
void for_each_token(std::string_view text, Each&& each) {
  for (size_t pos = 0; pos < text.size();) {
    if (text[pos] == ' ') {
      ++pos;
      continue;
    }
    size_t end = pos + 1;
    if (is_word_char(text[pos])) {
      while (end < text.size() && is_word_char(text[end])) ++end;
    } else if (text.substr(pos, 2) == "->") {
      ++end;
    }
    each(text.substr(pos, end - pos));
    pos = end;
  }
}

void expect_literal(Lexer& lex, std::string_view text) {
  for_each_token(text, [&](std::string_view token) {
    if (is_word_char(token[0]))
      lex.expect_word(token);
    else
      lex.expect(token);
  });
}

bool accept_literal(Lexer& lex, std::string_view text) {
  const size_t begin = lex.pos();
  bool all = true;
  for_each_token(text, [&](std::string_view token) {
    all = all && (is_word_char(token[0]) ? lex.accept_word(token) : lex.accept(token));
  });
  if (!all) lex.seek(begin);
  return all;
}

// enum(sdy.reduction_op), or plain `enum`: the dialect of the op, and the name of the attribute.
std::string enum_name(const OpSyntax& syntax, const Piece& piece) {
  const std::string& kind = piece.attr_kind;
  if (const size_t open = kind.find('('); open != std::string::npos)
    return kind.substr(open + 1, kind.size() - open - 2);
  return syntax.name.substr(0, syntax.name.find('.') + 1) + piece.text;
}

Attribute parse_attribute(ModuleParser& parser, const OpSyntax& syntax, const Piece& piece) {
  Lexer& lex = parser.lexer();
  AttributeParser& attributes = parser.attributes();
  const std::string_view kind = piece.attr_kind;
  if (kind == "i64") {
    const int64_t value = lex.integer();
    if (lex.peek() == ':' && lex.source().substr(lex.pos() + 1, 4) == " i64") {
      lex.expect(":");
      lex.expect_word("i64");
    }
    return int_attr(value);
  }
  if (kind == "i32") return int_attr(lex.integer(), DType::I32);
  if (kind == "u32") return int_attr(lex.integer(), DType::U32);
  if (kind == "u64") return int_attr(lex.integer(), DType::U64);
  if (kind == "f64") {
    const FloatAttr value{std::strtod(std::string(lex.number()).c_str(), nullptr),
                          Type::scalar(DType::F64)};
    if (lex.peek() == ':' && lex.source().substr(lex.pos() + 1, 4) == " f64") {
      lex.expect(":");
      lex.expect_word("f64");
    }
    return value;
  }
  if (kind == "bool") {
    if (lex.accept_word("true")) return true;
    lex.expect_word("false");
    return false;
  }
  if (kind == "ints") {
    if (lex.peek() == '[') return ints_attr(attributes.int_list());
    return attributes.attribute();
  }
  if (kind == "str") return string_attr(lex.string_literal());
  if (kind == "symbol") return string_attr(lex.symbol());
  if (kind == "symbol_ref" || kind == "attr" || kind == "elements") return attributes.attribute();
  if (kind == "sharding") return ShardingAttr{attributes.sharding_body()};
  if (kind == "conv") return attributes.convolution_dims();
  if (kind == "axis_lists" || kind == "axes" || kind == "moves")
    return OpaqueAttr{std::string(attributes.axes_text())};
  return EnumAttr{enum_name(syntax, piece), std::string(lex.word())};
}

// Whether the word that is next can be the value of an optional enum without a prefix of its own.
bool at_optional(Lexer& lex, const Piece& piece) {
  if (piece.prefix.find_first_not_of(' ') == std::string::npos) return !lex.peek_word().empty();
  return accept_literal(lex, piece.prefix);
}

void print_attribute(Printer& p, const Piece& piece, const Attribute& value) {
  const std::string_view kind = piece.attr_kind;
  if (const auto* integer = value.as<IntegerAttr>()) {
    append_int(p.out, integer->value);
  } else if (const auto* sharding = value.as<ShardingAttr>()) {
    p.out += to_string_with_mesh(sharding->spec);
  } else if (kind == "ints" && value.as<DenseArrayAttr>()) {
    append_ints(p.out, value.as<DenseArrayAttr>()->ints);
  } else if (kind == "symbol" && value.as<StringAttr>()) {
    append_symbol(p.out, value.as<StringAttr>()->value);
  } else if (const auto* dims = value.as<StructAttr>(); dims && kind == "conv") {
    append_convolution_dims(p.out, *dims);
  } else if (const auto* lists = value.as<AxisListsAttr>()) {
    append_axis_lists(p.out, *lists);
  } else if (const auto* moves = value.as<AllToAllAttr>()) {
    append_moves(p.out, *moves);
  } else if (const auto* word = value.as<EnumAttr>()) {
    p.out += word->value;
  } else if (const auto* number = value.as<FloatAttr>();
             number && number->type.dtype == DType::F64) {
    append_float_attr(p.out, *number);
  } else {
    p.attribute(value);
  }
}

bool same_types(const Graph& graph, const Node& node) {
  if (node.results.size() != 1) return false;
  const Type& result = graph.type(node.results[0]);
  for (ValueId operand : node.operands)
    if (graph.type(operand) != result) return false;
  return true;
}

Type real_type(const Type& type) {
  Type real = type;
  real.dtype = real_part_type(type.dtype);
  return real;
}

void parse_types(ModuleParser& parser, const Piece& piece, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  AttributeParser& attributes = parser.attributes();
  const std::string_view kind = piece.text;
  const size_t pos = lex.next_pos();
  const auto all_operands = [&](const Type& type) {
    parser.check_types(op.operands, std::vector<Type>(op.operands.size(), type), pos);
  };
  if (kind == "signature") {
    parser.signature(op);
  } else if (kind == "results") {
    if (lex.peek() != ')') op.result_types = attributes.type_list();
  } else if (kind == "operand_types") {
    if (!op.operands.empty()) parser.check_types(op.operands, attributes.type_list(), pos);
  } else if (kind == "like_operands") {
    op.result_types = attributes.type_list();
    parser.check_types(op.operands, op.result_types, pos);
  } else if (kind == "tuple") {
    const Type type = attributes.type();
    if (type.kind != Type::Kind::Tuple) lex.fail_at(pos, "expected a tuple type");
    parser.check_types(op.operands, type.elements, pos);
    op.result_types = {type};
  } else if (kind == "first_type") {
    const Type type = attributes.type();
    all_operands(type);
    if (op.name.substr(0, 6) != "check.") op.result_types = {type};
  } else if (lex.peek() == '(') {
    parser.signature(op);
  } else if (kind == "select") {
    const std::vector<Type> types = attributes.type_list();
    if (types.size() != 2) lex.fail_at(pos, "expected a signature or a list of two types");
    parser.check_types(op.operands, {types[0], types[1], types[1]}, pos);
    op.result_types = {types[1]};
  } else if (kind == "complex") {
    const Type type = attributes.type();
    if (!type.is_tensor() || !is_complex(type.dtype))
      lex.fail_at(pos, "expected a tensor of complex numbers");
    all_operands(real_type(type));
    op.result_types = {type};
  } else {
    const Type type = attributes.type();
    all_operands(type);
    op.result_types = {type};
  }
}

void print_types(Printer& p, const Piece& piece, const Node& node) {
  const std::string_view kind = piece.text;
  const Graph& graph = p.graph;
  if (kind == "results") {
    p.types_of(node.results);
  } else if (kind == "operand_types" || kind == "like_operands") {
    p.types_of(node.operands);
  } else if (kind == "tuple") {
    p.types_of(node.results);
  } else if (kind == "first_type") {
    p.type_of(node.operands.empty() ? node.results.at(0) : node.operands[0]);
  } else if (kind == "select" && node.operands.size() == 3 && node.results.size() == 1 &&
             graph.operand_type(node, 1) == graph.result_type(node) &&
             graph.operand_type(node, 2) == graph.result_type(node)) {
    p.type_of(node.operands[0]);
    p.out += ", ";
    p.type_of(node.results[0]);
  } else if (kind == "complex" && node.operands.size() == 2 && node.results.size() == 1 &&
             graph.operand_type(node, 0) == real_type(graph.result_type(node)) &&
             graph.operand_type(node, 1) == real_type(graph.result_type(node))) {
    p.type_of(node.results[0]);
  } else if (kind == "same" && same_types(graph, node)) {
    p.type_of(node.results[0]);
  } else {
    p.signature(node);
  }
}

}  // namespace

void parse_by_format(ModuleParser& parser, const OpSyntax& syntax, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  for (const Piece& piece : syntax.pieces) {
    switch (piece.kind) {
      case Piece::Literal:
        expect_literal(lex, piece.text);
        break;
      case Piece::Attrs: {
        const size_t pos = lex.next_pos();
        if (parser.attributes().at_dict()) parser.add_attrs(op, parser.attributes().dict(), pos);
        break;
      }
      case Piece::Operands:
        op.operands = parser.operand_list();
        break;
      case Piece::Types:
        parse_types(parser, piece, op);
        break;
      case Piece::Attribute:
        if (!piece.optional || at_optional(lex, piece))
          op.attrs.set(piece.text, parse_attribute(parser, syntax, piece));
        break;
      case Piece::Special:
        parse_special(parser, piece.text, op);
        break;
    }
  }
  // Ops that end with a constant (chlo.constant) take its type.
  if (syntax.pieces.back().kind == Piece::Attribute && op.operands.empty())
    if (const Attribute* value = op.attrs.find(syntax.pieces.back().text))
      if (const auto* elements = value->as<ElementsAttr>())
        op.result_types = {elements->literal.type};
}

void print_by_format(Printer& printer, const OpSyntax& syntax, const Node& node) {
  for (const Piece& piece : syntax.pieces) {
    switch (piece.kind) {
      case Piece::Literal:
        printer.out += piece.text;
        break;
      case Piece::Attrs:
        printer.attr_dict(node, [&](std::string_view name) {
          return syntax.mentions(name) || printer.is_default(node, name);
        });
        break;
      case Piece::Operands:
        printer.values(node.operands);
        break;
      case Piece::Types:
        print_types(printer, piece, node);
        break;
      case Piece::Attribute: {
        const Attribute* value = node.attrs.find(piece.text);
        if (piece.optional && (!value || printer.is_default(node, piece.text))) break;
        if (!value) throw_user("{}: attribute '{}' is missing", node.name(), piece.text);
        printer.out += piece.prefix;
        print_attribute(printer, piece, *value);
        break;
      }
      case Piece::Special:
        print_special(printer, piece.text, node);
        break;
    }
  }
}

}  // namespace cleave::text
