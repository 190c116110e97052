#include <algorithm>

#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/reduce/family.h"
#include "cleave/ops/reduce/local_windows.h"
#include "cleave/ops/reduce/reducer.h"
#include "cleave/ops/reduce/window_attr.h"
#include "cleave/ops/sort/local_rounds.h"

namespace cleave {
namespace {

int64_t ceil_of(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -((-a) / b); }
int64_t floor_of(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

void reduce_window_needs(const Graph& graph, const Node& node, std::span<const ShardSlice> results,
                         std::span<ShardSlice> operands) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const Window window = window_of(node, shape.size());
  for (size_t i = 0; i < operands.size() / 2; ++i)
    for (size_t d = 0; d < shape.size(); ++d) {
      const WindowPart part =
          window_part(window.dims[d], shape[d], results[0].offset[d], results[0].size[d]);
      operands[i].offset[d] = part.offset;
      operands[i].size[d] = part.size;
    }
}

// Initial values also fill the padding: on devices that must not count them, the identity does.
std::vector<ValueId> local_reduce_window(LocalOp& op) {
  if (op.attrs().has("cleave.parts")) return local_running_round(op);
  std::vector<ShardSlice> needed = op.operand_boxes;
  reduce_window_needs(op.whole(), op.node(), op.result_boxes, needed);
  const size_t n = op.operands.size() / 2;
  const Shape& shape = op.operand_shape(0);
  const Window window = window_of(op.node(), shape.size());
  std::vector<int64_t> padding;
  for (size_t d = 0; d < shape.size(); ++d) {
    const WindowPart part = window_part(window.dims[d], shape[d], op.result_boxes[0].offset[d],
                                        op.result_boxes[0].size[d]);
    padding.push_back(part.low);
    padding.push_back(part.high);
  }
  std::vector<ValueId> operands;
  for (size_t i = 0; i < n; ++i) operands.push_back(op.operand_part(i, needed[i]));
  const auto reducer = common_reducer(op.whole(), op.node().regions[0], false);
  for (size_t i = n; i < 2 * n; ++i)
    operands.push_back(op.counts[i] || !reducer ? op.operands[i]
                                                : op.identity(*reducer, op.type(op.operands[i])));
  AttrDict attrs = op.attrs();
  attrs.set("padding", padding_attr(padding));
  return op.emit_self(std::move(operands), std::move(attrs));
}

// The window along spatial dimension i as a device sees it that holds a part of the kernel: its
// elements are fewer, and the first of them lies further inside.
//   a kernel of 6 at padding 1, elements [3, 6): a window of 3 at padding -2
Window::Dim kernel_part(const ConvWindow& window, size_t i, int64_t offset, int64_t size) {
  Window::Dim part = window.window.dims[i];
  const int64_t first = window.reversed[i] ? part.size - offset - size : offset;
  part.size = size;
  part.low -= first * part.dilation;
  return part;
}

// What the device's outputs see of the input through its part of the kernel.
std::vector<WindowPart> convolution_parts(const Graph& graph, const Node& node,
                                          const ShardSlice& kernel, const ShardSlice& result) {
  const ConvDims dims = conv_dims(node);
  const ConvWindow window = conv_window(node, dims, graph.operand_type(node, 1).shape);
  std::vector<WindowPart> parts;
  for (size_t i = 0; i < dims.input_spatial.size(); ++i) {
    const int64_t k = dims.kernel_spatial[i], out = dims.output_spatial[i];
    parts.push_back(kernel.size[k] == 0
                        ? WindowPart{}
                        : window_part(kernel_part(window, i, kernel.offset[k], kernel.size[k]),
                                      graph.operand_type(node, 0).shape[dims.input_spatial[i]],
                                      result.offset[out], result.size[out]));
  }
  return parts;
}

void convolution_needs(const Graph& graph, const Node& node, std::span<const ShardSlice> results,
                       std::span<ShardSlice> operands) {
  const ConvDims dims = conv_dims(node);
  const std::vector<WindowPart> parts = convolution_parts(graph, node, operands[1], results[0]);
  for (size_t i = 0; i < parts.size(); ++i) {
    operands[0].offset[dims.input_spatial[i]] = parts[i].offset;
    operands[0].size[dims.input_spatial[i]] = parts[i].size;
  }
}

std::vector<ValueId> local_convolution(LocalOp& op) {
  const ConvDims dims = conv_dims(op.node());
  const Shape& input = op.operand_boxes[0].size;
  const Shape& kernel = op.operand_boxes[1].size;
  const Shape& result = op.result_boxes[0].size;
  if (num_elements(input) == 0 || num_elements(kernel) == 0) return {op.splat(op.result_type(), 0)};
  std::vector<ShardSlice> needed = op.operand_boxes;
  convolution_needs(op.whole(), op.node(), op.result_boxes, needed);
  if (num_elements(needed[0].size) == 0) return {op.splat(op.result_type(), 0)};
  std::vector<int64_t> padding;
  for (const WindowPart& part :
       convolution_parts(op.whole(), op.node(), op.operand_boxes[1], op.result_boxes[0])) {
    padding.push_back(part.low);
    padding.push_back(part.high);
  }
  AttrDict attrs = op.attrs();
  attrs.set("padding", padding_attr(padding));
  attrs.set("feature_group_count",
            int_attr(input[dims.input_feature] / kernel[dims.kernel_input_feature]));
  attrs.set("batch_group_count", int_attr(input[dims.input_batch] / result[dims.output_batch]));
  return op.emit_self({op.operand_part(0, needed[0]), op.operands[1]}, std::move(attrs));
}

// A part of the kernel sees its place in all windows. Where these lie closer together than the
// kernel is long (the gradient of a kernel, whose "kernel" is the gradient of an image), that is
// little more than a part of the input; else it is most of it, and the kernel stays whole.
bool convolution_shardable(const Graph& graph, const Node& node, const OpShardingRule& rule,
                           FactorIndex factor) {
  const ConvDims dims = conv_dims(node);
  const Window window = conv_window(node, dims, graph.operand_type(node, 1).shape).window;
  for (size_t i = 0; i < dims.kernel_spatial.size(); ++i) {
    const DimFactors& dim = rule.operands[1][dims.kernel_spatial[i]];
    if (std::find(dim.begin(), dim.end(), factor) == dim.end()) continue;
    const Window::Dim& along = window.dims[i];
    const int64_t windows = graph.result_type(node).shape[dims.output_spatial[i]];
    return (along.size - 1) * along.dilation > (windows - 1) * along.stride;
  }
  return true;
}

// The windows that touch elements [begin, begin + count).
struct Windows {
  int64_t first = 0, count = 0;
};
Windows windows_over(const Window::Dim& window, int64_t begin, int64_t count, int64_t windows) {
  if (count == 0) return {};
  const int64_t first = std::max<int64_t>(
      0, ceil_of(begin + window.low - (window.size - 1) * window.dilation, window.stride));
  const int64_t last =
      std::min(windows - 1, floor_of(begin + count - 1 + window.low, window.stride));
  return first <= last ? Windows{first, last - first + 1} : Windows{};
}

// An element gets what windows over it send, and each of those windows chooses among all of its
// elements: the device needs them, and the source of those windows.
void select_and_scatter_needs(const Graph& graph, const Node& node,
                              std::span<const ShardSlice> results, std::span<ShardSlice> operands) {
  const Shape& shape = graph.operand_type(node, 0).shape;
  const Shape& windows = graph.operand_type(node, 1).shape;
  const Window window = window_of(node, shape.size());
  for (size_t d = 0; d < shape.size(); ++d) {
    const Windows over =
        windows_over(window.dims[d], results[0].offset[d], results[0].size[d], windows[d]);
    const WindowPart part = window_part(window.dims[d], shape[d], over.first, over.count);
    operands[0].offset[d] = part.offset;
    operands[0].size[d] = part.size;
    operands[1].offset[d] = over.first;
    operands[1].size[d] = over.count;
  }
}

// The op on what the device's windows see; of its result the device's own elements, and the initial
// value where no window is.
std::vector<ValueId> local_select_and_scatter(LocalOp& op) {
  std::vector<ShardSlice> needed = op.operand_boxes;
  select_and_scatter_needs(op.whole(), op.node(), op.result_boxes, needed);
  const ShardSlice box = op.result_boxes[0];
  const Type scalar = Type::tensor(op.result_type().dtype, {});
  ValueId init = op.operands[2];
  if (op.type(init).dtype != scalar.dtype) init = op.emit("stablehlo.convert", {init}, scalar);
  if (num_elements(needed[0].size) == 0 || num_elements(needed[1].size) == 0)
    return {op.broadcast_scalar(init, box.size)};
  const Window window = window_of(op.node(), box.size.size());
  std::vector<int64_t> padding, low, high;
  for (size_t d = 0; d < box.size.size(); ++d) {
    const WindowPart part =
        window_part(window.dims[d], op.operand_shape(0)[d], needed[1].offset[d], needed[1].size[d]);
    padding.insert(padding.end(), {part.low, part.high});
    low.push_back(needed[0].offset[d] - box.offset[d]);
    high.push_back(box.offset[d] + box.size[d] - needed[0].offset[d] - needed[0].size[d]);
  }
  const bool is_own = std::all_of(low.begin(), low.end(), [](int64_t n) { return n == 0; }) &&
                      std::all_of(high.begin(), high.end(), [](int64_t n) { return n == 0; });
  AttrDict attrs = op.attrs();
  attrs.set("padding", padding_attr(padding));
  std::vector<ValueId> operands = {op.operand_part(0, needed[0]), op.operand_part(1, needed[1]),
                                   op.operands[2]};
  if (is_own) return op.emit_self(std::move(operands), std::move(attrs));
  const Type own = op.result_type();
  op.result_boxes[0] = needed[0];
  const ValueId scattered = op.emit_self(std::move(operands), std::move(attrs))[0];
  AttrDict crop;
  crop.set("edge_padding_low", ints_attr(low));
  crop.set("edge_padding_high", ints_attr(high));
  crop.set("interior_padding", ints_attr(std::vector<int64_t>(low.size(), 0)));
  return {op.emit("stablehlo.pad", {scattered, init}, own, std::move(crop))};
}

bool always_shardable(const Graph&, const Node&, const OpShardingRule&, FactorIndex) {
  return true;
}

}  // namespace

WindowPart window_part(const Window::Dim& window, int64_t size, int64_t begin, int64_t count) {
  WindowPart part;
  if (count == 0) return part;
  const int64_t first = begin * window.stride - window.low;
  const int64_t last =
      (begin + count - 1) * window.stride + (window.size - 1) * window.dilation - window.low;
  const int64_t from = std::max<int64_t>(0, ceil_of(first, window.base_dilation));
  const int64_t to = std::min(size - 1, floor_of(last, window.base_dilation));
  if (from > to) {
    part.low = last - first + 1;
    return part;
  }
  part.offset = from;
  part.size = to - from + 1;
  part.low = from * window.base_dilation - first;
  part.high = last - to * window.base_dilation;
  return part;
}

Attribute padding_attr(const std::vector<int64_t>& pairs) {
  Literal literal;
  literal.type = Type::tensor(DType::I64, {static_cast<int64_t>(pairs.size() / 2), 2});
  const auto* data = reinterpret_cast<const std::byte*>(pairs.data());
  literal.bytes =
      std::make_shared<const std::vector<std::byte>>(data, data + pairs.size() * sizeof(int64_t));
  return literal_attr(std::move(literal));
}

void add_local_window_forms(OpRegistry& registry) {
  registry.extend("stablehlo.reduce_window", [](OpDef& def) {
    def.localize = local_reduce_window;
    def.needs = reduce_window_needs;
  });
  registry.extend("stablehlo.select_and_scatter", [](OpDef& def) {
    def.localize = local_select_and_scatter;
    def.needs = select_and_scatter_needs;
    def.shardable = always_shardable;
  });
  registry.extend("stablehlo.convolution", [](OpDef& def) {
    def.localize = local_convolution;
    def.needs = convolution_needs;
    def.shardable = convolution_shardable;
  });
}

}  // namespace cleave
