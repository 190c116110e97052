#include <algorithm>
#include <array>

#include "cleave/compile/dot_step.h"
#include "cleave/kernels/gemm.h"
#include "cleave/kernels/loop.h"

namespace cleave {
namespace {

class GemmStep : public CodeStep {
 public:
  explicit GemmStep(const MatrixProduct& product) : product_(product) {
    const Matrix &a = product.lhs.matrix, &b = product.rhs.matrix;
    shape_ = {a.rows.size, b.cols.size, a.cols.size, a.cols.stride != 1, b.cols.stride != 1, 0, 0};
    shape_.lda = shape_.trans_a ? a.cols.stride : a.rows.stride;
    shape_.ldb = shape_.trans_b ? b.cols.stride : b.rows.stride;
    for (int64_t size : product.batch) batches_ *= size;
  }

  Next run(Frame& frame) const override {
    constexpr int64_t kRows = 64;  // of a task
    const int64_t parts = frame.team && batches_ == 1 ? ceil_div(shape_.m, kRows) : 1;
    const int64_t rows = ceil_div(shape_.m, parts);
    const auto run_one = [&](int64_t task, int) {
      int64_t a = 0, b = 0, c = 0;
      int64_t rest = task / parts;
      for (size_t d = product_.batch.size(); d-- > 0;) {
        const int64_t index = rest % product_.batch[d];
        rest /= product_.batch[d];
        a += index * product_.lhs.batch[d];
        b += index * product_.rhs.batch[d];
        c += index * product_.out.batch[d];
      }
      const int64_t row = task % parts * rows;
      Gemm part = shape_;
      part.m = std::min(rows, shape_.m - row);
      if (part.m <= 0) return;
      a += row * product_.lhs.matrix.rows.stride;
      c += row * product_.out.matrix.rows.stride;
      const DType dtype = product_.out.view.type.dtype;
      const int64_t size = byte_size(dtype);
      gemm(dtype, part, frame.data(product_.lhs.view) + a * size,
           frame.data(product_.rhs.view) + b * size, frame.data(product_.out.view) + c * size);
    };
    if (frame.team)
      frame.team->run(batches_ * parts, run_one);
    else
      for (int64_t task = 0; task < batches_ * parts; ++task) run_one(task, 0);
    return Next::Continue;
  }

 private:
  MatrixProduct product_;
  Gemm shape_;
  int64_t batches_ = 1;
};

class ConvertStep : public CodeStep {
 public:
  ConvertStep(const CodeView& from, const CodeView& to)
      : from_(from), to_(to), loop_(convert_loop(from.type.dtype, to.type.dtype)) {}

  Next run(Frame& frame) const override {
    constexpr int64_t kElements = 1 << 15;  // of a task
    const int64_t count = num_elements(to_.type.shape);
    const std::byte* from = frame.data(from_);
    std::byte* to = frame.data(to_);
    const auto run_one = [&](int64_t task, int) {
      const int64_t begin = task * kElements;
      const std::byte* in[1] = {from + begin * byte_size(from_.type.dtype)};
      loop_(in, to + begin * byte_size(to_.type.dtype), std::min(kElements, count - begin));
    };
    const int64_t tasks = ceil_div(count, kElements);
    if (frame.team)
      frame.team->run(tasks, run_one);
    else
      for (int64_t task = 0; task < tasks; ++task) run_one(task, 0);
    return Next::Continue;
  }

 private:
  CodeView from_, to_;
  Loop loop_;
};

}  // namespace

std::unique_ptr<CodeStep> make_gemm_step(const MatrixProduct& product) {
  const DType dtype = product.out.view.type.dtype;
  const Matrix& out = product.out.matrix;
  if (!has_gemm(dtype) || product.lhs.view.type.dtype != dtype ||
      product.rhs.view.type.dtype != dtype || (out.cols.size > 1 && out.cols.stride != 1) ||
      (out.rows.size > 1 && out.rows.stride != out.cols.size))
    return nullptr;
  return std::make_unique<GemmStep>(product);
}

std::unique_ptr<CodeStep> make_convert_step(const CodeView& from, const CodeView& to) {
  return std::make_unique<ConvertStep>(from, to);
}

}  // namespace cleave
