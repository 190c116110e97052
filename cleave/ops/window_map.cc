#include "cleave/ops/window_map.h"

#include "cleave/ops/expr.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

const StructAttr& struct_attr(const Node& node, const char* name) {
  const Attribute* attribute = node.attrs.find(name);
  const auto* fields = attribute ? attribute->as<StructAttr>() : nullptr;
  require(fields, node, "the attribute '{}' is missing", name);
  return *fields;
}

}  // namespace

WindowMap gather_map(const Node& node) {
  const StructAttr& dims = struct_attr(node, "dimension_numbers");
  return {dims.get_ints_or_empty("offset_dims"),
          dims.get_ints_or_empty("collapsed_slice_dims"),
          dims.get_ints_or_empty("operand_batching_dims"),
          dims.get_ints_or_empty("start_indices_batching_dims"),
          dims.get_ints_or_empty("start_index_map"),
          dims.get_int("index_vector_dim", 0)};
}

WindowMap scatter_map(const Node& node) {
  const StructAttr& dims = struct_attr(node, "scatter_dimension_numbers");
  return {dims.get_ints_or_empty("update_window_dims"),
          dims.get_ints_or_empty("inserted_window_dims"),
          dims.get_ints_or_empty("input_batching_dims"),
          dims.get_ints_or_empty("scatter_indices_batching_dims"),
          dims.get_ints_or_empty("scatter_dims_to_operand_dims"),
          dims.get_int("index_vector_dim", 0)};
}

Attribute gather_attr(const WindowMap& map) {
  return struct_of("stablehlo.gather",
                   {{"offset_dims", ints_attr(map.window_dims)},
                    {"collapsed_slice_dims", ints_attr(map.collapsed_dims)},
                    {"operand_batching_dims", ints_attr(map.operand_batching_dims)},
                    {"start_indices_batching_dims", ints_attr(map.indices_batching_dims)},
                    {"start_index_map", ints_attr(map.index_map)},
                    {"index_vector_dim", int_attr(map.index_vector_dim)}});
}

Attribute scatter_attr(const WindowMap& map) {
  return struct_of("stablehlo.scatter",
                   {{"update_window_dims", ints_attr(map.window_dims)},
                    {"inserted_window_dims", ints_attr(map.collapsed_dims)},
                    {"input_batching_dims", ints_attr(map.operand_batching_dims)},
                    {"scatter_indices_batching_dims", ints_attr(map.indices_batching_dims)},
                    {"scatter_dims_to_operand_dims", ints_attr(map.index_map)},
                    {"index_vector_dim", int_attr(map.index_vector_dim)}});
}

}  // namespace cleave
