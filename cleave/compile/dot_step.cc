#include "cleave/compile/dot_step.h"

#include <algorithm>
#include <string_view>

#include "cleave/compile/onednn_call.h"
#include "cleave/kernels/gemm.h"

namespace cleave {
namespace {

using dnnl::memory;
using Kind = EpilogueStep::Kind;

// A part of the product: one call of oneDNN, which uses one thread.
struct DotPart {
  OneDnnCall call;
  size_t scratch = 0;
  bool is_slow = false;  // only the library's reference code takes it
  Dims batch, batch_strides;
  Matrix out;
};

class OneDnnStep : public DotStep {
 public:
  OneDnnStep(MatrixProduct product, std::vector<DotEpilogue> epilogue, int threads)
      : product_(std::move(product)),
        epilogue_(std::move(epilogue)),
        clips_(product_.out.view.type.dtype) {
    while (num_post_ops_ < epilogue_.size() && !is_clip(epilogue_[num_post_ops_].step))
      ++num_post_ops_;
    for (size_t i = num_post_ops_; i < epilogue_.size(); ++i)
      clips_.add(epilogue_[i].step.kind == Kind::Maximum, epilogue_[i].step.alpha);
    const MatrixProduct& p = product_;
    constexpr double kWorthSharing = 2e6;  // operations: some tens of microseconds
    const int64_t m = p.lhs.matrix.rows.size, n = p.rhs.matrix.cols.size;
    double work = 2.0 * static_cast<double>(m * p.lhs.matrix.cols.size) * static_cast<double>(n);
    for (int64_t size : p.batch) work *= static_cast<double>(size);
    const int64_t wanted = threads > 1 && work >= kWorthSharing ? 3 * threads : 1;
    if (wanted > 1 && !p.batch.empty() && p.batch[0] >= wanted)
      split(p.batch[0], wanted, 1, [&](int64_t start, int64_t size) {
        Cut cut{p.lhs, p.rhs, p.out, p.batch};
        cut.batch[0] = size;
        cut.a = start * p.lhs.batch[0];
        cut.b = start * p.rhs.batch[0];
        cut.c = start * p.out.batch[0];
        add(cut);
      });
    else if (m >= n)
      split(m, wanted, 32, [&](int64_t start, int64_t size) {
        Cut cut{p.lhs, p.rhs, p.out, p.batch};
        cut.lhs.matrix.rows.size = cut.out.matrix.rows.size = size;
        cut.a = start * p.lhs.matrix.rows.stride;
        cut.c = start * p.out.matrix.rows.stride;
        add(cut);
      });
    else
      split(n, wanted, 64, [&](int64_t start, int64_t size) {
        Cut cut{p.lhs, p.rhs, p.out, p.batch};
        cut.rhs.matrix.cols.size = cut.out.matrix.cols.size = size;
        cut.b = start * p.rhs.matrix.cols.stride;
        cut.c = start * p.out.matrix.cols.stride;
        cut.column = start;
        add(cut);
      });
    for (const DotPart& part : parts_) scratch_ = std::max(scratch_, (part.scratch + 63) / 64 * 64);
  }

  bool is_slow() const { return parts_[0].is_slow; }
  size_t scratch_bytes(int threads) const override {
    return scratch_ * static_cast<size_t>(threads);
  }

  Next run(Frame& frame) const override {
    const auto run_part = [&](int64_t index, int worker) {
      DotPart& part = parts_[static_cast<size_t>(index)];
      part.call.run(frame, frame.scratch + scratch_ * static_cast<size_t>(worker));
      if (!clips_.empty()) clip(part, part.call.at(kOut));
    };
    if (frame.team && parts_.size() > 1) {
      frame.team->run(static_cast<int64_t>(parts_.size()), run_part);
    } else {
      for (size_t i = 0; i < parts_.size(); ++i) run_part(static_cast<int64_t>(i), 0);
    }
    return Next::Continue;
  }

 private:
  // A part of the product, and where it begins, in elements.
  struct Cut {
    MatrixView lhs, rhs, out;
    Dims batch;
    int64_t a = 0, b = 0, c = 0, column = 0;
  };

  // Calls visit(start, size) for about `parts` parts, multiples of `unit`.
  template <typename Visit>
  static void split(int64_t size, int64_t parts, int64_t unit, Visit visit) {
    const int64_t step = ceil_div(ceil_div(size, parts), unit) * unit;
    for (int64_t start = 0; start < size; start += step) visit(start, std::min(step, size - start));
  }

  static memory::desc describe(const MatrixView& view, const Dims& batch) {
    const Matrix& m = view.matrix;
    Dims dims = batch, strides = view.batch;
    dims.insert(dims.end(), {m.rows.size, m.cols.size});
    strides.insert(strides.end(), {m.rows.stride, m.cols.stride});
    return memory::desc(dims, onednn_type(view.view.type.dtype), strides);
  }

