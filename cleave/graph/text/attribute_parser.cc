#include "cleave/graph/text/attribute_parser.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "cleave/graph/text/float_text.h"
#include "cleave/graph/text/literal_text.h"

namespace cleave::text {

Attribute AttributeParser::attribute() {
  DepthGuard guard(depth_, lex_);
  switch (lex_.peek()) {
    case '"': {
      std::string value = lex_.string_literal();
      if (lex_.accept(":")) type();
      return StringAttr{std::move(value)};
    }
    case '@':
      return symbol_reference();
    case '[': {
      lex_.expect("[");
      ArrayAttr array;
      if (!lex_.accept("]")) {
        do array.elements.push_back(attribute());
        while (lex_.accept(","));
        lex_.expect("]");
      }
      return array;
    }
    case '{':
      return DictAttr{dict()};
    case '#':
      return hash_attribute();
    case '(':
    case '!':
      return TypeAttr{type()};
    default:
      break;
  }
  if (lex_.at_number()) return number();
  const std::string_view word = lex_.peek_word();
  if (word.empty()) lex_.fail("expected an attribute");
  if (word == "true" || word == "false") {
    const bool value = lex_.word() == "true";
    if (lex_.accept(":")) type();
    return value;
  }
  if (word == "unit") {
    lex_.word();
    return Attribute();
  }
  if (word == "dense") return dense();
  if (word == "array") return dense_array();
  if (word == "dense_resource") return dense_resource();
  if (word == "loc") {
    const size_t begin = lex_.next_pos();
    lex_.word();
    lex_.skip_balanced();
    return opaque_from(begin);
  }
  if (word == "affine_map" || word == "affine_set" || word == "sparse" || word == "opaque" ||
      word == "strided" || word == "distinct") {
    const size_t begin = lex_.next_pos();
    lex_.balanced_word();
    if (word == "sparse" || word == "opaque")
      if (lex_.accept(":")) type();
    return opaque_from(begin);
  }
  return TypeAttr{type()};
}

Attribute AttributeParser::opaque_from(size_t begin) {
  return OpaqueAttr{std::string(lex_.source().substr(begin, lex_.pos() - begin))};
}

AttrDict AttributeParser::dict() {
  lex_.expect("{");
  AttrDict result;
  if (lex_.accept("}")) return result;
  do {
    const size_t begin = lex_.next_pos();
    const std::string name = lex_.word_or_string();
    if (result.has(name)) lex_.fail_at(begin, fmt::format("attribute '{}' appears twice", name));
    result.set(name, lex_.accept("=") ? attribute() : Attribute());
  } while (lex_.accept(","));
  lex_.expect("}");
  return result;
}

Attribute AttributeParser::number() {
  const size_t begin = lex_.next_pos();
  const std::string_view text = lex_.number();
  const bool looks_float = text.find('.') != std::string_view::npos;
  Type value_type = Type::scalar(looks_float ? DType::F64 : DType::I64);
  if (lex_.accept(":")) value_type = type();
  if (value_type.kind != Type::Kind::Scalar)
    lex_.fail_at(begin, "a number of type " + to_string(value_type));
  const DType dtype = value_type.dtype;
  if (is_float(dtype)) {
    uint64_t bits = 0;
    if (!parse_float(text, dtype, bits))
      lex_.fail_at(begin, fmt::format("'{}' is not a value of {}", text, name(dtype)));
    return FloatAttr{decode_float(dtype, bits), std::move(value_type)};
  }
  if (looks_float || is_complex(dtype))
    lex_.fail_at(begin, fmt::format("'{}' is not a value of {}", text, to_string(value_type)));
  Lexer digits(lex_.source());
  digits.seek(begin);
  if (dtype == DType::U64 && text[0] != '-') {
    uint64_t value = 0;
    const bool hex = text.substr(0, 2) == "0x";
    const std::string_view rest = hex ? text.substr(2) : text;
    const auto [stop, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), value, hex ? 16 : 10);
    if (error != std::errc()) lex_.fail_at(begin, "integer out of range");
    return IntegerAttr{static_cast<int64_t>(value), std::move(value_type)};
  }
  const int64_t value = digits.integer();
  if (dtype == DType::Bool) return value != 0;
  return IntegerAttr{value, std::move(value_type)};
}

Attribute AttributeParser::symbol_reference() {
  SymbolRefAttr reference;
  reference.root = lex_.symbol();
  while (lex_.accept("::")) reference.nested.push_back(lex_.symbol());
  return reference;
}

