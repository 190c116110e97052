#include "cleave/ops/dot/dot_dims.h"

#include "cleave/ops/infer_util.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

constexpr const char *kLhsBatch = "lhs_batching_dimensions", *kRhsBatch = "rhs_batching_dimensions",
                     *kLhsContract = "lhs_contracting_dimensions",
                     *kRhsContract = "rhs_contracting_dimensions",
                     *kRagged = "lhs_ragged_dimensions", *kGroup = "rhs_group_dimensions";

DotDims dims_of(const StructAttr& numbers) {
  return {numbers.get_ints_or_empty(kLhsBatch), numbers.get_ints_or_empty(kRhsBatch),
          numbers.get_ints_or_empty(kLhsContract), numbers.get_ints_or_empty(kRhsContract)};
}

void add_dims(StructAttr& attr, const char* name, const std::vector<int64_t>& dims) {
  if (!dims.empty()) attr.fields.push_back({name, ints_attr(dims)});
}

void add_dims(StructAttr& attr, const DotDims& dims) {
  add_dims(attr, kLhsBatch, dims.lhs_batch);
  add_dims(attr, kRhsBatch, dims.rhs_batch);
  add_dims(attr, kLhsContract, dims.lhs_contract);
  add_dims(attr, kRhsContract, dims.rhs_contract);
}

const StructAttr* numbers_named(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attrs.find(name);
  return attribute ? attribute->as<StructAttr>() : nullptr;
}

}  // namespace

DotDims dot_dims(const Node& node) {
  const StructAttr* numbers = numbers_named(node, kDotDims);
  require(numbers != nullptr, node,
          "attribute 'dot_dimension_numbers' (#stablehlo.dot) is missing");
  return dims_of(*numbers);
}

std::optional<DotDims> dot_dims_of(const Graph& graph, const Node& node) {
  if (is<op::DotGeneral>(node)) return dot_dims(node);
  if (!is<op::Dot>(node)) return std::nullopt;
  return DotDims{{}, {}, {static_cast<int64_t>(graph.operand_type(node, 0).rank()) - 1}, {0}};
}

bool is_dot(const Node& node) { return is<op::DotGeneral, op::Dot>(node); }

Attribute dot_dims_attr(const DotDims& dims) {
  StructAttr attr{"stablehlo.dot", {}};
  add_dims(attr, dims);
  return attr;
}

AttrDict dot_attrs(const DotDims& dims) {
  AttrDict attrs;
  attrs.set(kDotDims, dot_dims_attr(dims));
  return attrs;
}

RaggedDotDims ragged_dot_dims(const Node& node) {
  const StructAttr* numbers = numbers_named(node, kRaggedDotDims);
  require(numbers != nullptr, node, "ragged_dot_dimension_numbers is missing");
  return {dims_of(*numbers), numbers->get_ints_or_empty(kRagged),
          numbers->get_ints_or_empty(kGroup)};
}

Attribute ragged_dot_dims_attr(const RaggedDotDims& dims) {
  StructAttr attr{"chlo.ragged_dot", {}};
  add_dims(attr, dims.dot);
  add_dims(attr, kRagged, dims.ragged);
  add_dims(attr, kGroup, dims.group);
  return attr;
}

}  // namespace cleave
