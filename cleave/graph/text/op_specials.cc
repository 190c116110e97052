#include "cleave/graph/text/op_specials.h"

#include <fmt/format.h>

#include "cleave/core/number_text.h"
#include "cleave/graph/text/attribute_printer.h"

namespace cleave::text {
namespace {

// [0:4, 1:8:2]
void parse_slice_ranges(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  std::vector<int64_t> starts, limits, strides;
  lex.expect("[");
  if (!lex.accept("]")) {
    do {
      starts.push_back(lex.integer());
      lex.expect(":");
      limits.push_back(lex.integer());
      strides.push_back(lex.accept(":") ? lex.integer() : 1);
    } while (lex.accept(","));
    lex.expect("]");
  }
  op.attrs.set("start_indices", ints_attr(std::move(starts)));
  op.attrs.set("limit_indices", ints_attr(std::move(limits)));
  op.attrs.set("strides", ints_attr(std::move(strides)));
}

void print_slice_ranges(Printer& p, const Node& node) {
  const auto starts = node.attrs.get_ints("start_indices");
  const auto limits = node.attrs.get_ints("limit_indices");
  const auto strides = node.attrs.get_ints("strides");
  p.out += '[';
  for (size_t i = 0; i < starts.size() && i < limits.size() && i < strides.size(); ++i) {
    if (i) p.out += ", ";
    append_int(p.out, starts[i]);
    p.out += ':';
    append_int(p.out, limits[i]);
    if (strides[i] != 1) {
      p.out += ':';
      append_int(p.out, strides[i]);
    }
  }
  p.out += ']';
}

struct WindowPart {
  std::string_view word;
  std::string_view attribute;
};
constexpr WindowPart kWindowParts[] = {
    {"stride", "window_strides"},   {"pad", "padding"},
    {"lhs_dilate", "lhs_dilation"}, {"rhs_dilate", "rhs_dilation"},
    {"reverse", "window_reversal"},
};

Attribute parse_window_padding(ModuleParser& parser) {
  Lexer& lex = parser.lexer();
  std::vector<int64_t> values;
  lex.expect("[");
  if (!lex.accept("]")) {
    do {
      const size_t pos = lex.next_pos();
      const std::vector<int64_t> pair = parser.attributes().int_list();
      if (pair.size() != 2) lex.fail_at(pos, "expected a pair [low, high]");
      values.insert(values.end(), pair.begin(), pair.end());
    } while (lex.accept(","));
    lex.expect("]");
  }
  Literal literal;
  literal.type = Type::tensor(DType::I64, {static_cast<int64_t>(values.size() / 2), 2});
  literal.splat = !values.empty();
  for (int64_t value : values) literal.splat = literal.splat && value == values[0];
  const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
  literal.bytes = std::make_shared<const std::vector<std::byte>>(
      bytes, bytes + (literal.splat ? 1 : values.size()) * sizeof(int64_t));
  return literal_attr(std::move(literal));
}

// stride = [1, 1], pad = [[0, 0], [1, 1]], reverse = [false, true]
void parse_window(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  while (!lex.peek_word().empty()) {
    const size_t pos = lex.next_pos();
    const std::string_view word = lex.word();
    const WindowPart* part = nullptr;
    for (const WindowPart& known : kWindowParts)
      if (known.word == word) part = &known;
    if (!part || op.attrs.has(part->attribute))
      lex.fail_at(pos, fmt::format("unexpected '{}' in a window", word));
    lex.expect("=");
    if (word == "pad") {
      op.attrs.set(part->attribute, parse_window_padding(parser));
    } else if (word == "reverse") {
      DenseArrayAttr flags{DType::Bool, {}, {}};
      lex.expect("[");
      if (!lex.accept("]")) {
        do {
          if (lex.accept_word("true"))
            flags.ints.push_back(1);
          else if (lex.accept_word("false"))
            flags.ints.push_back(0);
          else
            flags.ints.push_back(lex.integer() != 0);
        } while (lex.accept(","));
        lex.expect("]");
      }
      op.attrs.set(part->attribute, std::move(flags));
    } else {
      op.attrs.set(part->attribute, ints_attr(parser.attributes().int_list()));
    }
    if (!lex.accept(",")) break;
  }
}

void print_window(Printer& p, const Node& node) {
  bool first = true;
  for (const WindowPart& part : kWindowParts) {
    const Attribute* value = node.attrs.find(part.attribute);
    if (!value) continue;
    if (!first) p.out += ", ";
    first = false;
    p.out += part.word;
    p.out += " = ";
    const std::vector<int64_t> ints = ints_of(*value);
    if (part.word == "pad") {
      p.out += '[';
      for (size_t i = 0; i + 1 < ints.size(); i += 2) {
        if (i) p.out += ", ";
        append_ints(p.out, std::span(ints).subspan(i, 2));
      }
      p.out += ']';
    } else if (part.word == "reverse") {
      append_bools(p.out, ints);
    } else {
      append_ints(p.out, ints);
    }
  }
}

// batching_dims = [0] x [0], contracting_dims = [2] x [1]
void parse_dot_dims(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  StructAttr dims{"stablehlo.dot", {}};
  const auto read_pair = [&](const char* lhs, const char* rhs) {
    lex.expect("=");
    std::vector<int64_t> left = parser.attributes().int_list();
    lex.expect_word("x");
    std::vector<int64_t> right = parser.attributes().int_list();
    if (!left.empty()) dims.fields.push_back({lhs, ints_attr(std::move(left))});
    if (!right.empty()) dims.fields.push_back({rhs, ints_attr(std::move(right))});
  };
  if (lex.accept_word("batching_dims")) {
    read_pair("lhs_batching_dimensions", "rhs_batching_dimensions");
    lex.expect(",");
  }
  lex.expect_word("contracting_dims");
  read_pair("lhs_contracting_dimensions", "rhs_contracting_dimensions");
  op.attrs.set("dot_dimension_numbers", std::move(dims));
}

void print_dot_dims(Printer& p, const Node& node) {
  const Attribute* value = node.attrs.find("dot_dimension_numbers");
  const StructAttr* dims = value ? value->as<StructAttr>() : nullptr;
  if (!dims) throw_user("{}: attribute 'dot_dimension_numbers' is missing", node.name());
  const auto print_pair = [&](const std::vector<int64_t>& lhs, const std::vector<int64_t>& rhs) {
    append_ints(p.out, lhs);
    p.out += " x ";
    append_ints(p.out, rhs);
  };
  const auto lhs_batch = dims->get_ints_or_empty("lhs_batching_dimensions");
  const auto rhs_batch = dims->get_ints_or_empty("rhs_batching_dimensions");
  if (!lhs_batch.empty() || !rhs_batch.empty()) {
    p.out += "batching_dims = ";
    print_pair(lhs_batch, rhs_batch);
    p.out += ", ";
  }
  p.out += "contracting_dims = ";
  print_pair(dims->get_ints_or_empty("lhs_contracting_dimensions"),
             dims->get_ints_or_empty("rhs_contracting_dimensions"));
}

// , precision = [DEFAULT, HIGHEST], algorithm = <...>
void parse_precision(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  while (lex.accept(",")) {
    if (!op.attrs.has("precision_config") && lex.accept_word("precision")) {
      lex.expect("=");
      lex.expect("[");
      ArrayAttr config;
      if (!lex.accept("]")) {
        do config.elements.emplace_back(EnumAttr{"stablehlo.precision", std::string(lex.word())});
        while (lex.accept(","));
        lex.expect("]");
      }
      op.attrs.set("precision_config", std::move(config));
    } else {
      lex.expect_word("algorithm");
      lex.expect("=");
      op.attrs.set("algorithm", parser.attributes().dot_algorithm());
    }
  }
}

void print_precision(Printer& p, const Node& node) {
  if (const Attribute* value = node.attrs.find("precision_config")) {
    p.out += ", precision = [";
    bool first = true;
    if (const auto* config = value->as<ArrayAttr>())
      for (const Attribute& element : config->elements) {
        if (!first) p.out += ", ";
        first = false;
        if (const auto* precision = element.as<EnumAttr>()) p.out += precision->value;
      }
    p.out += ']';
  }
  const Attribute* algorithm = node.attrs.find("algorithm");
  if (algorithm && algorithm->as<StructAttr>()) {
    p.out += ", algorithm = ";
    append_struct_body(p.out, *algorithm->as<StructAttr>());
  }
}

// e5m10
void parse_exponent_mantissa(ModuleParser& parser, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  const size_t pos = lex.next_pos();
  const std::string_view word = lex.word();
  const size_t m = word.find('m');
  std::optional<int32_t> exponent, mantissa;
  if (word[0] == 'e' && m != std::string_view::npos) {
    exponent = number_of<int32_t>(word.substr(1, m - 1));
    mantissa = number_of<int32_t>(word.substr(m + 1));
  }
  if (!exponent || !mantissa) lex.fail_at(pos, "expected exponent and mantissa as e5m10");
  op.attrs.set("exponent_bits", int_attr(*exponent, DType::I32));
  op.attrs.set("mantissa_bits", int_attr(*mantissa, DType::I32));
}

void parse_attrs(ModuleParser& parser, ParsedOp& op) {
  const size_t pos = parser.lexer().next_pos();
  if (parser.attributes().at_dict()) parser.add_attrs(op, parser.attributes().dict(), pos);
}

void parse_operand_types(ModuleParser& parser, ParsedOp& op) {
  if (op.operands.empty()) return;
  parser.lexer().expect(":");
  const size_t pos = parser.lexer().next_pos();
  parser.check_types(op.operands, parser.attributes().type_list(), pos);
}

void print_operand_types(Printer& p, const Node& node) {
  if (node.operands.empty()) return;
  p.out += " : ";
  p.types_of(node.operands);
}

bool nothing_elided(std::string_view) { return false; }

}  // namespace

void parse_special(ModuleParser& parser, std::string_view special, ParsedOp& op) {
  Lexer& lex = parser.lexer();
  if (special == "slice_ranges") {
    parse_slice_ranges(parser, op);
  } else if (special == "window") {
    parse_window(parser, op);
  } else if (special == "dot_dims") {
    parse_dot_dims(parser, op);
  } else if (special == "precision" || special == "precision_and_algorithm") {
    parse_precision(parser, op);
  } else if (special == "exponent_mantissa") {
    parse_exponent_mantissa(parser, op);
  } else if (special == "return") {
    op.operands = parser.operand_list();
    parse_attrs(parser, op);
    parse_operand_types(parser, op);
  } else if (special == "return_attrs_first") {
    parse_attrs(parser, op);
    op.operands = parser.operand_list();
    parse_operand_types(parser, op);
  } else if (special == "barrier") {
    parse_attrs(parser, op);
    op.operands = parser.operand_list();
    if (op.operands.empty()) {
      lex.expect("(");
      lex.expect(")");
      return;
    }
    lex.expect(":");
    const size_t pos = lex.next_pos();
    op.result_types = parser.attributes().type_list();
    parser.check_types(op.operands, op.result_types, pos);
  } else if (special == "composite_regions") {
    if (!lex.accept("(")) return;
    do op.regions.push_back(parser.region({}));
    while (lex.accept(","));
    lex.expect(")");
  } else {
    throw_internal("unknown placeholder '{}' in an op format", special);
  }
}

void print_special(Printer& p, std::string_view special, const Node& node) {
  if (special == "slice_ranges") {
    print_slice_ranges(p, node);
  } else if (special == "window") {
    print_window(p, node);
  } else if (special == "dot_dims") {
    print_dot_dims(p, node);
  } else if (special == "precision" || special == "precision_and_algorithm") {
    print_precision(p, node);
  } else if (special == "exponent_mantissa") {
    p.out += fmt::format("e{}m{}", node.attrs.get_int("exponent_bits"),
                         node.attrs.get_int("mantissa_bits"));
  } else if (special == "return") {
    p.values(node.operands);
    p.attr_dict(node, nothing_elided);
    print_operand_types(p, node);
  } else if (special == "return_attrs_first" || special == "barrier") {
    p.attr_dict(node, nothing_elided);
    if (!node.operands.empty()) p.out += ' ';
    if (special == "barrier" && node.operands.empty()) p.out += "()";
    p.values(node.operands);
    print_operand_types(p, node);
  } else if (special == "composite_regions") {
    if (node.regions.empty()) return;
    p.out += " (";
    for (size_t i = 0; i < node.regions.size(); ++i) {
      if (i) p.out += ", ";
      p.region(node.regions[i], true);
    }
    p.out += ')';
  }
}

}  // namespace cleave::text
