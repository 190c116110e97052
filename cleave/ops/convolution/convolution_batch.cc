#include "cleave/ops/batch_util.h"
#include "cleave/ops/convolution/conv_attr.h"
#include "cleave/ops/convolution/family.h"
#include "cleave/ops/infer_util.h"

// A convolution has no free batching dimension: examples fold into the dimensions that it has.
//
//   input batched           into the input's batch
//   kernel batched          into the output features
//   both                    as groups: of features, or of batches where the op has these
//
// Where the op has groups already, a dimension that holds them is groups x rest, and examples fold
// in between, so that each group keeps its own.
namespace cleave {
namespace {

// Dimension `dim` of one example, with the examples folded in behind its first `groups` parts.
ValueId fold(const BatchContext& c, size_t operand, int64_t dim, int64_t groups) {
  GraphBuilder& b = c.b;
  ValueId value = batched_at(c, c.operands[operand], dim);  // [.., examples, groups * rest, ..]
  if (groups > 1) {
    value = split_dim(b, value, dim + 1, groups);
    value = move_dim(b, value, dim, dim + 1);
    value = merge_dims(b, value, dim);
  }
  return merge_dims(b, value, dim);
}

// The examples out of dimension `dim` of the result, in front of it.
Batched unfold(const BatchContext& c, ValueId value, int64_t dim, int64_t groups) {
  GraphBuilder& b = c.b;
  if (groups == 1) return {split_dim(b, value, dim, c.size), dim};
  value = split_dim(b, value, dim, groups);
  value = split_dim(b, value, dim + 1, c.size);
  value = move_dim(b, value, dim + 1, dim);
  return {merge_dims(b, value, dim + 1), dim};
}

std::vector<Batched> batch_convolution(const BatchContext& c) {
  for (size_t i = 2; i < c.operands.size(); ++i)
    require(!c.operands[i].batched(), c.node,
            "the padding differs between examples, whose results would then differ in shape");
  const ConvDims dims = conv_dims(c.node);
  const int64_t features = c.node.attrs.get_int("feature_group_count", 1);
  const int64_t batches = c.node.attrs.get_int("batch_group_count", 1);
  AttrDict attrs = c.node.attrs;
  std::vector<ValueId> operands{c.operands[0].value, c.operands[1].value};
  for (size_t i = 2; i < c.operands.size(); ++i) operands.push_back(c.operands[i].value);
  Type type = result_type(c);
  int64_t out = dims.output_feature, groups = 1;
  if (!c.operands[1].batched()) {
    operands[0] = fold(c, 0, dims.input_batch, batches);
    out = dims.output_batch;
  } else if (!c.operands[0].batched()) {
    groups = features * batches;
    operands[1] = fold(c, 1, dims.kernel_output_feature, groups);
  } else if (batches > 1) {
    operands[0] = fold(c, 0, dims.input_batch, 1);
    operands[1] = fold(c, 1, dims.kernel_output_feature, 1);
    attrs.set("batch_group_count", int_attr(batches * c.size));
  } else {
    operands[0] = fold(c, 0, dims.input_feature, 1);
    operands[1] = fold(c, 1, dims.kernel_output_feature, 1);
    attrs.set("feature_group_count", int_attr(features * c.size));
  }
  type.shape[out] *= c.size;
  const ValueId result =
      emit_self(c, std::move(operands), std::vector<Type>{type}, std::move(attrs))[0];
  return {unfold(c, result, out, groups)};
}

}  // namespace

void add_convolution_batch_rules(OpRegistry& r) {
  for (const char* name : {"stablehlo.convolution", "stablehlo.dynamic_conv"})
    r.extend(name, [](OpDef& def) { def.batch = batch_convolution; });
}

}  // namespace cleave