  void add(const Cut& cut) {
    struct Argument {
      int id;
      memory::desc desc;
      const CodeView* view;
      int64_t offset;  // bytes
    };
    std::vector<Argument> arguments;
    auto argument = [&](int id, const memory::desc& desc, const CodeView* view, int64_t offset) {
      arguments.push_back({id, desc, view, offset * byte_size(view->type.dtype)});
    };
    const memory::desc x = describe(cut.lhs, cut.batch), y = describe(cut.rhs, cut.batch),
                       z = describe(cut.out, cut.batch);
    argument(DNNL_ARG_SRC, x, &product_.lhs.view, cut.a);
    argument(DNNL_ARG_WEIGHTS, y, &product_.rhs.view, cut.b);
    argument(DNNL_ARG_DST, z, &product_.out.view, cut.c);

    Dims row_dims(cut.batch.size() + 1, 1), row_strides(cut.batch.size() + 2, 1);
    row_dims.push_back(cut.out.matrix.cols.size);
    for (size_t d = 0; d + 1 < row_strides.size(); ++d) row_strides[d] = cut.out.matrix.cols.size;
    memory::desc bias;
    dnnl::post_ops post;
    for (size_t i = 0; i < num_post_ops_; ++i) {
      const DotEpilogue& e = epilogue_[i];
      const Kind kind = e.step.kind;
      if (!e.step.operand.valid()) {
        post.append_eltwise(1.0f, onednn_algorithm(kind), static_cast<float>(e.step.alpha),
                            static_cast<float>(e.step.beta));
        continue;
      }
      const memory::desc desc =
          e.step.by_column ? memory::desc(row_dims, onednn_type(e.operand.type.dtype), row_strides)
                           : z;
      const int64_t offset = e.step.by_column ? cut.column : cut.c;
      if (i == 0 && e.step.by_column && kind == Kind::Add) {
        bias = desc;
        argument(DNNL_ARG_BIAS, desc, &e.operand, offset);
        continue;
      }
      argument(DNNL_ARG_ATTR_MULTIPLE_POST_OP(post.len()) | DNNL_ARG_SRC_1, desc, &e.operand,
               offset);
      post.append_binary(onednn_algorithm(kind), desc);
    }
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(post);
    const dnnl::matmul::desc op =
        bias.is_zero() ? dnnl::matmul::desc(x, y, z) : dnnl::matmul::desc(x, y, bias, z);
    const dnnl::matmul::primitive_desc desc(op, attr, onednn_engine());
    DotPart part;
    part.is_slow = std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos;
    part.call = OneDnnCall(dnnl::matmul(desc));
    for (const Argument& each : arguments)
      part.call.add(each.id, each.desc, each.view, each.offset);
    part.batch = cut.batch;
    part.batch_strides = cut.out.batch;
    part.out = cut.out.matrix;
    part.scratch = desc.scratchpad_desc().get_size();
    if (part.scratch > 0) part.call.add_scratch(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc(), 0);
    parts_.push_back(std::move(part));
  }

  // The part is still in the cache.
  void clip(const DotPart& part, std::byte* out) const {
    const int64_t size = byte_size(product_.out.view.type.dtype);
    int64_t batches = 1;
    for (int64_t count : part.batch) batches *= count;
    for (int64_t b = 0; b < batches; ++b) {
      int64_t rest = b, offset = 0;
      for (size_t d = part.batch.size(); d-- > 0; rest /= part.batch[d])
        offset += rest % part.batch[d] * part.batch_strides[d];
      for (int64_t row = 0; row < part.out.rows.size; ++row)
        clips_.run(out + (offset + row * part.out.rows.stride) * size, part.out.cols.size);
    }
  }

  static constexpr size_t kOut = 2;  // among the arguments of a part

  MatrixProduct product_;
  std::vector<DotEpilogue> epilogue_;
  size_t num_post_ops_ = 0;  // the first ones; the others are clips
  ClipTail clips_;
  mutable std::vector<DotPart> parts_;
  size_t scratch_ = 0;  // of one thread
};

}  // namespace

bool has_dot_step(DType lhs, DType rhs, DType result) {
  if (lhs == DType::F32 && rhs == DType::F32) return result == DType::F32;
  return lhs == DType::BF16 && rhs == DType::BF16 && has_bf16_gemm() &&
         (result == DType::BF16 || result == DType::F32);
}

std::unique_ptr<DotStep> make_dot_step(const MatrixProduct& product,
                                       const std::vector<DotEpilogue>& epilogue, int threads) {
  if (!has_dot_step(product.lhs.view.type.dtype, product.rhs.view.type.dtype,
                    product.out.view.type.dtype))
    return nullptr;
  try {
    // oneDNN writes dense rows: (a b)^T = b^T a^T.
    if (product.out.matrix.cols.stride != 1) {
      if (!epilogue.empty()) return nullptr;
      auto step = std::make_unique<OneDnnStep>(
          MatrixProduct{product.rhs.transposed(), product.lhs.transposed(),
                        product.out.transposed(), product.batch},
          epilogue, threads);
      return step->is_slow() ? nullptr : std::move(step);
    }
    auto step = std::make_unique<OneDnnStep>(product, epilogue, threads);
    return step->is_slow() ? nullptr : std::move(step);
  } catch (const dnnl::error&) {
    return nullptr;
  }
}

}  // namespace cleave
