#include "cleave/compile/convolution_step.h"
#include "cleave/compile/lowering.h"
#include "cleave/core/error.h"
#include "cleave/kernels/convolution_onednn.h"
#include "cleave/ops/convolution/conv_attr.h"

// Convolutions: by oneDNN, or as products of windows.
namespace cleave {

using conv_detail::ConvLayout;

bool Lowering::convolution(const Node& node, CodeBlock& block) {
  const size_t first = block.steps.size();
  const auto out = convolved(node, block);
  if (!out) return false;
  finish_node(node, block, first, {*out});
  return true;
}

std::optional<CodeView> Lowering::convolved(const Node& node, CodeBlock& block) {
  std::vector<CodeView> in = operands(node);
  const Type& type = graph().result_type(node);
  for (const CodeView& view : in)
    if (num_elements(view.type.shape) == 0) return std::nullopt;
  if (num_elements(type.shape) == 0) return std::nullopt;
  const DType dtype = convolution_compute_type(in[0].type.dtype, in[1].type.dtype, type.dtype);
  for (CodeView& view : in) view = as_dtype(block, view, dtype);
  const CodeView out = fresh(Type::tensor(dtype == DType::BF16 ? type.dtype : dtype, type.shape));
  convolve(node, in, out, {}, block);
  ++code_.stats.convolutions;
  return as_dtype(block, out, type.dtype);
}

bool Lowering::convolve(const Node& node, std::vector<CodeView> in, const CodeView& out,
                        const std::vector<DotEpilogue>& epilogue, CodeBlock& block) {
  const ConvDims dims = conv_dims(node);
  const conv_detail::Canonical sketches = conv_detail::canonical(
      sketch(in[0]), sketch(in[1]), sketch(out), dims, conv_window(node, dims, in[1].type.shape));
  ConvolutionViews views{placed(in[0], sketches.input), placed(in[1], sketches.kernel),
                         placed(out, sketches.result), sketches.window};
  auto layout = [](const CodeView& view) {
    return ConvLayout{view.type.dtype, view.type.shape, view.type.strides};
  };
  if (conv_detail::suits_onednn(layout(views.input), layout(views.kernel), layout(views.result))) {
    ConvolutionViews plain = views;
    const auto before = conv_detail::take_padding(plain.window);
    if (before)
      plain.input =
          padded(block, plain.input, *before, constant_view(Array::zeros(in[0].type.dtype, {})));
    if (!conv_detail::is_plain_tensor(layout(plain.input)))
      plain.input = packed_copy(block, plain.input);
    if (!conv_detail::is_plain_kernel(layout(plain.kernel)))
      plain.kernel = packed_copy(block, plain.kernel);
    auto step = make_convolution_step(plain, epilogue, options_.threads);
    const bool done = step != nullptr;
    if (!done && !epilogue.empty()) step = make_convolution_step(plain, {}, options_.threads);
    if (step) {
      if (step->kernel_bytes() > 0) {
        const CodeView kernel = work_memory(step->kernel_bytes());
        add(block, step->kernel_step(kernel), {plain.kernel}, {kernel});
        plain.kernel = kernel;
      }
      code_.scratch_bytes = std::max(code_.scratch_bytes, step->scratch_bytes(options_.threads));
      std::vector<CodeView> reads = {plain.input, plain.kernel};
      for (const DotEpilogue& each : epilogue)
        if (done && each.step.operand.valid()) reads.push_back(each.operand);
      add(block, std::move(step), reads, {out});
      return done;
    }
  }
  convolve_by_windows(views.input, views.kernel, views.result, views.window, block);
  return epilogue.empty();
}

// Windows as rows of a matrix.
void Lowering::convolve_by_windows(const CodeView& input, const CodeView& kernel,
                                   const CodeView& result, const Window& window, CodeBlock& block) {
  const size_t spatial = window.dims.size();
  Window all;
  all.dims.resize(3);
  all.dims.insert(all.dims.end(), window.dims.begin(), window.dims.end());
  const CodeView whole =
      padded(block, input, all, constant_view(Array::zeros(input.type.dtype, {})));
  // {n, g, c, out..., 1, 1, 1, window...}: without the three ones.
  CodeView rows = placed(whole, window_view(sketch(whole), all));
  for (Shape* dims : {&rows.type.shape, &rows.type.strides})
    dims->erase(dims->begin() + static_cast<int64_t>(3 + spatial),
                dims->begin() + static_cast<int64_t>(6 + spatial));
  DotSide left{{1}, {0}, {2}}, right{{0}, {1}, {2}};
  Shape shape{rows.type.shape[1], rows.type.shape[0]};
  for (size_t i = 0; i < spatial; ++i) {
    left.free.push_back(static_cast<int64_t>(3 + i));
    left.contract.push_back(static_cast<int64_t>(3 + spatial + i));
    right.contract.push_back(static_cast<int64_t>(3 + i));
    shape.push_back(rows.type.shape[3 + i]);
  }
  shape.push_back(kernel.type.shape[1]);
  if (!is_matrix_like(left, 0, rows.type))
    rows = packed_copy(block, rows, matrix_strides(left, 0, rows.type.shape));
  CodeView columns = kernel;
  if (!is_matrix_like(right, 1, columns.type))
    columns = packed_copy(block, columns, matrix_strides(right, 1, columns.type.shape));
  const CodeView product = fresh(Type::tensor(result.type.dtype, shape));
  const auto matrices = matrix_product(left, right, rows, columns, product);
  internal_check(matrices.has_value(), "windows that are no matrix");
  std::unique_ptr<CodeStep> step = make_gemm_step(*matrices);
  if (!step) {
    auto fast = make_dot_step(*matrices, {}, options_.threads);
    internal_check(fast != nullptr, "windows that nobody multiplies");
    code_.scratch_bytes = std::max(code_.scratch_bytes, fast->scratch_bytes(options_.threads));
    step = std::move(fast);
  }
  add(block, std::move(step), {rows, columns}, {product});
  // {g, n, out..., o} -> {n, g, o, out...}
  Shape order{1, 0, static_cast<int64_t>(2 + spatial)};
  for (size_t i = 0; i < spatial; ++i) order.push_back(static_cast<int64_t>(2 + i));
  copy(block, placed(product, sketch(product).transpose(order)), result);
}

bool Lowering::convolution_fusion(const Node& fusion, const Node& node, CodeBlock& block) {
  const Type type = graph().result_type(fusion);
  const std::vector<CodeView> in = operands(node);
  const DType dtype = convolution_compute_type(in[0].type.dtype, in[1].type.dtype, type.dtype);
  if (num_elements(type.shape) == 0 || dtype != type.dtype || in[0].type.dtype != dtype ||
      in[1].type.dtype != dtype)
    return false;
  const size_t first = block.steps.size();
  const auto steps = epilogue(fusion, node, block);
  if (!steps) return false;
  const CodeView out = fresh(type);
  ++code_.stats.convolutions;
  if (!convolve(node, in, out, *steps, block)) {
    this->fusion(fusion, block, &out);
    return true;
  }
  for (const DotEpilogue& each : *steps) code_.stats.epilogue_ops += each.step.nodes.size();
  ++code_.stats.epilogues;
  finish_node(fusion, block, first, {out});
  return true;
}

}  // namespace cleave
