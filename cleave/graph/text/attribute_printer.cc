#include "cleave/graph/text/attribute_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/text/attribute_parser.h"
#include "cleave/graph/text/float_text.h"
#include "cleave/graph/text/literal_text.h"
#include "cleave/graph/text/text.h"

namespace cleave {
namespace text {
namespace {

bool is_bare_identifier(std::string_view text) {
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)); };
  const auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)); };
  if (text.empty() || !(is_letter(text[0]) || text[0] == '_')) return false;
  for (char c : text)
    if (!is_letter(c) && !is_digit(c) && c != '_' && c != '$' && c != '.') return false;
  return true;
}

template <typename Range, typename Append>
void append_joined(std::string& out, const Range& range, Append&& append) {
  bool first = true;
  for (const auto& item : range) {
    if (!first) out += ", ";
    first = false;
    append(item);
  }
}

void append_literal_type(std::string& out, const Type& type) {
  out += " : ";
  append_type(out, type);
}

// <axes=[<name = "x", size = 2>], device_ids=dense<...> : tensor<2xi64>>
void append_stablehlo_mesh(std::string& out, const StructAttr& mesh) {
  out += "<axes=[";
  const Attribute* axes = mesh.find("axes");
  if (const auto* array = axes ? axes->as<ArrayAttr>() : nullptr)
    append_joined(out, array->elements, [&](const Attribute& axis) {
      if (const auto* fields = axis.as<StructAttr>()) append_struct_body(out, *fields);
    });
  out += ']';
  if (const Attribute* ids = mesh.find("device_ids")) {
    out += ", device_ids=";
    append_attribute(out, *ids);
  }
  out += '>';
}

// Prints one value by its kind.
struct AttributePrinter {
  std::string& out;
  size_t hex_limit;
  bool elide_type;

  void operator()(const UnitAttr&) { out += "unit"; }
  void operator()(bool value) { out += value ? "true" : "false"; }
  void operator()(const IntegerAttr& value) {
    if (is_unsigned_integer(value.type.dtype))
      out += std::to_string(static_cast<uint64_t>(value.value));
    else
      append_int(out, value.value);
    const bool is_default = value.type.kind == Type::Kind::Scalar && value.type.dtype == DType::I64;
    if (!(elide_type && is_default)) append_literal_type(out, value.type);
  }
  void operator()(const FloatAttr& value) {
    append_float_attr(out, value);
    if (!(elide_type && value.type.dtype == DType::F64)) append_literal_type(out, value.type);
  }
  void operator()(const StringAttr& value) { append_string(out, value.value); }
  void operator()(const TypeAttr& value) { append_type(out, value.type); }
  void operator()(const SymbolRefAttr& value) {
    append_symbol(out, value.root);
    for (const std::string& nested : value.nested) {
      out += "::";
      append_symbol(out, nested);
    }
  }
  void operator()(const ArrayAttr& value) {
    out += '[';
    append_joined(out, value.elements, [&](const Attribute& element) {
      append_attribute(out, element, hex_limit, true);
    });
    out += ']';
  }
  void operator()(const DenseArrayAttr& value) {
    out += "array<";
    out += name(value.dtype);
    if (!value.ints.empty() || !value.floats.empty()) out += ": ";
    if (value.dtype == DType::Bool)
      append_joined(out, value.ints, [&](int64_t i) { out += i ? "true" : "false"; });
    else if (is_float(value.dtype))
      append_joined(out, value.floats, [&](double number) {
        append_float(out, value.dtype, encode_float(value.dtype, number));
      });
    else
      append_joined(out, value.ints, [&](int64_t i) { append_int(out, i); });
    out += '>';
  }
  void operator()(const ElementsAttr& value) {
    append_dense(out, value.literal, hex_limit);
    append_literal_type(out, value.literal.type);
  }
  void operator()(const DictAttr& value) { append_dict(out, value.dict, hex_limit); }
  void operator()(const StructAttr& value) {
    out += '#';
    out += value.name;
    if (value.name == "stablehlo.mesh") {
      append_stablehlo_mesh(out, value);
    } else if (value.name == "stablehlo.conv" && !is_plain_convolution(value)) {
      std::string body;
      append_struct_body(body, value);
      out += "<raw " + body.substr(1);
    } else if (value.name == "stablehlo.conv") {
      out += '<';
      append_convolution_dims(out, value);
      out += '>';
    } else {
      append_struct_body(out, value);
    }
  }
  void operator()(const EnumAttr& value) {
    if (const int64_t integer = enum_to_integer(value); integer >= 0) {
      append_int(out, integer);
      out += " : i32";
      return;
    }
    const size_t dot = value.name.find('.');
    if (value.name == "stablehlo.result_accuracy_mode") {
      out += "#" + value.name + "<" + value.value + ">";
      return;
    }
    out += "#" + value.name.substr(0, dot) + "<" +
           (dot == std::string::npos ? "" : value.name.substr(dot + 1) + " ") + value.value + ">";
  }
  void operator()(const MeshAttr& value) { out += "#sdy.mesh" + cleave::to_string(value.mesh); }
  void operator()(const ShardingAttr& value) {
    out += "#sdy.sharding" + to_string_with_mesh(value.spec);
  }
  void operator()(const ShardingsAttr& value) {
    out += "#sdy.sharding_per_value<[";
    append_joined(out, value.specs,
                  [&](const ShardingSpec& spec) { out += to_string_with_mesh(spec); });
    out += "]>";
  }
  void operator()(const ManualAxesAttr& value) {
    out += "#sdy<manual_axes";
    append_manual_axes(out, value);
    out += '>';
  }
  void operator()(const AxisListsAttr& value) {
    const size_t dot = value.name.find('.');
    out += "#sdy<" + value.name.substr(dot + 1);
    append_axis_lists(out, value);
    out += '>';
  }
  void operator()(const AllToAllAttr& value) {
    out += "#sdy<all_to_all_param_list";
    append_moves(out, value);
    out += '>';
  }
  void operator()(const ShardingRuleAttr& value) {
    out += "#sdy.op_sharding_rule<" + cleave::to_string(*value.rule) + ">";
  }
  void operator()(const OpaqueAttr& value) { out += value.text; }
};

}  // namespace

