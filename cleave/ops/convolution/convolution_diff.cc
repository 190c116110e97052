#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/convolution/family.h"
#include "cleave/ops/diff_util.h"

// A convolution is linear in each operand. Backward, the cotangent is convolved with the mirrored
// kernel (for the input) and the input with the cotangent (for the kernel); strides and dilations
// change places, and groups of features become groups of the batch.
namespace cleave {
namespace {

int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : 1 + dilation * (size - 1);
}

struct Sides {
  int64_t batch, feature;
  std::vector<int64_t> spatial;
  Sides swapped() const { return {feature, batch, spatial}; }
};
struct ConvForm {
  Sides input, kernel, output;  // of the kernel: "batch" is the output feature, "feature" the input
  std::vector<int64_t> strides, base_dilation, dilation, low, high;
  int64_t feature_groups = 1, batch_groups = 1;
};

ConvForm form_of(const DiffContext& c) {
  const ConvDims dims = conv_dims(c.node);
  const ConvWindow window = conv_window(c.node, dims, operand_expr(c, 1).shape());
  ConvForm form{{dims.input_batch, dims.input_feature, dims.input_spatial},
                {dims.kernel_output_feature, dims.kernel_input_feature, dims.kernel_spatial},
                {dims.output_batch, dims.output_feature, dims.output_spatial},
                {},
                {},
                {},
                {},
                {},
                window.feature_groups,
                window.batch_groups};
  for (const Window::Dim& dim : window.window.dims) {
    form.strides.push_back(dim.stride);
    form.base_dilation.push_back(dim.base_dilation);
    form.dilation.push_back(dim.dilation);
    form.low.push_back(dim.low);
    form.high.push_back(dim.high);
  }
  return form;
}

Expr convolve(Expr input, Expr kernel, const ConvForm& form, const Node& node) {
  AttrDict attrs;
  attrs.set(kConvDims,
            conv_dims_attr({form.input.batch, form.input.feature, form.input.spatial,
                            form.kernel.feature, form.kernel.batch, form.kernel.spatial,
                            form.output.batch, form.output.feature, form.output.spatial}));
  attrs.set("window_strides", ints_attr(form.strides));
  attrs.set("padding", pairs_attr(form.low, form.high));
  attrs.set("lhs_dilation", ints_attr(form.base_dilation));
  attrs.set("rhs_dilation", ints_attr(form.dilation));
  attrs.set("feature_group_count", int_attr(form.feature_groups));
  attrs.set("batch_group_count", int_attr(form.batch_groups));
  if (const Attribute* precision = node.attrs.find("precision_config"))
    attrs.set("precision_config", *precision);
  GraphBuilder& b = *input.b;
  return {&b, b.emit("stablehlo.convolution", {input.id, kernel.id}, std::move(attrs))};
}

// {..., g * n, ...} and {..., m, ...}: the groups of dimension `from` moved in front of `into`:
//   from {g * n}, into {m}  ->  {n}, {g * m}
Expr move_groups(Expr x, int64_t from, int64_t into, int64_t groups) {
  Shape split = x.shape();
  split[from] /= groups;
  split.insert(split.begin() + from, groups);
  const Expr apart = reshape(x, split);
  const int64_t target = into > from ? into + 1 : into;  // of `into` in the split shape
  std::vector<int64_t> order;
  for (int64_t d = 0; d < static_cast<int64_t>(split.size()); ++d) {
    if (d == target) order.push_back(from);
    if (d != from) order.push_back(d);
  }
  Shape joined = x.shape();
  joined[from] /= groups;
  joined[into] *= groups;
  return reshape(transpose(apart, order), joined);
}

std::vector<int64_t> reversed_dims(const DiffContext& c) {
  const ConvDims dims = conv_dims(c.node);
  const ConvWindow window = conv_window(c.node, dims, operand_expr(c, 1).shape());
  std::vector<int64_t> result;
  for (size_t i = 0; i < window.reversed.size(); ++i)
    if (window.reversed[i]) result.push_back(dims.kernel_spatial[i]);
  return result;
}

Expr input_cotangent(const DiffContext& c, Expr g) {
  const ConvForm form = form_of(c);
  const Shape input = operand_expr(c, 0).shape(), kernel = operand_expr(c, 1).shape();
  // A kernel that is mirrored already loses its mirror.
  std::vector<int64_t> mirror;
  const std::vector<int64_t> mirrored = reversed_dims(c);
  for (int64_t d : form.kernel.spatial)
    if (!contains_dim(mirrored, d)) mirror.push_back(d);
  Expr weights = operand_expr(c, 1);
  const int64_t groups = form.feature_groups * form.batch_groups;
  if (groups > 1) weights = move_groups(weights, form.kernel.batch, form.kernel.feature, groups);
  ConvForm back{form.output,  form.kernel.swapped(),
                form.input,   form.base_dilation,
                form.strides, form.dilation,
                {},           {},
                groups,       1};
  for (size_t i = 0; i < form.strides.size(); ++i) {
    const int64_t in = dilated(input[form.input.spatial[i]], form.base_dilation[i]);
    const int64_t window = dilated(kernel[form.kernel.spatial[i]], form.dilation[i]);
    const int64_t out = dilated(g.shape()[form.output.spatial[i]], form.strides[i]);
    back.low.push_back(window - form.low[i] - 1);
    back.high.push_back(in + window - 1 - out - back.low.back());
  }
  Expr result = convolve(g, reverse(weights, mirror), back, c.node);
  if (form.batch_groups > 1)
    result = move_groups(result, form.input.feature, form.input.batch, form.batch_groups);
  return result;
}

Expr kernel_cotangent(const DiffContext& c, Expr g) {
  const ConvForm form = form_of(c);
  const Shape input = operand_expr(c, 0).shape(), kernel = operand_expr(c, 1).shape();
  ConvForm back{form.input.swapped(),
                form.output.swapped(),
                form.kernel.swapped(),
                form.dilation,
                form.base_dilation,
                form.strides,
                {},
                {},
                form.batch_groups,
                form.feature_groups};
  for (size_t i = 0; i < form.strides.size(); ++i) {
    const int64_t in = dilated(input[form.input.spatial[i]], form.base_dilation[i]);
    const int64_t window = dilated(kernel[form.kernel.spatial[i]], form.dilation[i]);
    const int64_t out = dilated(g.shape()[form.output.spatial[i]], form.strides[i]);
    back.low.push_back(form.low[i]);
    back.high.push_back(out - in + window - form.low[i] - 1);
  }
  return reverse(convolve(operand_expr(c, 0), g, back, c.node), reversed_dims(c));
}

std::vector<ValueId> vjp_convolution(const DiffContext& c, std::span<const ValueId> ct) {
  const Expr g = expr(c.b, ct[0]);
  return {c.wants(0) ? input_cotangent(c, g).id : ValueId{},
          c.wants(1) ? kernel_cotangent(c, g).id : ValueId{}};
}

}  // namespace

void add_convolution_derivatives(OpRegistry& r) {
  r.extend("stablehlo.convolution", [](OpDef& def) {
    def.jvp = jvp_bilinear;
    def.vjp = vjp_convolution;
  });
}

}  // namespace cleave
