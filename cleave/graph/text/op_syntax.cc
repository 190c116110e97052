#include "cleave/graph/text/op_syntax.h"

#include <algorithm>
#include <unordered_map>

#include "cleave/core/error.h"
#include "cleave/graph/text/op_tables.h"

namespace cleave::text {
namespace {

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = std::min(text.find(' ', pos), text.size());
    if (end > pos) words.emplace_back(text.substr(pos, end - pos));
    pos = end + 1;
  }
  return words;
}

void mention_special(OpSyntax& syntax, std::string_view special) {
  const auto add = [&](std::initializer_list<const char*> names) {
    syntax.mentioned.insert(syntax.mentioned.end(), names.begin(), names.end());
  };
  if (special == "dot_dims") add({"dot_dimension_numbers"});
  if (special == "precision") add({"precision_config"});
  if (special == "precision_and_algorithm") add({"precision_config", "algorithm"});
  if (special == "window")
    add({"window_strides", "padding", "lhs_dilation", "rhs_dilation", "window_reversal"});
  if (special == "slice_ranges") add({"start_indices", "limit_indices", "strides"});
  if (special == "exponent_mantissa") add({"exponent_bits", "mantissa_bits"});
}

bool is_type_piece(std::string_view text) {
  for (std::string_view known : {"signature", "same", "results", "operand_types", "like_operands",
                                 "first_type", "complex", "tuple", "select"})
    if (text == known) return true;
  return false;
}

OpSyntax::Piece compile_placeholder(std::string_view text) {
  using Piece = OpSyntax::Piece;
  if (text == "attrs") return {Piece::Attrs, {}, {}, {}};
  if (text == "operands") return {Piece::Operands, {}, {}, {}};
  if (is_type_piece(text)) return {Piece::Types, std::string(text), {}, {}};
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {Piece::Special, std::string(text), {}, {}};
  Piece piece{Piece::Attribute, std::string(text.substr(0, colon)), {}, {}};
  std::string_view kind = text.substr(colon + 1);
  if (const size_t mark = kind.find('?'); mark != std::string_view::npos) {
    piece.optional = true;
    piece.prefix = kind.substr(mark + 1);
    kind = kind.substr(0, mark);
  }
  piece.attr_kind = kind;
  return piece;
}

OpSyntax compile(const OpRow& row) {
  OpSyntax syntax;
  syntax.name = row.name;
  syntax.format = row.format;
  syntax.properties = split_words(row.properties);
  const std::string_view format = syntax.format;
  for (size_t pos = 0; pos < format.size();) {
    if (format[pos] == '{' && pos + 1 < format.size() && format[pos + 1] != '{') {
      const size_t end = format.find('}', pos);
      internal_check(end != std::string_view::npos, "an op format with an open brace");
      OpSyntax::Piece piece = compile_placeholder(format.substr(pos + 1, end - pos - 1));
      if (piece.kind == OpSyntax::Piece::Attribute) syntax.mentioned.push_back(piece.text);
      if (piece.kind == OpSyntax::Piece::Special) mention_special(syntax, piece.text);
      syntax.pieces.push_back(std::move(piece));
      pos = end + 1;
      continue;
    }
    // `{{` and `}}` stand for braces.
    std::string literal;
    while (pos < format.size()) {
      const char c = format[pos];
      const bool doubled = pos + 1 < format.size() && format[pos + 1] == c;
      if ((c == '{' || c == '}') && doubled) {
        literal += c;
        pos += 2;
      } else if (c == '{') {
        break;
      } else {
        literal += c;
        ++pos;
      }
    }
    syntax.pieces.push_back({OpSyntax::Piece::Literal, std::move(literal), {}, {}});
  }
  for (const std::string& name : syntax.mentioned)
    if (std::find(syntax.properties.begin(), syntax.properties.end(), name) ==
        syntax.properties.end())
      syntax.properties.push_back(name);
  return syntax;
}

const std::unordered_map<std::string_view, OpSyntax>& syntaxes() {
  static const auto table = [] {
    std::unordered_map<std::string_view, OpSyntax> result;
    for (const auto rows : {stablehlo_rows(), chlo_rows(), sdy_rows(), other_rows()})
      for (const OpRow& row : rows) {
        const bool fresh = result.emplace(row.name, compile(row)).second;
        internal_check(fresh, "an op has two syntaxes");
      }
    return result;
  }();
  return table;
}

struct DefaultRow {
  std::string_view op;  // empty: of every op
  std::string_view attribute;
  Attribute value;
};

const std::vector<DefaultRow>& defaults() {
  static const std::vector<DefaultRow> rows = [] {
    const EnumAttr mode{"stablehlo.result_accuracy_mode", "DEFAULT"};
    return std::vector<DefaultRow>{
        {"", "result_accuracy", StructAttr{"stablehlo.result_accuracy", {{"mode", mode}}}},
        {"stablehlo.custom_call", "has_side_effect", false},
        {"stablehlo.custom_call", "api_version", int_attr(1, DType::I32)},
        {"stablehlo.custom_call", "called_computations", ArrayAttr{}},
        {"stablehlo.custom_call", "output_operand_aliases", ArrayAttr{}},
        {"stablehlo.composite", "composite_attributes", DictAttr{}},
        {"stablehlo.composite", "version", int_attr(0, DType::I32)},
        {"stablehlo.cholesky", "lower", false},
        {"chlo.top_k", "is_stable", true},
        {"chlo.scan", "is_reverse", false},
        {"check.expect_almost_eq", "tolerance", FloatAttr{1e-4, Type::scalar(DType::F64)}},
        {"check.expect_almost_eq_const", "tolerance", FloatAttr{1e-4, Type::scalar(DType::F64)}},
        {"check.expect_close", "min_ulp_difference", int_attr(0, DType::U64)},
        {"check.expect_serialized_eq", "iteration", int_attr(0, DType::U32)},
    };
  }();
  return rows;
}

}  // namespace

bool OpSyntax::is_property(std::string_view attribute) const {
  return std::find(properties.begin(), properties.end(), attribute) != properties.end();
}

bool OpSyntax::mentions(std::string_view attribute) const {
  return std::find(mentioned.begin(), mentioned.end(), attribute) != mentioned.end();
}

const OpSyntax* find_syntax(std::string_view op) {
  const auto& table = syntaxes();
  const auto it = table.find(op);
  return it == table.end() ? nullptr : &it->second;
}

const Attribute* default_attribute(std::string_view op, std::string_view attribute) {
  for (const DefaultRow& row : defaults())
    if (row.attribute == attribute && (row.op.empty() || row.op == op)) return &row.value;
  return nullptr;
}

}  // namespace cleave::text
