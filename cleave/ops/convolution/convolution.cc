#include "cleave/kernels/convolution.h"

#include <algorithm>

#include "cleave/core/kernel_classes.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/workspace.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/convolution/family.h"
#include "cleave/ops/dot/precision.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/shape/shape_util.h"

namespace cleave {
namespace {

// Every dimension has exactly one meaning.
void require_permutation(const Node& node, const char* what, std::vector<int64_t> dims, int64_t a,
                         int64_t b, size_t rank) {
  dims.push_back(a);
  dims.push_back(b);
  require(dims.size() == rank, node, "{} has rank {}, but dimension_numbers names {} dimensions",
          what, rank, dims.size());
  require_distinct_dims(node, what, dims, rank);
}

void require_divisible(const Node& node, const char* what, int64_t size, const char* by,
                       int64_t count) {
  require(is_dynamic(size) || size % count == 0, node, "{} of {} is not divisible by {} {}", what,
          size, by, count);
}

std::vector<Type> infer_with_window(const Graph& graph, const Node& node) {
  const Type& input = tensor_operand(graph, node, 0);
  const Type& kernel = tensor_operand(graph, node, 1);
  if (input.unranked || kernel.unranked) return infer_declared(graph, node);
  require(input.rank() == kernel.rank() && input.rank() >= 2, node,
          "input and kernel must have one rank, at least 2, got {}",
          operand_types_text(graph, node));
  require(input.dtype == kernel.dtype || (is_float(input.dtype) && is_float(kernel.dtype)) ||
              input.dtype == DType::Other || kernel.dtype == DType::Other,
          node, "input and kernel must have one element type, got {}",
          operand_types_text(graph, node));
  const ConvDims dims = conv_dims(node);
  require_permutation(node, "the input", dims.input_spatial, dims.input_batch, dims.input_feature,
                      input.rank());
  require_permutation(node, "the kernel", dims.kernel_spatial, dims.kernel_input_feature,
                      dims.kernel_output_feature, kernel.rank());
  require_permutation(node, "the result", dims.output_spatial, dims.output_batch,
                      dims.output_feature, input.rank());
  for (int64_t d : dims.kernel_spatial)
    require(kernel.shape[d] != 0, node, "the windows of {} are empty", to_string(kernel));
  const ConvWindow window = conv_window(node, dims, kernel.shape);
  const int64_t features = window.feature_groups, batches = window.batch_groups;
  require(features > 0 && batches > 0 && (features == 1 || batches == 1), node,
          "feature_group_count {} and batch_group_count {} must be positive and one of them 1",
          features, batches);
  const int64_t input_features = input.shape[dims.input_feature];
  const int64_t kernel_inputs = kernel.shape[dims.kernel_input_feature];
  const int64_t outputs = kernel.shape[dims.kernel_output_feature];
  require_divisible(node, "the input's batch", input.shape[dims.input_batch], "batch_group_count",
                    batches);
  require_divisible(node, "the input's feature size", input_features, "feature_group_count",
                    features);
  require_divisible(node, "the kernel's output feature size", outputs, "batch_group_count",
                    batches);
  require_divisible(node, "the kernel's output feature size", outputs, "feature_group_count",
                    features);
  require(is_dynamic(input_features) || is_dynamic(kernel_inputs) ||
              input_features / features == kernel_inputs,
          node, "{} input features in {} group(s) need a kernel of {} input features, got {}",
          input_features, features, input_features / features, kernel_inputs);
  Shape shape = convolution_shape(input.shape, kernel.shape, dims, window);
  const DType dtype = node.results.empty() ? input.dtype : graph.result_type(node).dtype;
  return {Type::tensor(dtype, std::move(shape))};
}

std::vector<Type> infer_convolution(const Graph& graph, const Node& node) {
  require_operands(node, 2);
  return infer_with_window(graph, node);
}

OpShardingRule convolution_rule(const Graph& graph, const Node& node) {
  const ConvDims dims = conv_dims(node);
  const Shape& input = graph.operand_type(node, 0).shape;
  const Shape& kernel = graph.operand_type(node, 1).shape;
  const Shape& out = graph.result_type(node).shape;
  const int64_t features = node.attrs.get_int("feature_group_count", 1);
  const int64_t batches = node.attrs.get_int("batch_group_count", 1);
  auto at = [](int64_t d) { return static_cast<int>(d); };
  RuleBuilder builder(graph, node);
  auto factor = [&](int input_dim, int kernel_dim, int result_dim, int64_t size,
                    FactorKind kind = FactorKind::PassThrough) {
    std::vector<int> operands(node.operands.size(), kNoDim);
    operands[0] = input_dim;
    operands[1] = kernel_dim;
    builder.factor(operands, {result_dim}, size, kind);
  };
  if (batches > 1)
    factor(at(dims.input_batch), at(dims.kernel_output_feature), at(dims.output_feature), batches);
  factor(at(dims.input_batch), kNoDim, at(dims.output_batch), out[dims.output_batch]);
  for (size_t i = 0; i < dims.input_spatial.size(); ++i) {
    // The input is covered by windows, and a window by the kernel's elements; the larger is major.
    int64_t rest = input[dims.input_spatial[i]];
    const int64_t windows = out[dims.output_spatial[i]], size = kernel[dims.kernel_spatial[i]];
    auto add = [&](bool is_window) {
      const int64_t factor_size = std::min(rest, is_window ? windows : size);
      if (factor_size <= 1) return;
      factor(at(dims.input_spatial[i]), is_window ? kNoDim : at(dims.kernel_spatial[i]),
             is_window ? at(dims.output_spatial[i]) : kNoDim, factor_size,
             is_window ? FactorKind::Permutation : FactorKind::Reduction);
      rest /= factor_size;
    };
    add(windows >= size);
    add(windows < size);
  }
  if (features > 1)
    factor(at(dims.input_feature), at(dims.kernel_output_feature), at(dims.output_feature),
           features);
  factor(at(dims.input_feature), at(dims.kernel_input_feature), kNoDim,
         kernel[dims.kernel_input_feature], FactorKind::Reduction);
  const int64_t outputs = out[dims.output_feature] / (batches * features);
  if (outputs > 1) factor(kNoDim, at(dims.kernel_output_feature), at(dims.output_feature), outputs);
  return builder.build();
}

// How many dimensions of all tensors have the factor.
int64_t count_dims(const OpShardingRule& rule, FactorIndex factor) {
  int64_t count = 0;
  for (const auto* tensors : {&rule.operands, &rule.results})
    for (const TensorFactors& tensor : *tensors)
      count += std::ranges::count_if(tensor, [&](const DimFactors& dim) {
        return std::ranges::find(dim, factor) != dim.end();
      });
  return count;
}

// Nothing propagates along spatial dimensions: they, and the dimensions of the kernel that share
// their window factors, get factors of their own.
void conservative_convolution(const Graph&, const Node&, OpShardingRule& rule) {
  auto clear_if = [](std::vector<TensorFactors>& tensors, const auto& condition) {
    for (TensorFactors& tensor : tensors)
      for (DimFactors& dim : tensor)
        if (condition(dim)) dim.clear();
  };
  auto is_spatial = [&](const DimFactors& dim) {
    return std::ranges::any_of(
        dim, [&](FactorIndex f) { return rule.factors[f].kind == FactorKind::Permutation; });
  };
  clear_if(rule.operands, is_spatial);
  clear_if(rule.results, is_spatial);
  clear_if(rule.operands,
           [&](const DimFactors& dim) { return dim.size() == 1 && count_dims(rule, dim[0]) == 1; });
  for (auto* tensors : {&rule.operands, &rule.results})
    for (TensorFactors& tensor : *tensors)
      for (DimFactors& dim : tensor)
        if (dim.empty()) {
          dim.push_back(static_cast<FactorIndex>(rule.factors.size()));
          rule.factors.push_back({});
        }
  drop_unused_factors(rule);
}

PartialTransfer convolution_partial(const Graph& graph, const Node& node) {
  const DType operand = graph.operand_type(node, 0).dtype, result = graph.result_type(node).dtype;
  if (is_integer(operand) && bit_width(result) > bit_width(operand)) return {};
  PartialTransfer rows;
  for (size_t i = 0; i < 2; ++i) {
    if (operand == DType::Bool) {
      for (PartialRow& row : rows_of_operand(node, i, {ReduceOp::Or}))
        rows.push_back(std::move(row));
      continue;
    }
    for (PartialRow& row : rows_of_operand(node, i, {ReduceOp::Sum, ReduceOp::Avg}))
      if (row.in == ReduceOp::Sum || !is_integer(operand)) rows.push_back(std::move(row));
  }
  return rows;
}

// How many elements of a dilated input stand for one that is there: the others are zero.
double input_dilation(const Node& node) {
  double dilation = 1;
  for (int64_t d : node.attrs.get_ints_or_empty("lhs_dilation")) dilation *= static_cast<double>(d);
  return dilation;
}

// Pixels by features, as one product; elements of a dilated input that are zero take no part.
OpCost::Products products_of_convolution(const Graph& graph, const Node& node,
                                         const ConvDims& dims) {
  const Shape& input = graph.operand_type(node, 0).shape;
  const Shape& kernel = graph.operand_type(node, 1).shape;
  const Shape& result = graph.result_type(node).shape;
  const auto features = static_cast<double>(kernel[dims.kernel_output_feature]);
  const double pixels = static_cast<double>(num_elements(result)) /
                        std::max(1.0, static_cast<double>(result[dims.output_feature]));
  const double depth =
      static_cast<double>(num_elements(kernel)) / std::max(1.0, features) / input_dilation(node);
  const auto channels = static_cast<double>(input[dims.input_feature]);
  return {.count = 1,
          .m = pixels,
          .k = std::max(1.0, depth),
          .n = features,
          .groups = static_cast<double>(node.attrs.get_int("feature_group_count", 1) *
                                        node.attrs.get_int("batch_group_count", 1)),
          .channels = std::min(channels, features)};
}

OpCost convolution_cost(const Graph& graph, const Node& node) {
  const ConvDims dims = conv_dims(node);
  const Type& kernel = graph.operand_type(node, 1);
  const Type& result = graph.result_type(node);
  double products = static_cast<double>(num_elements(result.shape)) *
                    static_cast<double>(kernel.shape[dims.kernel_input_feature]);
  for (int64_t d : dims.kernel_spatial) products *= static_cast<double>(kernel.shape[d]);
  OpCost cost{.kernel = kConvolutionClass};
  cost.flops = (is_complex(result.dtype) ? 8 : 2) * products / input_dilation(node);
  for (ValueId operand : node.operands)
    cost.bytes_read += static_cast<double>(graph.type(operand).byte_count());
  cost.bytes_written = static_cast<double>(result.byte_count());
  cost.products = products_of_convolution(graph, node, dims);
  return cost;
}

std::vector<Array> eval_convolution(EvalContext& context, const Node& node,
                                    std::span<const Array> operands) {
  const ConvDims dims = conv_dims(node);
  return {convolution(operands[0], operands[1], dims, conv_window(node, dims, operands[1].shape()),
                      context.graph().result_type(node).dtype)};
}

// ---- dynamic_conv: the padding is an operand

constexpr int64_t kMostPadding = int64_t{1} << 40;

std::vector<Type> infer_dynamic_conv(const Graph& graph, const Node& node) {
  require_operands(node, 3);
  const Type& padding = tensor_operand(graph, node, 2);
  const auto spatial = static_cast<int64_t>(conv_dims(node).kernel_spatial.size());
  require(is_integer(padding.dtype) &&
              (padding.unranked || (padding.rank() == 2 && compatible(padding.shape[0], spatial) &&
                                    compatible(padding.shape[1], 2))),
          node, "padding must be {} x 2 integers, got {}", spatial, to_string(padding));
  std::vector<Type> types = infer_with_window(graph, node);
  if (types.empty() || types[0].unranked) return types;
  for (int64_t d : conv_dims(node).output_spatial) types[0].shape[d] = kDynamicSize;
  // The sizes that the padding decides are those that the op states.
  if (!node.results.empty()) {
    const Type& declared = graph.result_type(node);
    if (declared.rank() == types[0].rank()) types[0].shape = merge(types[0].shape, declared.shape);
  }
  return types;
}

std::vector<Array> eval_dynamic_conv(EvalContext& context, const Node& node,
                                     std::span<const Array> operands) {
  const ConvDims dims = conv_dims(node);
  ConvWindow window = conv_window(node, dims, operands[1].shape());
  const Array padding = convert(operands[2], DType::I64).contiguous();
  require(padding.shape() == Shape({static_cast<int64_t>(window.window.dims.size()), 2}), node,
          "padding is {} and must be {} x 2", to_string(padding.shape()),
          window.window.dims.size());
  for (int64_t i = 0; i < padding.num_elements(); ++i)
    require(
        padding.data<int64_t>()[i] >= -kMostPadding && padding.data<int64_t>()[i] <= kMostPadding,
        node, "padding {} is out of range", padding.data<int64_t>()[i]);
  for (size_t i = 0; i < window.window.dims.size(); ++i) {
    window.window.dims[i].low = padding.data<int64_t>()[2 * i];
    window.window.dims[i].high = padding.data<int64_t>()[2 * i + 1];
  }
  const Type& result = context.graph().result_type(node);
  require_sizes(node, convolution_shape(operands[0].shape(), operands[1].shape(), dims, window),
                result);
  return {convolution(operands[0], operands[1], dims, window, result.dtype)};
}

// Where windows lie is known only when the op runs, so space stays whole; examples and features of
// one group are independent of it.
bool dynamic_conv_shardable(const Graph&, const Node& node, const OpShardingRule& rule,
                            FactorIndex factor) {
  if (node.attrs.get_int("feature_group_count", 1) > 1) return false;
  if (node.attrs.get_int("batch_group_count", 1) > 1) return false;
  const ConvDims dims = conv_dims(node);
  auto holds = [&](const TensorFactors& tensor, const std::vector<int64_t>& spatial) {
    return std::any_of(spatial.begin(), spatial.end(), [&](int64_t d) {
      return std::find(tensor[d].begin(), tensor[d].end(), factor) != tensor[d].end();
    });
  };
  return !holds(rule.operands[0], dims.input_spatial) &&
         !holds(rule.operands[1], dims.kernel_spatial) &&
         !holds(rule.results[0], dims.output_spatial);
}

int64_t workspace_of_convolution(const Graph& graph, const Node& node, std::span<const Array> in) {
  const ConvDims dims = conv_dims(node);
  const Type& result = graph.result_type(node);
  return convolution_workspace(in[0], in[1], dims, conv_window(node, dims, in[1].shape()),
                               result.dtype, result.shape);
}

}  // namespace

void register_convolution_ops(OpRegistry& registry) {
  registry.add({.name = "stablehlo.convolution",
                .traits = kPure,
                .infer = infer_convolution,
                .verify = verify_precision,
                .rule = convolution_rule,
                .partial = convolution_partial,
                .cost = convolution_cost,
                .eval = eval_convolution,
                .workspace = workspace_of_convolution,
                .conservative = conservative_convolution});
  registry.add({.name = "stablehlo.dynamic_conv",
                .traits = kPure,
                .infer = infer_dynamic_conv,
                .verify = verify_precision,
                .rule = convolution_rule,
                .partial = convolution_partial,
                .cost = convolution_cost,
                .eval = eval_dynamic_conv,
                .shardable = dynamic_conv_shardable});
}

}  // namespace cleave
