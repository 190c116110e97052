#include "cleave/compile/lowering.h"
#include "cleave/compile/window_steps.h"
#include "cleave/core/error.h"
#include "cleave/ops/eval.h"

// Constants, views, and ops that move elements from one place to another.
namespace cleave {
namespace {

class NoContext : public EvalContext {
 public:
  using EvalContext::EvalContext;
  std::vector<Array> run_region(RegionId, std::span<const Array>) override {
    throw InternalError("a region runs while code is laid out");
  }
  std::vector<Array> call(std::string_view, std::span<const Array>) override {
    throw InternalError("a function runs while code is laid out");
  }
};

}  // namespace

// Ops that state that they are constants or views need no row of their own.
void Lowering::add_views(LoweringTable& table) {
  for (const auto& [name, op] : op_registry().ops()) {
    if (op.has(kConstantLike))
      table.set(op, &Lowering::constant);
    else if (op.has(kViewLike))
      table.set(op, &Lowering::view);
  }
  table.set<op::BitcastConvert>(&Lowering::bitcast);
  table.set<op::DynamicSlice>(&Lowering::dynamic_slice);
  table.set<op::DynamicUpdateSlice>(&Lowering::update_slice);
  table.set<op::Concatenate>(&Lowering::concatenate);
  table.set<op::Gather>(&Lowering::gather);
  table.set<op::Scatter>(&Lowering::scatter);
}

bool Lowering::constant(const Node& node, CodeBlock&) {
  NoContext context(graph());
  views_[node.results[0].index] = constant_view(node.def->eval(context, node, {})[0]);
  return true;
}

// What moves no elements is a view; what has to move them copies first.
bool Lowering::view(const Node& node, CodeBlock& block) {
  NoContext context(graph());
  CodeView from = views_[node.operands[0].index];
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Array array = sketch(from);
    if (!is<op::Reshape>(node) || attempt == 1 || can_reshape(from, node)) {
      const Array result = node.def->eval(context, node, {&array, 1})[0];
      if (result.buffer() == addresses_) {
        views_[node.results[0].index] = placed(from, result);
        return true;
      }
    }
    from = packed_copy(block, from);
  }
  throw_internal("{} of a packed array is no view", node.name());
}
// Without trying: a reshape that is no view would copy addresses that have no memory.
bool Lowering::can_reshape(const CodeView& from, const Node& node) {
  if (from.is_contiguous()) return true;
  if (num_elements(from.type.shape) == 0) return false;
  // Only dimensions of size one come or go.
  auto sizes = [](const Shape& shape) {
    Shape result;
    for (int64_t size : shape)
      if (size != 1) result.push_back(size);
    return result;
  };
  return sizes(from.type.shape) == sizes(graph().result_type(node).shape);
}

bool Lowering::bitcast(const Node& node, CodeBlock& block) {
  CodeView from = views_[node.operands[0].index];
  const Type& type = graph().result_type(node);
  // Bools are bits there and bytes here.
  if ((type.dtype == DType::Bool) != (from.type.dtype == DType::Bool)) return false;
  if (byte_size(type.dtype) == byte_size(from.type.dtype)) {
    from.type.dtype = type.dtype;
    from.type.shape = type.shape;
  } else {
    if (!from.is_contiguous() || from.offset != 0) from = packed_copy(block, from);
    from.type = {type.dtype, type.shape, row_major_strides(type.shape)};
  }
  views_[node.results[0].index] = from;
  return true;
}

bool Lowering::dynamic_slice(const Node& node, CodeBlock& block) {
  std::vector<CodeView> in = operands(node);
  const CodeView out = fresh(graph().result_type(node));
  auto step = std::make_unique<DynamicSliceStep>(
      in[0], std::vector<CodeView>(in.begin() + 1, in.end()), out);
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), in, {out});
  return true;
}

bool Lowering::update_slice(const Node& node, CodeBlock& block) {
  std::vector<CodeView> in = operands(node);
  const CodeView out = fresh(graph().result_type(node));
  auto step = std::make_unique<UpdateSliceStep>(
      in[0], in[1], std::vector<CodeView>(in.begin() + 2, in.end()), out);
  std::vector<BufferTable::InPlace> in_place;
  if (in[0].is_contiguous() && in[0].offset == 0) in_place = {{in[0].buffer, out.buffer}};
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), in, {out}, std::move(in_place));
  return true;
}

bool Lowering::concatenate(const Node& node, CodeBlock& block) {
  const CodeView out = fresh(graph().result_type(node));
  const auto dim = static_cast<size_t>(node.attrs.get_int("dimension"));
  int64_t start = 0;
  for (const CodeView& in : operands(node)) {
    CodeView part = out;
    part.type.shape[dim] = in.type.shape[dim];
    part.offset = start * out.type.strides[dim];
    start += in.type.shape[dim];
    add(block, std::make_unique<CopyStep>(in, part), {in}, {out});
  }
  views_[node.results[0].index] = out;
  return true;
}

bool Lowering::gather(const Node& node, CodeBlock& block) {
  const std::vector<CodeView> in = operands(node);
  const CodeView out = fresh(graph().result_type(node));
  auto step = make_gather_step(node, in, out);
  if (!step) return false;
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), in, {out});
  return true;
}

bool Lowering::scatter(const Node& node, CodeBlock& block) {
  if (node.results.size() != 1) return false;
  std::vector<CodeView> in = operands(node);
  const CodeView out = fresh(graph().result_type(node));
  in[2] = contiguous(block, in[2]);
  auto step = make_scatter_step(graph(), node, in, out);
  if (!step) return false;
  std::vector<BufferTable::InPlace> in_place;
  if (in[0].is_contiguous() && in[0].offset == 0) in_place = {{in[0].buffer, out.buffer}};
  views_[node.results[0].index] = out;
  add_node_step(block, std::move(step), in, {out}, std::move(in_place));
  return true;
}

}  // namespace cleave
