#include "cleave/runtime/kernel_workspace.h"

#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/kernels/convolution_onednn.h"
#include "cleave/kernels/dense.h"
#include "cleave/kernels/workspace.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/dot/dot_dims.h"
#include "cleave/ops/op.h"

namespace cleave {
namespace {

int64_t convolution_workspace(const Node& node, const Array& input, const Array& kernel,
                              const Type& result) {
  if (input.num_elements() == 0 || kernel.num_elements() == 0 || num_elements(result.shape) == 0)
    return 0;
  const ConvDims dims = conv_dims(node);
  const ConvWindow window = conv_window(node, dims, kernel.shape());
  if (input.dtype() == result.dtype && kernel.dtype() == result.dtype &&
      convolution_compute_type(result.dtype, result.dtype, result.dtype) == result.dtype) {
    // A view of nothing: only its layout is looked at.
    const Array target(result.dtype, result.shape, row_major_strides(result.shape), 0, Buffer());
    const conv_detail::Canonical conv = conv_detail::canonical(input, kernel, target, dims, window);
    if (const auto bytes = conv_detail::onednn_workspace(
            conv_detail::layout_of(conv.input), conv_detail::layout_of(conv.kernel),
            conv_detail::layout_of(conv.result), conv.window))
      return *bytes;
  }
  int64_t bytes = 0;
  auto padded = static_cast<int64_t>(input.num_bytes());
  bool is_padded = false;
  for (size_t i = 0; i < dims.input_spatial.size(); ++i) {
    const Window::Dim& dim = window.window.dims[i];
    if (dim.base_dilation == 1 && dim.low >= 0 && dim.high >= 0) continue;
    const int64_t size = input.shape()[dims.input_spatial[i]];
    if (size == 0) return 0;
    padded = padded / size *
             std::max<int64_t>(0, (size - 1) * dim.base_dilation + 1 + dim.low + dim.high);
    is_padded = true;
  }
  if (is_padded || !is_dense(input.shape(), input.strides())) bytes += padded;
  const bool mirrored = std::any_of(window.reversed.begin(), window.reversed.end(),
                                    [](bool reversed) { return reversed; });
  if (mirrored || !is_dense(kernel.shape(), kernel.strides()))
    bytes += static_cast<int64_t>(kernel.num_bytes());
  // The library wants channels innermost, and kernels in blocks.
  bytes += static_cast<int64_t>(kernel.num_bytes());
  const bool channels_last = !is_padded && input.strides()[dims.input_feature] == 1;
  if (!channels_last) bytes += padded;
  if (dims.output_feature + 1 != static_cast<int64_t>(result.rank())) bytes += result.byte_count();
  return bytes;
}

// Reductions and copies read strided views as they are; these do not.
bool packs_operands(const Node& node) { return is<op::Scatter, op::Gather, op::Sort>(node); }

}  // namespace

bool may_write_in_place(const Node& node) {
  if (is<op::DynamicUpdateSlice>(node)) return true;
  return node.def && node.def->has(kElementwise) && node.operands.size() <= 2 &&
         !is<op::Compare, op::Convert, op::BitcastConvert, op::ConstantLike>(node);
}

int64_t kernel_workspace(const Graph& graph, const Node& node, std::span<const Array> in) {
  if (const auto dims = dot_dims_of(graph, node))
    return dot_workspace(in[0], in[1], *dims, graph.result_type(node).dtype);
  if (is<op::Convolution>(node))
    return convolution_workspace(node, in[0], in[1], graph.result_type(node));
  int64_t bytes = 0;
  if (is<op::Clamp>(node)) bytes += graph.result_type(node).byte_count();
  const bool loops = node.def && node.def->has(kElementwise);
  for (const Array& operand : in)
    if (loops ? loop_packs(operand) : packs_operands(node) && !operand.is_contiguous())
      bytes += static_cast<int64_t>(operand.num_bytes());
  return bytes;
}

}  // namespace cleave
