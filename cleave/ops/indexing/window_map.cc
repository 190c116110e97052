#include "cleave/ops/indexing/window_map.h"

#include "cleave/ops/expr.h"
#include "cleave/ops/infer_util.h"

namespace cleave {
namespace {

const StructAttr& struct_attr(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attrs.find(name);
  const auto* fields = attribute ? attribute->as<StructAttr>() : nullptr;
  require(fields, node, "the attribute '{}' is missing", name);
  return *fields;
}

// Gather and scatter call the same things by other names.
struct Names {
  std::string_view attr;
  const char *window_dims, *collapsed_dims, *operand_batching_dims, *indices_batching_dims,
      *index_map;
};
constexpr Names kGather{kGatherDims,
                        "offset_dims",
                        "collapsed_slice_dims",
                        "operand_batching_dims",
                        "start_indices_batching_dims",
                        "start_index_map"};
constexpr Names kScatter{kScatterDims,
                         "update_window_dims",
                         "inserted_window_dims",
                         "input_batching_dims",
                         "scatter_indices_batching_dims",
                         "scatter_dims_to_operand_dims"};
constexpr const char* kIndexVectorDim = "index_vector_dim";

WindowMap map_of(const Node& node, const Names& names) {
  const StructAttr& dims = struct_attr(node, names.attr);
  return {dims.get_ints_or_empty(names.window_dims),
          dims.get_ints_or_empty(names.collapsed_dims),
          dims.get_ints_or_empty(names.operand_batching_dims),
          dims.get_ints_or_empty(names.indices_batching_dims),
          dims.get_ints_or_empty(names.index_map),
          dims.get_int(kIndexVectorDim, 0)};
}

Attribute attr_of(const char* name, const WindowMap& map, const Names& names) {
  return struct_of(name, {{names.window_dims, ints_attr(map.window_dims)},
                          {names.collapsed_dims, ints_attr(map.collapsed_dims)},
                          {names.operand_batching_dims, ints_attr(map.operand_batching_dims)},
                          {names.indices_batching_dims, ints_attr(map.indices_batching_dims)},
                          {names.index_map, ints_attr(map.index_map)},
                          {kIndexVectorDim, int_attr(map.index_vector_dim)}});
}

}  // namespace

WindowMap gather_map(const Node& node) { return map_of(node, kGather); }
WindowMap scatter_map(const Node& node) { return map_of(node, kScatter); }
Attribute gather_attr(const WindowMap& map) { return attr_of("stablehlo.gather", map, kGather); }
Attribute scatter_attr(const WindowMap& map) { return attr_of("stablehlo.scatter", map, kScatter); }

}  // namespace cleave
