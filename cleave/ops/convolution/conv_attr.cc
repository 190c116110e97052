#include "cleave/ops/convolution/conv_attr.h"

#include "cleave/ops/infer_util.h"
#include "cleave/ops/reduce/window_attr.h"

namespace cleave {
ConvDims conv_dims(const Node& node) {
  const Attribute* attribute = node.attrs.find(kConvDims);
  require(attribute != nullptr, node, "attribute 'dimension_numbers' (#stablehlo.conv) is missing");
  const StructAttr* numbers = attribute->as<StructAttr>();
  require(numbers != nullptr, node, "attribute 'dimension_numbers' must be #stablehlo.conv");
  return {numbers->get_int("input_batch_dimension", -1),
          numbers->get_int("input_feature_dimension", -1),
          numbers->get_ints_or_empty("input_spatial_dimensions"),
          numbers->get_int("kernel_input_feature_dimension", -1),
          numbers->get_int("kernel_output_feature_dimension", -1),
          numbers->get_ints_or_empty("kernel_spatial_dimensions"),
          numbers->get_int("output_batch_dimension", -1),
          numbers->get_int("output_feature_dimension", -1),
          numbers->get_ints_or_empty("output_spatial_dimensions")};
}

Attribute conv_dims_attr(const ConvDims& dims) {
  return StructAttr{"stablehlo.conv",
                    {{"input_batch_dimension", int_attr(dims.input_batch)},
                     {"input_feature_dimension", int_attr(dims.input_feature)},
                     {"input_spatial_dimensions", ints_attr(dims.input_spatial)},
                     {"kernel_input_feature_dimension", int_attr(dims.kernel_input_feature)},
                     {"kernel_output_feature_dimension", int_attr(dims.kernel_output_feature)},
                     {"kernel_spatial_dimensions", ints_attr(dims.kernel_spatial)},
                     {"output_batch_dimension", int_attr(dims.output_batch)},
                     {"output_feature_dimension", int_attr(dims.output_feature)},
                     {"output_spatial_dimensions", ints_attr(dims.output_spatial)}}};
}

ConvWindow conv_window(const Node& node, const ConvDims& dims, const Shape& kernel) {
  const size_t spatial = dims.kernel_spatial.size();
  auto positive = [&](const char* name) { return positive_window_entries(node, name, spatial); };
  const auto stride = positive("window_strides"), base = positive("lhs_dilation");
  const auto dilation = positive("rhs_dilation");
  const auto padding = window_entries(node, "padding", 2 * spatial, 0);
  const auto reversal = window_entries(node, "window_reversal", spatial, 0);
  ConvWindow window;
  for (size_t i = 0; i < spatial; ++i) {
    window.window.dims.push_back({kernel[dims.kernel_spatial[i]], stride[i], base[i], dilation[i],
                                  padding[2 * i], padding[2 * i + 1]});
    window.reversed.push_back(reversal[i] != 0);
  }
  window.feature_groups = node.attrs.get_int("feature_group_count", 1);
  window.batch_groups = node.attrs.get_int("batch_group_count", 1);
  return window;
}

}  // namespace cleave
