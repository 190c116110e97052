#include <algorithm>

#include "cleave/graph/text/attribute_printer.h"
#include "cleave/graph/text/printer.h"

namespace cleave::text {
namespace {

using Piece = OpSyntax::Piece;

template <typename T>
bool holds(const Node& node, std::string_view name) {
  const Attribute* value = node.attrs.find(name);
  return value && value->as<T>();
}

bool is_integer_of(const Attribute& value, DType dtype) {
  const auto* integer = value.as<IntegerAttr>();
  return integer && integer->type == Type::scalar(dtype);
}

bool is_int_array(const Attribute& value) {
  const auto* array = value.as<DenseArrayAttr>();
  return array && array->dtype == DType::I64;
}

bool kind_fits(std::string_view kind, const Attribute& value, const Node& node) {
  if (kind == "i64") return is_integer_of(value, DType::I64);
  if (kind == "i32") return is_integer_of(value, DType::I32);
  if (kind == "u32") return is_integer_of(value, DType::U32);
  if (kind == "u64") return is_integer_of(value, DType::U64);
  if (kind == "bool") return value.as<bool>();
  if (kind == "ints") return is_int_array(value);
  if (kind == "str" || kind == "symbol") return value.as<StringAttr>();
  if (kind == "symbol_ref") return value.as<SymbolRefAttr>();
  if (kind == "sharding") return value.as<ShardingAttr>();
  if (kind == "conv") {
    const auto* dims = value.as<StructAttr>();
    return dims && dims->name == "stablehlo.conv" && is_plain_convolution(*dims);
  }
  if (kind == "axis_lists" || kind == "axes") return value.as<AxisListsAttr>();
  if (kind == "moves") return value.as<AllToAllAttr>();
  if (kind == "elements") {
    // The constant also says the type of the only operand, or of the result.
    return value.as<ElementsAttr>() && node.operands.size() + node.results.size() == 1;
  }
  if (kind.substr(0, 4) == "enum") return value.as<EnumAttr>();
  return true;
}

bool all_of_type(const Graph& graph, const std::vector<ValueId>& values, const Type& type) {
  return std::all_of(values.begin(), values.end(),
                     [&](ValueId value) { return graph.type(value) == type; });
}

bool same_types_in_pairs(const Graph& graph, const Node& node) {
  return std::equal(node.operands.begin(), node.operands.end(), node.results.begin(),
                    node.results.end(),
                    [&](ValueId a, ValueId b) { return graph.type(a) == graph.type(b); });
}

bool types_fit(std::string_view kind, const Graph& graph, const Node& node) {
  if (kind == "signature" || kind == "results") return true;
  if (kind == "operand_types") return !node.operands.empty();
  if (kind == "first_type") {
    const bool is_check = node.name().substr(0, 6) == "check.";
    if (node.operands.empty() || node.results.size() != (is_check ? 0 : 1)) return false;
    const Type& type = graph.type(node.operands[0]);
    return all_of_type(graph, node.operands, type) && all_of_type(graph, node.results, type);
  }
  if (node.results.size() != 1) return false;
  if (kind == "tuple") {
    const Type& type = graph.result_type(node);
    if (type.kind != Type::Kind::Tuple || type.elements.size() != node.operands.size())
      return false;
    for (size_t i = 0; i < node.operands.size(); ++i)
      if (graph.operand_type(node, i) != type.elements[i]) return false;
  }
  return true;
}

bool special_fits(std::string_view special, const Graph& graph, const Node& node) {
  if (special == "slice_ranges") {
    size_t size = 0;
    for (std::string_view name : {"start_indices", "limit_indices", "strides"}) {
      const Attribute* value = node.attrs.find(name);
      if (!value || !is_int_array(*value)) return false;
      const size_t count = value->as<DenseArrayAttr>()->ints.size();
      if (name != "start_indices" && count != size) return false;
      size = count;
    }
    return true;
  }
  if (special == "window") {
    for (std::string_view name : {"window_strides", "lhs_dilation", "rhs_dilation"})
      if (const Attribute* value = node.attrs.find(name); value && !is_int_array(*value))
        return false;
    if (const Attribute* flags = node.attrs.find("window_reversal"))
      if (!flags->as<DenseArrayAttr>() || flags->as<DenseArrayAttr>()->dtype != DType::Bool)
        return false;
    const Attribute* padding = node.attrs.find("padding");
    if (!padding) return true;
    const auto* elements = padding->as<ElementsAttr>();
    if (!elements || !elements->literal.bytes) return false;
    const Type& type = elements->literal.type;
    return type.dtype == DType::I64 && type.rank() == 2 && type.shape[1] == 2 && type.shape[0] < 64;
  }
  if (special == "dot_dims") return holds<StructAttr>(node, "dot_dimension_numbers");
  if (special == "precision" || special == "precision_and_algorithm") {
    if (const Attribute* value = node.attrs.find("precision_config")) {
      const auto* array = value->as<ArrayAttr>();
      if (!array) return false;
      for (const Attribute& element : array->elements)
        if (!element.as<EnumAttr>()) return false;
    }
    return !node.attrs.has("algorithm") || holds<StructAttr>(node, "algorithm");
  }
  if (special == "exponent_mantissa") {
    for (std::string_view name : {"exponent_bits", "mantissa_bits"}) {
      const Attribute* value = node.attrs.find(name);
      if (!value || !is_integer_of(*value, DType::I32) || value->as<IntegerAttr>()->value < 0)
        return false;
    }
    return true;
  }
  if (special == "return" || special == "return_attrs_first") return node.results.empty();
  if (special == "barrier") return same_types_in_pairs(graph, node);
  return true;
}

bool custom_fits(const Graph& graph, const Node& node) {
  const auto num_args = [&](size_t region) {
    return graph.region(node.regions[region]).args.size();
  };
  if (node.name() == "stablehlo.while") {
    if (node.regions.size() != 2 || node.operands.size() != node.results.size()) return false;
    for (size_t region : {0, 1}) {
      if (num_args(region) != node.operands.size()) return false;
      for (size_t i = 0; i < node.operands.size(); ++i)
        if (graph.type(graph.region(node.regions[region]).args[i]) != graph.operand_type(node, i))
          return false;
    }
    return same_types_in_pairs(graph, node);
  }
  if (node.name() == "stablehlo.reduce") {
    const Attribute* dimensions = node.attrs.find("dimensions");
    return node.regions.size() == 1 && !node.operands.empty() && node.operands.size() % 2 == 0 &&
           num_args(0) == node.operands.size() && dimensions && is_int_array(*dimensions);
  }
  if (node.name() == "sdy.manual_computation")
    return node.regions.size() == 1 && holds<ShardingsAttr>(node, "in_shardings") &&
           holds<ShardingsAttr>(node, "out_shardings") &&
           holds<ManualAxesAttr>(node, "manual_axes");
  if (node.name() == "sdy.named_computation") {
    for (std::string_view name : {"in_shardings", "out_shardings"})
      if (node.attrs.has(name) && !holds<ShardingsAttr>(node, name)) return false;
    return node.regions.size() == 1 && holds<StringAttr>(node, "name");
  }
  // Constants print generically on their own where the value is not of the result's type.
  return node.regions.empty() && node.operands.empty() && node.results.size() == 1;
}

}  // namespace

bool has_pretty_form(const Graph& graph, const OpSyntax& syntax, const Node& node) {
  if (custom_printer(node.name())) return custom_fits(graph, node);
  if (!syntax.has_format()) return false;
  bool shows_operands = false, shows_regions = false, shows_results = false;
  for (const Piece& piece : syntax.pieces) {
    switch (piece.kind) {
      case Piece::Operands:
        shows_operands = true;
        break;
      case Piece::Types:
        shows_results = shows_results || piece.text != "operand_types";
        if (!types_fit(piece.text, graph, node)) return false;
        break;
      case Piece::Attribute: {
        const Attribute* value = node.attrs.find(piece.text);
        if (!value && !piece.optional) return false;
        if (value && !kind_fits(piece.attr_kind, *value, node)) return false;
        shows_results = shows_results || piece.attr_kind == "elements";
        break;
      }
      case Piece::Special:
        if (!special_fits(piece.text, graph, node)) return false;
        shows_operands =
            shows_operands || piece.text.substr(0, 6) == "return" || piece.text == "barrier";
        shows_results = shows_results || piece.text == "barrier";
        shows_regions = shows_regions || piece.text == "composite_regions";
        break;
      case Piece::Literal:
      case Piece::Attrs:
        break;
    }
  }
  return (shows_operands || node.operands.empty()) && (shows_regions || node.regions.empty()) &&
         (shows_results || node.results.empty());
}

}  // namespace cleave::text
