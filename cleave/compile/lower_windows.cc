#include <algorithm>

#include "cleave/compile/lowering.h"
#include "cleave/compile/reduce_step.h"
#include "cleave/compile/select_scatter_step.h"
#include "cleave/compile/window_steps.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/reduce_window.h"
#include "cleave/ops/reduce/reduction_body.h"
#include "cleave/ops/reduce/window_attr.h"

// Padding, and reductions by operators that the kernels know, of whole dimensions and of windows.
namespace cleave {

void Lowering::add_windows(LoweringTable& table) {
  table.set<op::Pad>(&Lowering::pad);
  table.set<op::Reduce>(&Lowering::reduce);
  table.set<op::ReduceWindow>(&Lowering::reduce_window);
  table.set<op::SelectAndScatter>(&Lowering::select_and_scatter);
}

CodeView Lowering::padded(CodeBlock& block, const CodeView& view, const Window& window,
                          const CodeView& fill) {
  const Padding plan = plan_padding(view.type.shape, window);
  const CodeView kept = placed(view, sketch(view).slice(plan.start, plan.size));
  if (plan.only_crops) return kept;
  const CodeView out = fresh(Type::tensor(view.type.dtype, plan.shape));
  const CodeView inside = placed(out, sketch(out).slice(plan.target, plan.size, plan.step));
  add(block, make_pad_step(kept, fill, out, inside), {kept, fill}, {out});
  return out;
}

bool Lowering::pad(const Node& node, CodeBlock& block) {
  const std::vector<CodeView> in = operands(node);
  const size_t rank = in[0].type.shape.size(), first = block.steps.size();
  const auto low = window_entries(node, "edge_padding_low", rank, 0);
  const auto high = window_entries(node, "edge_padding_high", rank, 0);
  const auto interior = window_entries(node, "interior_padding", rank, 0);
  Window window;
  for (size_t d = 0; d < rank; ++d)
    window.dims.push_back({.base_dilation = interior[d] + 1, .low = low[d], .high = high[d]});
  finish_node(node, block, first, {padded(block, in[0], window, in[1])});
  return true;
}

CodeView Lowering::folded(CodeBlock& block, const CodeView& view, const std::vector<int64_t>& dims,
                          Reducer reducer, const CodeView& init) {
  if (view.type.dtype == DType::F16) {
    const CodeView wide = as_dtype(block, view, DType::F32);
    return as_dtype(block, folded(block, wide, dims, reducer, as_dtype(block, init, DType::F32)),
                    DType::F16);
  }
  std::vector<bool> gone(view.type.shape.size());
  for (int64_t d : dims) gone[d] = true;
  Shape shape;
  for (size_t d = 0; d < gone.size(); ++d)
    if (!gone[d]) shape.push_back(view.type.shape[d]);
  const CodeView out = fresh(Type::tensor(view.type.dtype, shape));
  if (num_elements(shape) == 0) return out;
  if (num_elements(view.type.shape) == 0)
    return copy(block, placed(init, sketch(init).broadcast(shape, {})), out);
  add(block, make_reduce_step(view, dims, reducer, init, out, options_.threads), {view, init},
      {out});
  return out;
}

bool Lowering::reduce(const Node& node, CodeBlock& block) {
  const auto reducers = recognise_reducers(graph(), node.regions[0]);
  if (!reducers) return reduce_by_region(node, block);
  const std::vector<CodeView> in = operands(node);
  const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
  const size_t n = num_reduced(node), first = block.steps.size();
  std::vector<CodeView> out;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = body_dtype(graph(), node, i);
    out.push_back(folded(block, as_dtype(block, in[i], dtype), dims, (*reducers)[i],
                         as_dtype(block, in[n + i], dtype)));
  }
  finish_node(node, block, first, out);
  return true;
}

bool Lowering::reduce_by_region(const Node& node, CodeBlock& block) {
  auto body = RegionLoop::make(graph(), node.regions[0]);
  const std::vector<CodeView> in = operands(node);
  const std::vector<int64_t> dims = node.attrs.get_ints_or_empty("dimensions");
  const size_t n = num_reduced(node), first = block.steps.size();
  if (!body || n > 16 || !body->folds_in_place(n) || num_elements(in[0].type.shape) == 0)
    return false;
  Shape order, kept;
  RegionFold fold{.body = std::move(*body),
                  .count = 1,
                  .width = num_elements(graph().result_type(node).shape),
                  .rows = {},
                  .inits = {},
                  .results = {},
                  .work = {}};
  for (int64_t d : dims) fold.count *= in[0].type.shape[static_cast<size_t>(d)];
  // The folded dimensions first, each part in order.
  for (bool folds : {true, false})
    for (int64_t d = 0; d < static_cast<int64_t>(in[0].type.shape.size()); ++d)
      if ((std::find(dims.begin(), dims.end(), d) != dims.end()) == folds) order.push_back(d);
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = body_dtype(graph(), node, i);
    const CodeView view = as_dtype(block, in[i], dtype), init = as_dtype(block, in[n + i], dtype);
    const CodeView rows = placed(view, sketch(view).transpose(order));
    fold.rows.push_back(copy(block, rows, fresh(Type::tensor(dtype, rows.type.shape))));
    fold.inits.push_back(copy(block, placed(init, sketch(init).broadcast({fold.width}, {})),
                              fresh(Type::tensor(dtype, {fold.width}))));
    fold.results.push_back(fresh(graph().type(node.results[i])));
  }
  fold.work = work_memory(fold.body.scratch_bytes());
  std::vector<CodeView> reads = fold.rows, writes = fold.results;
  reads.insert(reads.end(), fold.inits.begin(), fold.inits.end());
  // The rows are overwritten.
  writes.push_back(fold.work);
  writes.insert(writes.end(), fold.rows.begin(), fold.rows.end());
  const std::vector<CodeView> results = fold.results;
  add(block, make_region_fold_step(std::move(fold)), reads, writes);
  finish_node(node, block, first, results);
  return true;
}

