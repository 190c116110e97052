#include <fmt/format.h>

#include "cleave/graph/text/attribute_parser.h"

namespace cleave::text {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// i17, si8: integers that have no dtype of their own.
bool is_integer_type_name(std::string_view word) {
  if (!word.empty() && (word[0] == 's' || word[0] == 'u')) word.remove_prefix(1);
  if (word.size() < 2 || word[0] != 'i') return false;
  for (char c : word.substr(1))
    if (!is_digit(c)) return false;
  return true;
}

// #stablehlo.bounds<4, ?>
std::string bounds_text(const std::vector<int64_t>& bounds) {
  std::string text = "#stablehlo.bounds<";
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (i) text += ", ";
    text += bounds[i] == kDynamicSize ? "?" : std::to_string(bounds[i]);
  }
  return text + ">";
}

}  // namespace

Type AttributeParser::type() {
  DepthGuard guard(depth_, lex_);
  const char next = lex_.peek();
  if (next == '(') return function_type();
  if (next == '!') return dialect_type();
  const std::string_view word = lex_.peek_word();
  if (word.empty()) lex_.fail("expected a type");
  if (word == "tensor") {
    lex_.word();
    return tensor_type();
  }
  return named_type(word);
}

Type AttributeParser::named_type(std::string_view word) {
  const size_t begin = lex_.next_pos();
  if (word == "tuple") {
    lex_.word();
    lex_.expect("<");
    std::vector<Type> elements;
    if (!lex_.accept(">")) {
      elements = type_list();
      lex_.expect(">");
    }
    return Type::tuple(std::move(elements));
  }
  if (word == "complex") {
    lex_.word();
    lex_.expect("<");
    const Type element = type();
    lex_.expect(">");
    if (element.kind == Type::Kind::Scalar && element.dtype == DType::F32)
      return Type::scalar(DType::C64);
    if (element.kind == Type::Kind::Scalar && element.dtype == DType::F64)
      return Type::scalar(DType::C128);
    Type other = Type::scalar(DType::Other);
    other.text = "complex<" + to_string(element) + ">";
    return other;
  }
  if (word == "none") {
    lex_.word();
    return Type();
  }
  if (word == "vector" || word == "memref" || word == "unranked_memref")
    return Type::opaque(std::string(lex_.balanced_word()));
  const auto dtype = dtype_from_name(word);
  if (dtype && *dtype != DType::Other) {
    lex_.word();
    return Type::scalar(*dtype);
  }
  if (is_integer_type_name(word)) {
    Type other = Type::scalar(DType::Other);
    other.text = lex_.word();
    return other;
  }
  lex_.fail_at(begin, fmt::format("unknown type '{}'", word));
}

Type AttributeParser::tensor_type() {
  lex_.expect("<");
  Type result;
  result.kind = Type::Kind::Tensor;
  int64_t elements = 1;
  const size_t begin = lex_.next_pos();
  if (lex_.accept("*")) {
    result.unranked = true;
    lex_.expect("x");
  }
  while (!result.unranked) {
    const char next = lex_.peek();
    if (next == '?') {
      lex_.accept("?");
      result.shape.push_back(kDynamicSize);
    } else if (is_digit(next)) {
      // By hand: 0x2 is a dimension of size 0, not a hex number.
      int64_t size = 0;
      while (is_digit(lex_.current())) {
        if (__builtin_mul_overflow(size, 10, &size) ||
            __builtin_add_overflow(size, lex_.current() - '0', &size))
          lex_.fail_at(begin, "a dimension that is too large");
        lex_.seek(lex_.pos() + 1);
      }
      result.shape.push_back(size);
      if (size > 0 && __builtin_mul_overflow(elements, size, &elements))
        lex_.fail_at(begin, "a tensor with more than 2^63 elements");
    } else {
      break;
    }
    if (lex_.current() != 'x') lex_.fail("expected 'x' after a dimension");
    lex_.seek(lex_.pos() + 1);
  }
  // 16 bytes an element is the most: sizes in bytes fit too.
  if (elements > INT64_MAX / 16) lex_.fail_at(begin, "a tensor with too many elements");
  const Type element = type();
  if (element.kind == Type::Kind::Scalar) {
    result.dtype = element.dtype;
    result.text = element.text;
  } else if (element.kind == Type::Kind::Opaque) {
    result.dtype = DType::Other;
    result.text = element.text;
  } else {
    lex_.fail_at(begin, "a tensor of elements of type " + to_string(element));
  }
  if (lex_.accept(",")) {
    const size_t encoding = lex_.next_pos();
    const Attribute value = attribute();
    result.encoding = lex_.source().substr(encoding, lex_.pos() - encoding);
    const auto* extensions = value.as<StructAttr>();
    if (extensions && extensions->name == "stablehlo.type_extensions")
      result.encoding = bounds_text(extensions->get_ints_or_empty("bounds"));
  }
  lex_.expect(">");
  return result;
}

Type AttributeParser::dialect_type() {
  const size_t begin = lex_.next_pos();
  lex_.expect("!");
  if (lex_.current() == '<' || lex_.current() == '"') lex_.fail("expected the name of a type");
  const std::string name(lex_.word());
  if (auto alias = type_aliases_.find(name); alias != type_aliases_.end()) return alias->second;
  if (name == "stablehlo.token" || name == "mhlo.token") return Type::token();
  if (name.find('.') == std::string::npos && lex_.current() != '<')
    lex_.fail_at(begin, fmt::format("undefined type alias !{}", name));
  if (lex_.current() == '<') lex_.skip_balanced();
  return Type::opaque(std::string(lex_.source().substr(begin, lex_.pos() - begin)));
}

std::vector<Type> AttributeParser::type_list() {
  std::vector<Type> types;
  do types.push_back(type());
  while (lex_.accept(","));
  return types;
}

std::vector<Type> AttributeParser::type_list_in_parens() {
  lex_.expect("(");
  if (lex_.accept(")")) return {};
  std::vector<Type> types = type_list();
  lex_.expect(")");
  return types;
}

std::vector<Type> AttributeParser::result_types() {
  if (lex_.peek() == '(') return type_list_in_parens();
  std::vector<Type> types;
  types.push_back(type());
  return types;
}

Type AttributeParser::function_type() {
  std::vector<Type> inputs = type_list_in_parens();
  lex_.expect("->");
  std::vector<Type> results = result_types();
  return Type::function(std::move(inputs), std::move(results));
}

}  // namespace cleave::text
