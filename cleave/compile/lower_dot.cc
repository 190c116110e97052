#include <algorithm>
#include <set>

#include "cleave/compile/lowering.h"
#include "cleave/core/error.h"
#include "cleave/graph/op_def.h"
#include "cleave/kernels/dense.h"
#include "cleave/kernels/dot.h"
#include "cleave/ops/op.h"

// Matrix products, with what is done to them on the way.
namespace cleave {

void Lowering::add_products(LoweringTable& table) {
  table.set<op::DotGeneral>(&Lowering::dot);
  table.set<op::Convolution>(&Lowering::convolution);
}

CodeView Lowering::converted(CodeBlock& block, const CodeView& view, DType dtype) {
  if (view.type.dtype == dtype) return view;
  CodeView to = fresh(Type::tensor(dtype, view.type.shape));
  to.type.strides = view.type.strides;
  add(block, make_convert_step(view, to), {view}, {to});
  ++code_.stats.copies;
  return to;
}

std::optional<CodeView> Lowering::product(const Node& node, CodeBlock& block) {
  std::vector<CodeView> in = operands(node);
  const Type& type = graph().result_type(node);
  for (const CodeView& view : in)
    if (num_elements(view.type.shape) == 0) return std::nullopt;
  if (num_elements(type.shape) == 0) return std::nullopt;
  const bool native = has_dot_step(in[0].type.dtype, in[1].type.dtype, type.dtype);
  const DType dtype =
      native ? type.dtype : dot_compute_type(in[0].type.dtype, in[1].type.dtype, type.dtype);
  for (size_t i : {0, 1}) {
    const bool converts = !native && in[i].type.dtype != dtype;
    if (!is_matrix_like(node, i, in[i].type) ||
        (converts && !is_dense(in[i].type.shape, in[i].type.strides)))
      in[i] = packed_copy(block, in[i], matrix_strides(node, i, in[i].type.shape));
    if (converts) in[i] = converted(block, in[i], dtype);
  }
  CodeView out = fresh(Type::tensor(dtype, type.shape));
  std::unique_ptr<CodeStep> step;
  auto make = [&](const CodeView& to) {
    const auto matrices = matrix_product(node, in[0], in[1], to);
    if (!matrices) return false;
    auto fast = make_dot_step(*matrices, {}, options_.threads);
    if (fast)
      code_.scratch_bytes = std::max(code_.scratch_bytes, fast->scratch_bytes(options_.threads));
    step = std::move(fast);
    if (!step && to.is_contiguous()) step = make_gemm_step(*matrices);
    return step != nullptr;
  };
  bool made = false;
  if (const Shape strides = native ? wanted_strides(node) : Shape(); !strides.empty()) {
    CodeView other = out;
    other.type.strides = strides;
    made = make(other);
    if (made) out = other;
  }
  if (!made && !make(out)) return std::nullopt;
  ++code_.stats.matmuls;
  if (dtype == type.dtype) {
    add_node_step(block, std::move(step), in, {out});
    return out;
  }
  add(block, std::move(step), in, {out});
  const CodeView result = fresh(type);
  add_node_step(block, make_convert_step(out, result), {out}, {result});
  ++code_.stats.copies;
  return result;
}

bool Lowering::dot(const Node& node, CodeBlock& block) {
  const auto out = product(node, block);
  if (!out) return false;
  views_[node.results[0].index] = *out;
  return true;
}

// The product and what follows it as one call of oneDNN, or else one after the other.
void Lowering::product_fusion(const Node& fusion, const Node& product, CodeBlock& block) {
  const Region& body = graph().region(fusion.regions[0]);
  for (size_t i = 0; i < body.args.size(); ++i)
    views_[body.args[i].index] = views_[fusion.operands[i].index];
  for (NodeId id : body.nodes) {
    const Node& node = graph().node(id);
    if (node.def->has(kConstantLike))
      constant(node, block);
    else if (node.def->has(kViewLike) && node.operands[0] != product.results[0])
      view(node, block);
  }
  const bool is_dot = is<op::DotGeneral>(product);
  if (is_dot ? dot_fusion(fusion, product, block) : convolution_fusion(fusion, product, block))
    return;
  const NodeId around = current_;
  current_ = {};
  auto out = is_dot ? this->product(product, block) : convolved(product, block);
  if (!out) {
    for (NodeId id : body.nodes)
      if (graph().node(id).results == product.results) current_ = id;
    kernel(product, block);
    out = views_[product.results[0].index];
  }
  current_ = around;
  this->fusion(fusion, block, &*out);
}

bool Lowering::dot_fusion(const Node& fusion, const Node& dot, CodeBlock& block) {
  std::vector<CodeView> in = operands(dot);
  for (size_t i : {0, 1}) {
    if (!is_matrix_like(dot, i, in[i].type))
      in[i] = packed_copy(block, in[i], matrix_strides(dot, i, in[i].type.shape));
    views_[dot.operands[i].index] = in[i];
  }
  const Type type = graph().result_type(fusion);
  const auto steps = epilogue(fusion, dot, block);
  if (!steps || num_elements(type.shape) == 0) return false;
  const CodeView out = fresh(type);
  const auto matrices = matrix_product(dot, in[0], in[1], out);
  auto step = matrices ? make_dot_step(*matrices, *steps, options_.threads) : nullptr;
  if (!step) return false;
  std::vector<CodeView> reads = in;
  for (const DotEpilogue& each : *steps) {
    if (each.step.operand.valid()) reads.push_back(each.operand);
    code_.stats.epilogue_ops += each.step.nodes.size();
  }
  code_.scratch_bytes = std::max(code_.scratch_bytes, step->scratch_bytes(options_.threads));
  ++code_.stats.matmuls;
  ++code_.stats.epilogues;
  views_[fusion.results[0].index] = out;
  add_node_step(block, std::move(step), reads, {out});
  return true;
}

std::optional<std::vector<DotEpilogue>> Lowering::epilogue(const Node& fusion, const Node& dot,
                                                           CodeBlock& block) {
  const Region& body = graph().region(fusion.regions[0]);
  const ValueId last = graph().node(body.nodes.back()).operands[0];
  std::vector<DotEpilogue> steps;
  for (ValueId at = dot.results[0]; at != last; at = steps.back().step.result) {
    auto step = next_epilogue_step(graph(), *uses_, dot, at);
    if (!step) return std::nullopt;
    CodeView operand;
    if (step->operand.valid()) operand = contiguous(block, views_[step->operand.index]);
    steps.push_back({std::move(*step), operand});
  }
  return steps;
}

// Where only products read a product, one of them may need its elements in another order: then it
// is written in that order at once.
Shape Lowering::wanted_strides(const Node& node) {
  StridedType type{graph().result_type(node).dtype, graph().result_type(node).shape,
                   row_major_strides(graph().result_type(node).shape)};
  auto all_fit = [&](Shape* wanted) {
    for (const Use& use : uses_->uses(node.results[0])) {
      const Node& user = graph().node(use.node);
      if (!is<op::DotGeneral>(user)) return false;
      if (is_matrix_like(user, use.operand, type)) continue;
      if (!wanted) return false;
      if (wanted->empty()) *wanted = matrix_strides(user, use.operand, type.shape);
    }
    return true;
  };
  Shape wanted;
  if (!all_fit(&wanted) || wanted.empty()) return {};
  type.strides = wanted;
  return all_fit(nullptr) ? wanted : Shape();
}

}  // namespace cleave
