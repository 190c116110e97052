#include "cleave/kernels/random.h"

#include "cleave/kernels/shape.h"
#include "cleave/ops/eval.h"
#include "cleave/ops/infer_util.h"
#include "cleave/ops/random/family.h"
#include "cleave/ops/random/random_attr.h"
#include "cleave/ops/rule_util.h"
#include "cleave/ops/shape/dynamic_shape_check.h"

namespace cleave {
namespace {

// A part of a random tensor knows the whole shape and its place in it, so that every device draws
// its part of one stream.
constexpr const char* kWhole = "cleave.whole_shape";
constexpr const char* kOffset = "cleave.offset";
constexpr const char* kStream = "cleave.stream";

}  // namespace

RandomBox random_box(const Node& node, const Shape& size) {
  if (!node.attrs.has(kWhole)) return {size, Shape(size.size(), 0), size};
  const Shape whole = node.attrs.get_ints(kWhole), offset = node.attrs.get_ints(kOffset);
  bool fits = whole.size() == size.size() && offset.size() == size.size();
  for (size_t d = 0; fits && d < size.size(); ++d)
    fits = offset[d] >= 0 && size[d] <= whole[d] && offset[d] <= whole[d] - size[d];
  require(fits, node, "{} at {} is no part of {}", to_string(size), ints_text(offset),
          ints_text(whole));
  num_elements(whole);  // throws where they are too many
  return {whole, offset, size};
}

RandomAlgorithm random_algorithm(const Node& node) {
  const std::string_view name = node.attrs.get_string("rng_algorithm");
  if (name == "THREE_FRY") return RandomAlgorithm::ThreeFry;
  if (name == "PHILOX" || name == "DEFAULT") return RandomAlgorithm::Philox;
  fail(node, "rng_algorithm must be DEFAULT, THREE_FRY or PHILOX, got {}", name);
}

namespace {

AttrDict local_attrs(const LocalOp& op, size_t result) {
  AttrDict attrs = op.attrs();
  attrs.set(kWhole, ints_attr(op.result_shape(result)));
  attrs.set(kOffset, ints_attr(op.result_boxes[result].offset));
  return attrs;
}

// In a program for all devices each draws the whole stream and takes its part: the op has no form
// that begins elsewhere on each device.
std::vector<ValueId> parts_of_whole(LocalOp& op, AttrDict attrs) {
  const std::vector<ShardSlice> boxes = op.result_boxes;
  for (size_t i = 0; i < boxes.size(); ++i)
    op.result_boxes[i] = {Shape(boxes[i].size.size()), op.result_shape(i)};
  std::vector<ValueId> results = op.emit_self(std::move(attrs));
  for (size_t i = 0; i < boxes.size(); ++i)
    results[i] = op.slice(results[i], boxes[i].offset, boxes[i].size);
  return results;
}

// ---- rng ----

std::vector<Type> infer_rng(const Graph& graph, const Node& node) {
  require_operands(node, 3);
  const Type& low = tensor_operand(graph, node, 0);
  const Type& high = tensor_operand(graph, node, 1);
  const Type& shape = tensor_operand(graph, node, 2);
  const Type& result = declared_result(graph, node);
  require(low.rank() == 0 && high.rank() == 0 && low.dtype == high.dtype, node,
          "the first two operands must be scalars of one type, got {}",
          operand_types_text(graph, node));
  require(shape.rank() == 1 && (is_integer(shape.dtype) || shape.dtype == DType::Index) &&
              compatible(shape.shape[0], static_cast<int64_t>(result.rank())),
          node, "operand 2 must hold the {} sizes of {}, got {}", result.rank(), to_string(result),
          to_string(shape));
  require(result.dtype == low.dtype, node, "the result {} must have the type of {}",
          to_string(result), to_string(low));
  const std::string_view distribution = node.attrs.get_string("rng_distribution");
  require(distribution == "UNIFORM" || distribution == "NORMAL", node,
          "rng_distribution must be UNIFORM or NORMAL, got {}", distribution);
  require(distribution == "UNIFORM" || is_float(result.dtype), node,
          "normally distributed numbers are floats, got {}", to_string(result));
  return {result};
}
OpShardingRule rng_rule(const Graph& graph, const Node& node) {
  const Shape& shape = graph.result_type(node).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < shape.size(); ++d)
    builder.factor({kNoDim, kNoDim, kNoDim}, {int(d)}, shape[d]);
  return builder.build();
}
std::vector<ValueId> local_rng(LocalOp& op) {
  AttrDict attrs = op.alike ? op.attrs() : local_attrs(op, 0);
  attrs.set(kStream, int_attr(op.node().results[0].index));
  if (op.alike) return parts_of_whole(op, std::move(attrs));
  return op.emit_self(std::move(attrs));
}
std::vector<Array> eval_rng(EvalContext& context, const Node& node, std::span<const Array> in) {
  const Type& type = context.graph().result_type(node);
  const Shape sizes = type.has_static_shape() ? type.shape : integers_of(in[2]);
  for (int64_t size : sizes) require(size >= 0, node, "the size {} is negative", size);
  const RandomBox box = random_box(node, sizes);
  const auto stream = static_cast<uint64_t>(node.attrs.get_int(kStream, node.results[0].index));
  if (node.attrs.get_string("rng_distribution") == "UNIFORM")
    return {random_uniform(stream, in[0], in[1], box)};
  return {random_normal(stream, in[0], in[1], box)};
}

// ---- rng_bit_generator ----

std::vector<Type> infer_bit_generator(const Graph& graph, const Node& node) {
  require_operands(node, 1);
  const Type& state = tensor_operand(graph, node, 0);
  const Type& output = declared_result(graph, node, 1);
  const RandomAlgorithm algorithm = random_algorithm(node);
  const int64_t bytes = state.byte_count();
  require(state.rank() == 1 && state.has_static_shape() &&
              (bytes == 16 || (bytes == 24 && algorithm == RandomAlgorithm::Philox)),
          node, "the state must have 2 words of 64 bits (Philox also 3), got {}", to_string(state));
  require(output.has_static_shape(), node, "the sizes of the result {} are not known",
          to_string(output));
  require(is_integer(output.dtype) || is_float(output.dtype), node,
          "the output must be integers or floats, got {}", to_string(output));
  return {state, output};
}
OpShardingRule bit_generator_rule(const Graph& graph, const Node& node) {
  const Shape& state = graph.operand_type(node, 0).shape;
  const Shape& output = graph.result_type(node, 1).shape;
  RuleBuilder builder(graph, node);
  for (size_t d = 0; d < state.size(); ++d)
    builder.factor({int(d)}, {int(d), kNoDim}, state[d], FactorKind::NeedReplication, true);
  for (size_t d = 0; d < output.size(); ++d) builder.factor({kNoDim}, {kNoDim, int(d)}, output[d]);
  return builder.build();
}
std::vector<ValueId> local_bit_generator(LocalOp& op) {
  return op.alike ? parts_of_whole(op, op.attrs()) : op.emit_self(local_attrs(op, 1));
}
OpCost bit_generator_cost(const Graph& graph, const Node& node) {
  const Type& output = graph.result_type(node, 1);
  constexpr double kFlopsPerByte = 15;
  const auto bytes = static_cast<double>(output.byte_count());
  return {.flops = kFlopsPerByte * bytes, .bytes_read = 0, .bytes_written = bytes};
}
std::vector<Array> eval_bit_generator(EvalContext& context, const Node& node,
                                      std::span<const Array> in) {
  const Type& output = context.graph().result_type(node, 1);
  const RandomAlgorithm algorithm = random_algorithm(node);
  const RandomBox box = random_box(node, output.shape);
  return {advanced_state(algorithm, in[0], output.dtype, box.shape),
          random_bits(algorithm, in[0], output.dtype, box)};
}

}  // namespace

void register_random_ops(OpRegistry& r) {
  r.add(
      {.name = "stablehlo.rng",
       .infer = infer_rng,
       .verify = [](const Graph& graph, const Node& node) { verify_size_operand(graph, node, 2); },
       .rule = rng_rule,
       .eval = eval_rng,
       .localize = local_rng});
  r.add({.name = "stablehlo.rng_bit_generator",
         .traits = kPure,
         .infer = infer_bit_generator,
         .rule = bit_generator_rule,
         .cost = bit_generator_cost,
         .eval = eval_bit_generator,
         .localize = local_bit_generator});
}

}  // namespace cleave
