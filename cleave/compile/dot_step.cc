#include "cleave/compile/dot_step.h"

#include <algorithm>
#include <string_view>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/kernels/gemm.h"
#include "cleave/kernels/onednn.h"

namespace cleave {
namespace {

using dnnl::memory;
using Kind = EpilogueStep::Kind;

dnnl::algorithm algorithm_of(Kind kind) {
  switch (kind) {
    case Kind::Linear:
      return dnnl::algorithm::eltwise_linear;
    case Kind::Tanh:
      return dnnl::algorithm::eltwise_tanh;
    case Kind::Logistic:
      return dnnl::algorithm::eltwise_logistic;
    case Kind::GeluTanh:
      return dnnl::algorithm::eltwise_gelu_tanh;
    case Kind::GeluErf:
      return dnnl::algorithm::eltwise_gelu_erf;
    case Kind::Silu:
      return dnnl::algorithm::eltwise_swish;
    case Kind::Add:
      return dnnl::algorithm::binary_add;
    case Kind::Subtract:
      return dnnl::algorithm::binary_sub;
    default:
      return dnnl::algorithm::binary_mul;
  }
}

// An argument of a call of oneDNN: where it lies is told only where that has changed, since telling
// costs as much as a small product.
struct Argument {
  int id = 0;
  const CodeView* view = nullptr;  // null: scratch memory
  int64_t offset = 0;              // bytes
  memory data;
  void* at = nullptr;

  void set(void* pointer) {
    if (pointer == at) return;
    data.set_data_handle(pointer);
    at = pointer;
  }
};

// A part of the product: one call of oneDNN, which uses one thread.
struct DotPart {
  dnnl::matmul primitive;
  std::vector<Argument> arguments;
  std::vector<dnnl_exec_arg_t> handles;
  size_t scratch = 0;
  bool is_slow = false;  // only the library's reference code takes it
  Dims batch, batch_strides;
  Matrix out;

  void finish() {
    for (const Argument& argument : arguments)
      handles.push_back({argument.id, argument.data.get()});
  }
};

class OneDnnStep : public DotStep {
 public:
  OneDnnStep(MatrixProduct product, std::vector<DotEpilogue> epilogue, int threads)
      : product_(std::move(product)), epilogue_(std::move(epilogue)) {
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
    for (DotPart& part : parts_) {
      part.finish();
      scratch_ = std::max(scratch_, (part.scratch + 63) / 64 * 64);
    }
  }

  bool is_slow() const { return parts_[0].is_slow; }
  size_t scratch_bytes(int threads) const override {
    return scratch_ * static_cast<size_t>(threads);
  }

  Next run(Frame& frame) const override {
    const auto run_part = [&](int64_t index, int worker) {
      DotPart& part = parts_[static_cast<size_t>(index)];
      for (Argument& argument : part.arguments)
        argument.set(argument.view ? frame.data(*argument.view) + argument.offset
                                   : frame.scratch + scratch_ * static_cast<size_t>(worker));
      const dnnl_status_t status =
          dnnl_primitive_execute(part.primitive.get(), onednn_stream().get(),
                                 static_cast<int>(part.handles.size()), part.handles.data());
      internal_check(status == dnnl_success, "a matrix product of oneDNN failed");
      if (ends_in_relu_) relu(part, reinterpret_cast<float*>(part.arguments[kOut].at));
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
    DotPart part;
    auto argument = [&](int id, const memory::desc& desc, const CodeView* view, int64_t offset) {
      const int64_t size = view ? byte_size(view->type.dtype) : 1;
      part.arguments.push_back(
          {id, view, offset * size, memory(desc, onednn_engine(), nullptr), nullptr});
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
    for (const DotEpilogue& e : epilogue_) {
      const Kind kind = e.step.kind;
      if (kind == Kind::Relu) {
        ends_in_relu_ = true;
        break;
      }
      if (!e.step.operand.valid()) {
        post.append_eltwise(1.0f, algorithm_of(kind), static_cast<float>(e.step.alpha),
                            static_cast<float>(e.step.beta));
        continue;
      }
      const memory::desc desc =
          e.step.by_column ? memory::desc(row_dims, onednn_type(e.operand.type.dtype), row_strides)
                           : z;
      const int64_t offset = e.step.by_column ? cut.column : cut.c;
      if (&e == epilogue_.data() && e.step.by_column && kind == Kind::Add) {
        bias = desc;
        argument(DNNL_ARG_BIAS, desc, &e.operand, offset);
        continue;
      }
      argument(DNNL_ARG_ATTR_MULTIPLE_POST_OP(post.len()) | DNNL_ARG_SRC_1, desc, &e.operand,
               offset);
      post.append_binary(algorithm_of(kind), desc);
    }
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    attr.set_post_ops(post);
    const dnnl::matmul::desc op =
        bias.is_zero() ? dnnl::matmul::desc(x, y, z) : dnnl::matmul::desc(x, y, bias, z);
    const dnnl::matmul::primitive_desc desc(op, attr, onednn_engine());
    part.is_slow = std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos;
    part.primitive = dnnl::matmul(desc);
    part.batch = cut.batch;
    part.batch_strides = cut.out.batch;
    part.out = cut.out.matrix;
    part.scratch = desc.scratchpad_desc().get_size();
    if (part.scratch > 0) argument(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc(), nullptr, 0);
    parts_.push_back(std::move(part));
  }

  // The part is still in the cache.
  static void relu(const DotPart& part, float* out) {
    static const Loop maximum = binary_loop(BinaryOp::Maximum, DType::F32).loop;
    constexpr int64_t kChunk = 1024;
    alignas(64) static const float zeros[kChunk] = {};
    int64_t batches = 1;
    for (int64_t size : part.batch) batches *= size;
    for (int64_t b = 0; b < batches; ++b) {
      int64_t rest = b, offset = 0;
      for (size_t d = part.batch.size(); d-- > 0; rest /= part.batch[d])
        offset += rest % part.batch[d] * part.batch_strides[d];
      for (int64_t row = 0; row < part.out.rows.size; ++row)
        for (int64_t begin = 0; begin < part.out.cols.size; begin += kChunk) {
          float* at = out + offset + row * part.out.rows.stride + begin;
          const std::byte* in[2] = {reinterpret_cast<const std::byte*>(at),
                                    reinterpret_cast<const std::byte*>(zeros)};
          maximum(in, reinterpret_cast<std::byte*>(at),
                  std::min(kChunk, part.out.cols.size - begin));
        }
    }
  }

  static constexpr size_t kOut = 2;  // among the arguments of a part

  MatrixProduct product_;
  std::vector<DotEpilogue> epilogue_;
  bool ends_in_relu_ = false;
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
