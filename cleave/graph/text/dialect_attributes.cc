#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cleave/core/mesh_text.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/text/attribute_parser.h"

namespace cleave::text {
namespace {

struct EnumNames {
  std::string_view name;
  std::vector<std::string_view> values;
};

const std::array kIntegerEnums = {
    EnumNames{"sdy.propagation_direction", {"NONE", "FORWARD", "BACKWARD", "BOTH"}},
    EnumNames{"sdy.reduction_op", {"sum", "max", "min"}},
};

// The fields of an attribute in the order in which they print. Where `elide` is set, a field that
// is zero or empty is not printed, and so not kept.
struct StructFields {
  std::string_view name;
  std::vector<std::string_view> fields;
  bool elide = false;
};

const std::array kStructs = {
    StructFields{"stablehlo.gather",
                 {"offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                  "start_indices_batching_dims", "start_index_map", "index_vector_dim"},
                 true},
    StructFields{
        "stablehlo.scatter",
        {"update_window_dims", "inserted_window_dims", "input_batching_dims",
         "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim"},
        true},
    StructFields{"stablehlo.dot",
                 {"lhs_batching_dimensions", "rhs_batching_dimensions",
                  "lhs_contracting_dimensions", "rhs_contracting_dimensions"},
                 true},
    StructFields{
        "chlo.ragged_dot",
        {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
         "rhs_contracting_dimensions", "lhs_ragged_dimensions", "rhs_group_dimensions"},
        true},
    StructFields{"stablehlo.conv",
                 {"input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions",
                  "kernel_input_feature_dimension", "kernel_output_feature_dimension",
                  "kernel_spatial_dimensions", "output_batch_dimension", "output_feature_dimension",
                  "output_spatial_dimensions"}},
    StructFields{"stablehlo.channel_handle", {"handle", "type"}},
    StructFields{"stablehlo.output_operand_alias",
                 {"output_tuple_indices", "operand_index", "operand_tuple_indices"}},
    StructFields{
        "stablehlo.dot_algorithm",
        {"lhs_precision_type", "rhs_precision_type", "accumulation_type", "lhs_component_count",
         "rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation"}},
    StructFields{"stablehlo.result_accuracy", {"atol", "rtol", "ulps", "mode"}, true},
    StructFields{"stablehlo.type_extensions", {"bounds"}},
    StructFields{"stablehlo.axis_ref", {"name", "sub_axis_info"}},
    StructFields{"stablehlo.mesh", {"axes", "device_ids"}},
    StructFields{"stablehlo.mesh_axis", {"name", "size"}},
    StructFields{"stablehlo.replica_group_mesh_axes", {"mesh", "axes"}},
};

const StructFields* find_struct(std::string_view name) {
  for (const StructFields& known : kStructs)
    if (known.name == name) return &known;
  return nullptr;
}

}  // namespace

Attribute enum_from_integer(std::string_view enum_name, int64_t value) {
  for (const EnumNames& names : kIntegerEnums)
    if (names.name == enum_name && value >= 0 && value < static_cast<int64_t>(names.values.size()))
      return EnumAttr{std::string(enum_name),
                      std::string(names.values[static_cast<size_t>(value)])};
  throw_user("{} is not a value of {}", value, enum_name);
}

int64_t enum_to_integer(const EnumAttr& attribute) {
  for (const EnumNames& names : kIntegerEnums)
    if (names.name == attribute.name)
      for (size_t i = 0; i < names.values.size(); ++i)
        if (names.values[i] == attribute.value) return static_cast<int64_t>(i);
  return -1;
}

// From after the mnemonic on. With `#dialect<mnemonic ...>` the closing '>' is still to come.
Attribute AttributeParser::dialect_attribute(std::string_view dialect, std::string_view mnemonic,
                                             size_t begin) {
  const bool wrapped = lex_.source()[begin + 1 + dialect.size()] == '<';
  const auto finish = [&](Attribute value) {
    if (wrapped) lex_.expect(">");
    return value;
  };
  if (dialect == "sdy") {
    if (mnemonic == "sharding") return finish(ShardingAttr{sharding_body()});
    if (mnemonic == "sharding_per_value") {
      lex_.expect("<");
      ShardingsAttr shardings{sharding_list()};
      lex_.expect(">");
      return finish(std::move(shardings));
    }
    if (mnemonic == "mesh") {
      const size_t at = lex_.next_pos();
      Mesh mesh = lex_.with_cursor([](TextCursor& cursor) { return parse_mesh_body(cursor); });
      try {
        normalize_and_verify(mesh);
      } catch (const UserError& error) {
        lex_.fail_at(at, error.what());
      }
      return finish(MeshAttr{std::move(mesh)});
    }
    if (mnemonic == "manual_axes") return finish(ManualAxesAttr{manual_axes()});
    if (mnemonic == "op_sharding_rule")
      return finish(ShardingRuleAttr{std::make_shared<const OpShardingRule>(
          lex_.with_cursor([](TextCursor& c) { return parse_sharding_rule_body(c); }))});
    // Axis lists need the mesh of the op's sharding: the op's parser reads them again.
  }
  if (dialect == "stablehlo" && mnemonic == "conv") {
    const size_t bracket = lex_.next_pos();
    lex_.expect("<");
    if (lex_.accept_word("raw")) {
      lex_.seek(bracket);
      return finish(struct_body("stablehlo.conv"));
    }
    Attribute dims = convolution_dims();
    lex_.expect(">");
    return finish(std::move(dims));
  }
  if (std::string name = fmt::format("{}.{}", dialect, mnemonic); find_struct(name))
    return finish(struct_body(std::move(name)));
  if (dialect == "stablehlo" || dialect == "chlo" || dialect == "mhlo") {
    // An enum: `comparison_direction EQ>` or `comparison_direction<EQ>`.
    const size_t at = lex_.next_pos();
    const bool bracketed = lex_.accept("<");
    if (const std::string_view value = lex_.peek_word(); !value.empty()) {
      lex_.word();
      if (lex_.peek() == '>') {
        if (bracketed) lex_.expect(">");
        return finish(EnumAttr{fmt::format("{}.{}", dialect, mnemonic), std::string(value)});
      }
    }
    lex_.seek(at);
  }
  if (wrapped) {
    lex_.seek(begin + 1 + dialect.size());
    lex_.skip_balanced();
  } else if (lex_.current() == '<') {
    lex_.skip_balanced();
  }
  return opaque_from(begin);
}

Attribute AttributeParser::field_value() {
  DepthGuard guard(depth_, lex_);
  if (lex_.peek() == '[') {
    const size_t begin = lex_.pos();
    lex_.expect("[");
    const bool ints = lex_.at_integer() || lex_.peek() == '?' || lex_.peek() == ']';
    if (lex_.peek() == '<') {
      // The axes of a #stablehlo.mesh.
      ArrayAttr axes;
      do axes.elements.push_back(struct_body("stablehlo.mesh_axis"));
      while (lex_.accept(","));
      lex_.expect("]");
      return axes;
    }
    lex_.seek(begin);
    return ints ? ints_attr(int_list()) : attribute();
  }
  if (lex_.peek() == '<') {
    lex_.expect("<");
    EnumAttr value{"stablehlo.result_accuracy_mode", std::string(lex_.word())};
    lex_.expect(">");
    return value;
  }
  // Nested structs may be written without their name, sub-axis information without brackets.
  if (lex_.peek() == '(') {
    const size_t begin = lex_.next_pos();
    lex_.skip_balanced();
    if (lex_.at_integer()) {
      lex_.integer();
      return opaque_from(begin);
    }
    lex_.seek(begin);
  }
  return attribute();
}

Attribute AttributeParser::struct_body(std::string name) {
  DepthGuard guard(depth_, lex_);
  const StructFields& known = *find_struct(name);
  std::vector<std::optional<Attribute>> values(known.fields.size());
  lex_.expect("<");
  lex_.accept_word("raw");
  while (!lex_.accept(">")) {
    const size_t begin = lex_.next_pos();
    const std::string_view field = lex_.word();
    const auto it = std::find(known.fields.begin(), known.fields.end(), field);
    if (it == known.fields.end())
      lex_.fail_at(begin, fmt::format("#{} has no field '{}'", name, field));
    auto& slot = values[static_cast<size_t>(it - known.fields.begin())];
    if (slot) lex_.fail_at(begin, fmt::format("field '{}' appears twice", field));
    lex_.expect("=");
    slot = field_value();
    if (!lex_.accept(",") && lex_.peek() != '>') lex_.fail("expected ',' or '>'");
  }
  StructAttr result{std::move(name), {}};
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    const auto* ints = values[i]->as<DenseArrayAttr>();
    const auto* integer = values[i]->as<IntegerAttr>();
    const auto* number = values[i]->as<FloatAttr>();
    const bool empty = (ints && ints->ints.empty()) || (integer && integer->value == 0) ||
                       (number && number->value == 0);
    if (!(known.elide && empty))
      result.fields.push_back({std::string(known.fields[i]), std::move(*values[i])});
  }
  return result;
}

ShardingSpec AttributeParser::sharding_body() {
  if (lex_.accept("#")) lex_.expect_word("sdy.sharding");
  return lex_.with_cursor([&](TextCursor& cursor) { return parse_sharding_body(cursor, meshes_); });
}

std::vector<ShardingSpec> AttributeParser::sharding_list() {
  std::vector<ShardingSpec> shardings;
  lex_.expect("[");
  if (lex_.accept("]")) return shardings;
  do shardings.push_back(sharding_body());
  while (lex_.accept(","));
  lex_.expect("]");
  return shardings;
}

std::vector<std::string> AttributeParser::manual_axes() {
  std::vector<std::string> axes;
  lex_.expect("{");
  if (lex_.accept("}")) return axes;
  do axes.push_back(lex_.string_literal());
  while (lex_.accept(","));
  lex_.expect("}");
  return axes;
}

std::string_view AttributeParser::axes_text() {
  const char next = lex_.peek();
  if (next != '{' && next != '[') lex_.fail("expected axes such as [{\"x\"}, {}]");
  const size_t begin = lex_.pos();
  lex_.skip_balanced();
  return lex_.source().substr(begin, lex_.pos() - begin);
}

Attribute AttributeParser::convolution_dims() {
  StructAttr result{"stablehlo.conv", {}};
  const auto read = [&](const std::string& prefix, char first, const std::string& first_name,
                        char second, const std::string& second_name) {
    const size_t begin = lex_.next_pos();
    lex_.expect("[");
    std::optional<int64_t> a, b;
    std::vector<int64_t> spatial;
    int64_t index = 0;
    do {
      if (lex_.at_integer()) {
        const size_t at = lex_.next_pos();
        const int64_t dim = lex_.integer();
        if (dim < 0 || dim > 64) lex_.fail_at(at, "a spatial dimension out of range");
        if (spatial.size() <= static_cast<size_t>(dim))
          spatial.resize(static_cast<size_t>(dim) + 1, -1);
        if (spatial[static_cast<size_t>(dim)] >= 0)
          lex_.fail_at(at, "a spatial dimension that appears twice");
        spatial[static_cast<size_t>(dim)] = index;
      } else {
        const size_t at = lex_.next_pos();
        const std::string_view word = lex_.word();
        auto& slot = word.size() == 1 && word[0] == first ? a : b;
        if (word.size() != 1 || (word[0] != first && word[0] != second) || slot)
          lex_.fail_at(at,
                       fmt::format("expected a spatial dimension, '{}' or '{}'", first, second));
        slot = index;
      }
      ++index;
    } while (lex_.accept(","));
    lex_.expect("]");
    bool complete = a && b;
    for (int64_t dim : spatial) complete = complete && dim >= 0;
    if (!complete) lex_.fail_at(begin, "a dimension is missing");
    result.fields.push_back({prefix + first_name, int_attr(*a)});
    result.fields.push_back({prefix + second_name, int_attr(*b)});
    result.fields.push_back({prefix + "spatial_dimensions", ints_attr(std::move(spatial))});
  };
  read("input_", 'b', "batch_dimension", 'f', "feature_dimension");
  lex_.expect("x");
  read("kernel_", 'i', "input_feature_dimension", 'o', "output_feature_dimension");
  lex_.expect("->");
  read("output_", 'b', "batch_dimension", 'f', "feature_dimension");
  return result;
}

}  // namespace cleave::text
