#include "cleave/ops/dot/precision.h"

#include <algorithm>

#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

struct DotAlgorithm {
  std::string_view operands, accumulation;
  int64_t products;  // how many of operand type make up one of the accumulation type
};

constexpr DotAlgorithm kDotAlgorithms[] = {
    {"f16", "f16", 1},  {"f16", "f32", 1},  {"bf16", "bf16", 1}, {"bf16", "f32", 1},
    {"bf16", "f32", 3}, {"bf16", "f32", 6}, {"bf16", "f32", 9},  {"tf32", "f32", 1},
    {"tf32", "f32", 3}, {"f32", "f32", 1},  {"f64", "f64", 1},
};

std::string type_field(const Node& node, const StructAttr& algorithm, const char* field) {
  const Attribute* attribute = algorithm.find(field);
  const auto* type = attribute ? attribute->as<TypeAttr>() : nullptr;
  require(type, node, "algorithm: the field '{}' must be a type", field);
  return to_string(type->type);
}

void verify_algorithm(const Node& node, const StructAttr& algorithm) {
  for (const char* count :
       {"lhs_component_count", "rhs_component_count", "num_primitive_operations"})
    require(algorithm.get_int(count, 0) > 0, node, "algorithm: {} must be positive, got {}", count,
            algorithm.get_int(count, 0));
  const std::string lhs = type_field(node, algorithm, "lhs_precision_type");
  const std::string rhs = type_field(node, algorithm, "rhs_precision_type");
  const std::string sum = type_field(node, algorithm, "accumulation_type");
  const int64_t products = algorithm.get_int("num_primitive_operations", 0);
  const Attribute* flag = algorithm.find("allow_imprecise_accumulation");
  const bool imprecise = flag && flag->as<bool>() && *flag->as<bool>();
  const bool narrow = lhs.starts_with("f8") && rhs.starts_with("f8") && sum == "f32";
  bool known = narrow && products == 1;
  for (const DotAlgorithm& each : kDotAlgorithms)
    known |= !imprecise && lhs == each.operands && rhs == each.operands &&
             sum == each.accumulation && products == each.products;
  known &= algorithm.get_int("lhs_component_count", 0) == 1 &&
           algorithm.get_int("rhs_component_count", 0) == 1;
  require(known, node, "no hardware is known for the algorithm {} x {} -> {} with {} product(s){}",
          lhs, rhs, sum, products, imprecise ? " and imprecise sums" : "");
}

}  // namespace

bool asks_for_precision(const Node& node) {
  if (const Attribute* attribute = node.attrs.find("precision_config"))
    if (const auto* list = attribute->as<ArrayAttr>())
      for (const Attribute& element : list->elements)
        if (const auto* precision = element.as<EnumAttr>();
            precision && precision->value != "DEFAULT")
          return true;
  const Attribute* algorithm = node.attrs.find("algorithm");
  const auto* fields = algorithm ? algorithm->as<StructAttr>() : nullptr;
  return fields && type_field(node, *fields, "lhs_precision_type") == "f32";
}

void verify_precision(const Graph&, const Node& node) {
  bool all_default = true;
  if (const Attribute* attribute = node.attrs.find("precision_config")) {
    const auto* list = attribute->as<ArrayAttr>();
    require(list, node, "precision_config must be a list");
    require(list->elements.size() <= 2, node, "precision_config names {} precisions for 2 operands",
            list->elements.size());
    for (const Attribute& element : list->elements) {
      const auto* precision = element.as<EnumAttr>();
      require(precision && (precision->value == "DEFAULT" || precision->value == "HIGH" ||
                            precision->value == "HIGHEST"),
              node, "precision_config must name DEFAULT, HIGH or HIGHEST");
      all_default &= precision->value == "DEFAULT";
    }
  }
  const Attribute* attribute = node.attrs.find("algorithm");
  if (!attribute) return;
  const auto* algorithm = attribute->as<StructAttr>();
  require(algorithm, node, "'algorithm' must be a #stablehlo.dot_algorithm");
  require(all_default, node, "an algorithm goes with the precision DEFAULT only");
  verify_algorithm(node, *algorithm);
}

void verify_result_accuracy(const Graph&, const Node& node) {
  const Attribute* attribute = node.attrs.find("result_accuracy");
  const auto* accuracy = attribute ? attribute->as<StructAttr>() : nullptr;
  if (!accuracy) return;
  bool exact = accuracy->get_int("ulps", 0) == 0;
  bool negative = accuracy->get_int("ulps", 0) < 0;
  for (const char* field : {"atol", "rtol"}) {
    const Attribute* value = accuracy->find(field);
    const auto* tolerance = value ? value->as<FloatAttr>() : nullptr;
    if (!tolerance) continue;
    exact &= tolerance->value == 0;
    negative |= tolerance->value < 0;
  }
  require(!negative, node, "result_accuracy has a negative tolerance");
  const Attribute* value = accuracy->find("mode");
  const auto* mode = value ? value->as<EnumAttr>() : nullptr;
  require(exact || !mode || mode->value == "TOLERANCE", node,
          "result_accuracy has tolerances, and the mode {}", mode ? mode->value : "");
}

}  // namespace cleave