void append_int(std::string& out, int64_t value) {
  const fmt::format_int text(value);
  out.append(text.data(), text.size());
}

void append_type(std::string& out, const Type& type) {
  if (type.kind != Type::Kind::Tensor || type.unranked || !type.encoding.empty()) {
    out += to_string(type);
    return;
  }
  out += "tensor<";
  for (int64_t size : type.shape) {
    if (size == kDynamicSize)
      out += '?';
    else
      append_int(out, size);
    out += 'x';
  }
  if (type.dtype == DType::Other)
    out += type.text;
  else
    out += name(type.dtype);
  out += '>';
}

void append_types(std::string& out, std::span<const Type> types) {
  append_joined(out, types, [&](const Type& type) { append_type(out, type); });
}

void append_string(std::string& out, std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  out += '"';
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (byte >= 0x20 && byte < 0x7F && c != '"') {
      out += c;
    } else {
      out += '\\';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  out += '"';
}

void append_keyword_or_string(std::string& out, std::string_view text) {
  if (is_bare_identifier(text))
    out += text;
  else
    append_string(out, text);
}

void append_symbol(std::string& out, std::string_view name) {
  out += '@';
  append_keyword_or_string(out, name);
}

void append_attribute(std::string& out, const Attribute& attribute, size_t hex_limit,
                      bool elide_type) {
  std::visit(AttributePrinter{out, hex_limit, elide_type}, attribute.storage());
}

void append_named(std::string& out, const NamedAttribute& attribute, size_t hex_limit) {
  append_keyword_or_string(out, attribute.name);
  if (attribute.value.as<UnitAttr>()) return;
  out += " = ";
  append_attribute(out, attribute.value, hex_limit);
}

void append_dict(std::string& out, const AttrDict& dict, size_t hex_limit) {
  out += '{';
  append_joined(out, dict.entries(),
                [&](const NamedAttribute& entry) { append_named(out, entry, hex_limit); });
  out += '}';
}

void append_ints(std::string& out, std::span<const int64_t> values) {
  out += '[';
  append_joined(out, values, [&](int64_t value) {
    if (value == kDynamicSize)
      out += '?';
    else
      append_int(out, value);
  });
  out += ']';
}

void append_bools(std::string& out, std::span<const int64_t> values) {
  out += '[';
  append_joined(out, values, [&](int64_t value) { out += value ? "true" : "false"; });
  out += ']';
}

void append_float_attr(std::string& out, const FloatAttr& attribute) {
  append_float(out, attribute.type.dtype, encode_float(attribute.type.dtype, attribute.value));
}

std::vector<int64_t> ints_of(const Attribute& attribute) {
  AttrDict dict;
  dict.set("value", attribute);
  return dict.get_ints("value");
}

bool is_plain_convolution(const StructAttr& dims) {
  if (dims.fields.size() != 9) return false;
  // Three fields for each tensor: two dimensions, and the list of spatial ones.
  for (size_t first : {0, 3, 6}) {
    const auto* a = dims.fields[first].value.as<IntegerAttr>();
    const auto* b = dims.fields[first + 1].value.as<IntegerAttr>();
    const auto* spatial = dims.fields[first + 2].value.as<DenseArrayAttr>();
    if (!a || !b || !spatial) return false;
    std::vector<int64_t> all = spatial->ints;
    all.push_back(a->value);
    all.push_back(b->value);
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

void append_convolution_dims(std::string& out, const StructAttr& dims) {
  const auto append = [&](std::string prefix, char first, const char* first_name, char second,
                          const char* second_name) {
    const std::vector<int64_t> spatial = dims.get_ints_or_empty(prefix + "spatial_dimensions");
    std::vector<std::string> letters(spatial.size() + 2, "?");
    const auto put = [&](int64_t dim, std::string letter) {
      if (dim >= 0 && dim < static_cast<int64_t>(letters.size()))
        letters[static_cast<size_t>(dim)] = std::move(letter);
    };
    put(dims.get_int(prefix + first_name, 0), std::string(1, first));
    put(dims.get_int(prefix + second_name, 0), std::string(1, second));
    for (size_t i = 0; i < spatial.size(); ++i) put(spatial[i], std::to_string(i));
    out += fmt::format("[{}]", fmt::join(letters, ", "));
  };
  append("input_", 'b', "batch_dimension", 'f', "feature_dimension");
  out += 'x';
  append("kernel_", 'i', "input_feature_dimension", 'o', "output_feature_dimension");
  out += "->";
  append("output_", 'b', "batch_dimension", 'f', "feature_dimension");
}

void append_struct_body(std::string& out, const StructAttr& value) {
  out += '<';
  append_joined(out, value.fields, [&](const NamedAttribute& field) {
    out += field.name + " = ";
    if (const auto* ints = field.value.as<DenseArrayAttr>())
      append_ints(out, ints->ints);
    else if (const auto* integer = field.value.as<IntegerAttr>())
      append_int(out, integer->value);
    else if (const auto* number = field.value.as<FloatAttr>())
      append_float_attr(out, *number);
    else
      append_attribute(out, field.value);
  });
  out += '>';
}

void append_axis_lists(std::string& out, const AxisListsAttr& lists) {
  const auto append_list = [&](const AxisList& axes) {
    out += "{" + to_string(axes, *lists.mesh) + "}";
  };
  if (lists.name == "sdy.axis_ref_list") {
    append_list(lists.lists.empty() ? AxisList() : lists.lists[0]);
    return;
  }
  out += '[';
  append_joined(out, lists.lists, append_list);
  out += ']';
}

void append_moves(std::string& out, const AllToAllAttr& moves) {
  out += '[';
  append_joined(out, moves.moves, [&](const AllToAllMove& move) {
    out += fmt::format("{{{}}}: {}->{}", to_string(move.axes, *moves.mesh), move.source_dim,
                       move.target_dim);
  });
  out += ']';
}

void append_manual_axes(std::string& out, const ManualAxesAttr& axes) {
  out += '{';
  append_joined(out, axes.axes, [&](const std::string& axis) { append_string(out, axis); });
  out += '}';
}

}  // namespace text

std::string to_string(const Attribute& attribute) {
  std::string out;
  text::append_attribute(out, attribute);
  return out;
}

}  // namespace cleave