Attribute AttributeParser::dense() {
  lex_.word();
  if (lex_.peek() != '<') lex_.fail("expected '<'");
  const size_t begin = lex_.pos() + 1;
  lex_.skip_balanced();
  const size_t end = lex_.pos() - 1;
  lex_.expect(":");
  const Type value_type = type();
  return ElementsAttr{parse_dense_elements(lex_, begin, end, value_type)};
}

Attribute AttributeParser::dense_resource() {
  lex_.word();
  lex_.expect("<");
  Literal literal;
  const size_t begin = lex_.next_pos();
  literal.resource = lex_.word_or_string();
  lex_.expect(">");
  lex_.expect(":");
  literal.type = type();
  if (const auto blob = resources_.find(literal.resource); blob != resources_.end()) {
    literal.bytes = blob->second.bytes;
    literal.resource_alignment = blob->second.alignment;
    const auto size = static_cast<int64_t>(literal.bytes->size());
    if (size != literal.type.byte_count())
      lex_.fail_at(begin,
                   fmt::format("the blob of '{}' has {} bytes, {} takes {}", literal.resource, size,
                               to_string(literal.type), literal.type.byte_count()));
  }
  return ElementsAttr{std::move(literal)};
}

Attribute AttributeParser::dense_array() {
  lex_.word();
  lex_.expect("<");
  const size_t begin = lex_.next_pos();
  const Type element = type();
  DenseArrayAttr result;
  result.dtype = element.dtype;
  if (element.kind != Type::Kind::Scalar || element.dtype == DType::Other)
    lex_.fail_at(begin, "an array of elements of type " + to_string(element));
  if (lex_.accept(":")) {
    do {
      const size_t at = lex_.next_pos();
      if (lex_.accept_word("true")) {
        result.ints.push_back(1);
      } else if (lex_.accept_word("false")) {
        result.ints.push_back(0);
      } else if (is_float(result.dtype)) {
        uint64_t bits = 0;
        if (!parse_float(lex_.number(), result.dtype, bits)) lex_.fail_at(at, "expected a number");
        result.floats.push_back(decode_float(result.dtype, bits));
      } else {
        result.ints.push_back(lex_.integer());
      }
    } while (lex_.accept(","));
  }
  lex_.expect(">");
  return result;
}

std::vector<int64_t> AttributeParser::int_list() {
  std::vector<int64_t> values;
  lex_.expect("[");
  if (lex_.accept("]")) return values;
  do {
    if (lex_.accept("?"))
      values.push_back(kDynamicSize);
    else
      values.push_back(lex_.integer());
  } while (lex_.accept(","));
  lex_.expect("]");
  return values;
}

std::string AttributeParser::optional_location() {
  if (!lex_.accept_word("loc")) return {};
  if (lex_.peek() != '(') lex_.fail("expected '('");
  const size_t begin = lex_.pos() + 1;
  lex_.skip_balanced();
  return std::string(lex_.source().substr(begin, lex_.pos() - 1 - begin));
}

void AttributeParser::define_attribute_alias(std::string name, Attribute value) {
  attribute_aliases_[std::move(name)] = std::move(value);
}

void AttributeParser::define_type_alias(std::string name, Type value) {
  type_aliases_[std::move(name)] = std::move(value);
}

Attribute AttributeParser::hash_attribute() {
  const size_t begin = lex_.next_pos();
  lex_.expect("#");
  const std::string_view name = lex_.word();
  if (lex_.current() == '<' && name.find('.') == std::string_view::npos) {
    // #stablehlo<comparison_direction EQ>
    lex_.expect("<");
    const std::string_view mnemonic = lex_.word();
    return dialect_attribute(name, mnemonic, begin);
  }
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos) {
    auto alias = attribute_aliases_.find(std::string(name));
    if (alias == attribute_aliases_.end())
      lex_.fail_at(begin, fmt::format("undefined attribute alias #{}", name));
    return alias->second;
  }
  const char first = dot + 1 < name.size() ? name[dot + 1] : '0';
  if (first == '.' || first == '$' || (first >= '0' && first <= '9'))
    lex_.fail_at(begin, fmt::format("'{}' is not the name of an attribute", name));
  return dialect_attribute(name.substr(0, dot), name.substr(dot + 1), begin);
}

}  // namespace cleave::text