CodeView Lowering::window_folded(CodeBlock& block, const CodeView& view, const Window& window,
                                 Reducer reducer, const CodeView& init) {
  const DType dtype = view.type.dtype;
  const std::vector<int64_t> dims = window_dims(view.type.shape.size());
  const Array identity = reduce_identity(reducer, dtype);
  const CodeBuffer& known = table_.whole(init.buffer);
  const bool pure = known.kind == CodeBuffer::Kind::Constant && identical(known.constant, identity);
  const WindowFold fold = plan_window_fold(view.type.shape, window, pure);
  auto fold_windows = [&](const CodeView& from, const Window& stage, const CodeView& fill) {
    const CodeView whole = padded(block, from, stage, fill);
    return folded(block, placed(whole, window_view(sketch(whole), stage)), dims, reducer, fill);
  };
  if (fold.is_single) return fold_windows(view, window, init);
  if (dtype == DType::F16 || dtype == DType::BF16)
    return as_dtype(block,
                    window_folded(block, as_dtype(block, view, DType::F32), window, reducer,
                                  as_dtype(block, init, DType::F32)),
                    dtype);
  CodeView result = fold.before ? padded(block, view, *fold.before, init) : view;
  const CodeView start = constant_view(identity);
  for (const Window& stage : fold.stages) result = fold_windows(result, stage, start);
  return pure ? result : folded(block, result, {}, reducer, init);
}

bool Lowering::reduce_window(const Node& node, CodeBlock& block) {
  const auto reducers = recognise_reducers(graph(), node.regions[0]);
  if (!reducers) return false;
  const std::vector<CodeView> in = operands(node);
  const Window window = window_of(node, in[0].type.shape.size());
  const size_t n = num_reduced(node), first = block.steps.size();
  std::vector<CodeView> out;
  for (size_t i = 0; i < n; ++i) {
    const DType dtype = body_dtype(graph(), node, i);
    out.push_back(window_folded(block, as_dtype(block, in[i], dtype), window, (*reducers)[i],
                                as_dtype(block, in[n + i], dtype)));
  }
  finish_node(node, block, first, out);
  return true;
}

bool Lowering::select_and_scatter(const Node& node, CodeBlock& block) {
  const auto reducers = recognise_reducers(graph(), node.regions[1]);
  auto select = RegionLoop::make(graph(), node.regions[0]);
  const std::vector<CodeView> in = operands(node);
  if (!reducers || (*reducers)[0] > Reducer::Min || !select || in[0].type.shape.size() > 16 ||
      num_elements(in[0].type.shape) == 0)
    return false;
  const size_t first = block.steps.size();
  const Type& type = graph().result_type(node);
  const bool half = type.dtype == DType::F16 || type.dtype == DType::BF16;
  const DType dtype = half ? DType::F32 : type.dtype;
  static constexpr BinaryOp kOps[] = {BinaryOp::Add, BinaryOp::Multiply, BinaryOp::Maximum,
                                      BinaryOp::Minimum};
  const LoopChoice combine = binary_loop(kOps[static_cast<size_t>((*reducers)[0])], dtype);
  if (!combine.loop || combine.in != dtype || combine.out != dtype) return false;
  SelectScatter plan{.operand = contiguous(block, in[0]),
                     .source = contiguous(block, as_dtype(block, in[1], dtype)),
                     .init = as_dtype(block, in[2], dtype),
                     .result = fresh(Type::tensor(dtype, type.shape)),
                     .window = window_of(node, in[0].type.shape.size()),
                     .select = std::move(*select),
                     .combine = combine.loop,
                     .work = {}};
  plan.work = work_memory(select_scatter_work(plan.operand, plan.source, plan.select));
  const std::vector<CodeView> reads = {plan.operand, plan.source, plan.init},
                              writes = {plan.result, plan.work};
  add(block, make_select_scatter_step(std::move(plan)), reads, writes);
  finish_node(node, block, first, {as_dtype(block, writes[0], type.dtype)});
  return true;
}

}  // namespace cleave
