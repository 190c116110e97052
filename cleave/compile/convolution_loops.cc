#include "cleave/compile/convolution_loops.h"

#include <algorithm>
#include <cmath>

#include "cleave/ops/convolution/conv_attr.h"

namespace cleave {

std::vector<FusionTiming::Loop> convolution_loops(const Graph& graph, const Node& node) {
  constexpr double kRow = 20;  // pixels whose sums registers hold
  const ConvDims dims = conv_dims(node);
  const Shape& kernel = graph.operand_type(node, 1).shape;
  const Shape& result = graph.result_type(node).shape;
  const auto groups = static_cast<double>(node.attrs.get_int("feature_group_count", 1) *
                                          node.attrs.get_int("batch_group_count", 1));
  const auto all = static_cast<double>(kernel[dims.kernel_output_feature]);
  const double features = std::max(1.0, all / groups);
  const double window = static_cast<double>(num_elements(kernel)) / std::max(1.0, all);
  const double pixels = static_cast<double>(num_elements(result)) / std::max(1.0, all);
  const double row =
      dims.output_spatial.empty() ? 1 : static_cast<double>(result[dims.output_spatial.back()]);
  const double numbers = groups * pixels * window;
  return {{std::string(kConvolutionCall), 1},
          {"convolution.row", numbers / std::clamp(row, 1.0, kRow)},
          {"convolution.4", numbers * std::ceil(features / 4)},
          {"convolution.8", numbers * std::ceil(features / 8)},
          {"convolution.16", numbers * std::ceil(features / 16)}};
}

}  // namespace cleave
