#include <omp.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "cleave/compile/steps.h"
#include "cleave/core/error.h"
#include "cleave/kernels/onednn.h"

namespace cleave {
namespace {

using dnnl::memory;
using Dims = std::vector<int64_t>;

// The dimensions of one side: batch, rows (or columns) that stay, and those that are summed over.
struct Side {
  Dims batch, free, contract;
};

bool contains(const Dims& dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

Side side_of(const Node& node, size_t operand, size_t rank) {
  const Attribute* attribute = node.attrs.find("dot_dimension_numbers");
  const StructAttr* numbers = attribute ? attribute->as<StructAttr>() : nullptr;
  internal_check(numbers != nullptr, "a dot_general without dimension numbers");
  Side side;
  side.batch = numbers->get_ints_or_empty(operand == 0 ? "lhs_batching_dimensions"
                                                       : "rhs_batching_dimensions");
  side.contract = numbers->get_ints_or_empty(operand == 0 ? "lhs_contracting_dimensions"
                                                          : "rhs_contracting_dimensions");
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (!contains(side.batch, d) && !contains(side.contract, d)) side.free.push_back(d);
  return side;
}

struct Merged {
  int64_t size = 1, stride = 1;
};

// Dimensions seen as one, where they lie behind each other.
std::optional<Merged> merge(const StridedType& type, const Dims& dims) {
  Merged merged;
  int64_t expected = -1;
  for (size_t i = dims.size(); i-- > 0;) {
    const int64_t size = type.shape[dims[i]], stride = type.strides[dims[i]];
    merged.size *= size;
    if (size == 1) continue;
    if (expected == -1)
      merged.stride = stride;
    else if (stride != expected)
      return std::nullopt;
    expected = stride * size;
  }
  return merged;
}

struct Matrix {
  Merged rows, cols;
};

std::optional<Matrix> matrix_of(const StridedType& type, const Dims& rows, const Dims& cols) {
  const auto r = merge(type, rows), c = merge(type, cols);
  if (!r || !c) return std::nullopt;
  Matrix m{*r, *c};
  // A dimension of one element has any stride that suits.
  if (m.cols.size == 1) m.cols.stride = m.rows.stride == 1 && m.rows.size > 1 ? m.rows.size : 1;
  if (m.rows.size == 1) m.rows.stride = m.cols.stride == 1 ? std::max<int64_t>(m.cols.size, 1) : 1;
  const bool plain = m.cols.stride == 1 && m.rows.stride >= m.cols.size;
  const bool transposed = m.rows.stride == 1 && m.cols.stride >= m.rows.size;
  return plain || transposed ? std::optional(m) : std::nullopt;
}

// One side of the product, or the product: its view, its matrices, the strides of its batches.
struct MatrixView {
  CodeView view;
  Matrix matrix;
  Dims batch;

  // The same elements with rows and columns exchanged.
  MatrixView transposed() const { return {view, {matrix.cols, matrix.rows}, batch}; }
};

class DotStep : public CodeStep {
 public:
  DotStep(const MatrixView& lhs, const MatrixView& rhs, const MatrixView& out, const Dims& batch)
      : lhs_(lhs.view), rhs_(rhs.view), out_(out.view) {
    auto describe = [&](const MatrixView& factor) {
      const Matrix& m = factor.matrix;
      Dims dims = batch, strides = factor.batch;
      dims.insert(dims.end(), {m.rows.size, m.cols.size});
      strides.insert(strides.end(), {m.rows.stride, m.cols.stride});
      return memory::desc(dims, memory::data_type::f32, strides);
    };
    const memory::desc a = describe(lhs), b = describe(rhs), c = describe(out);
    const dnnl::matmul::primitive_desc desc({a, b, c}, onednn_engine());
    is_slow_ = std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos;
    primitive_ = dnnl::matmul(desc);
    a_ = memory(a, onednn_engine(), nullptr);
    b_ = memory(b, onednn_engine(), nullptr);
    c_ = memory(c, onednn_engine(), nullptr);
    arguments_ = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
  }

  bool is_slow() const { return is_slow_; }  // only the library's reference code takes it

  Next run(Frame& frame) const override {
    a_.set_data_handle(frame.data(lhs_));
    b_.set_data_handle(frame.data(rhs_));
    c_.set_data_handle(frame.data(out_));
    primitive_.execute(onednn_stream(), arguments_);
    return Next::Continue;
  }

 private:
  CodeView lhs_, rhs_, out_;
  dnnl::matmul primitive_;
  mutable memory a_, b_, c_;
  std::unordered_map<int, memory> arguments_;
  bool is_slow_ = false;
};

// Batch dimensions of both sides and the result, merged where all three allow it.
Dims merge_batch(MatrixView& lhs, MatrixView& rhs, MatrixView& out, const Side& left,
                 const Side& right) {
  Dims sizes;
  auto stride = [](const MatrixView& factor, int64_t dim) { return factor.view.type.strides[dim]; };
  for (size_t i = 0; i < left.batch.size(); ++i) {
    const int64_t size = lhs.view.type.shape[left.batch[i]];
    if (size == 1) continue;
    const int64_t l = stride(lhs, left.batch[i]), r = stride(rhs, right.batch[i]);
    const int64_t o = stride(out, static_cast<int64_t>(i));
    if (!sizes.empty() && lhs.batch.back() == l * size && rhs.batch.back() == r * size &&
        out.batch.back() == o * size) {
      sizes.back() *= size;
      lhs.batch.back() = l;
      rhs.batch.back() = r;
      out.batch.back() = o;
    } else {
      sizes.push_back(size);
      lhs.batch.push_back(l);
      rhs.batch.push_back(r);
      out.batch.push_back(o);
    }
  }
  return sizes;
}

Dims range(size_t begin, size_t end) {
  Dims dims;
  for (size_t d = begin; d < end; ++d) dims.push_back(static_cast<int64_t>(d));
  return dims;
}

}  // namespace

bool is_matrix_like(const Node& node, size_t operand, const StridedType& type) {
  const Side side = side_of(node, operand, type.shape.size());
  for (int64_t d : side.batch)
    if (type.shape[d] > 1 && type.strides[d] == 0) return false;
  return operand == 0 ? matrix_of(type, side.free, side.contract).has_value()
                      : matrix_of(type, side.contract, side.free).has_value();
}

Shape matrix_strides(const Node& node, size_t operand, const Shape& shape) {
  const Side side = side_of(node, operand, shape.size());
  Dims order = side.batch;
  for (const Dims& dims :
       operand == 0 ? std::array{side.free, side.contract} : std::array{side.contract, side.free})
    order.insert(order.end(), dims.begin(), dims.end());
  Shape strides(shape.size());
  int64_t step = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = step;
    step *= shape[order[i]];
  }
  return strides;
}

std::unique_ptr<CodeStep> make_dot_step(const Graph& graph, const Node& node, const CodeView& lhs,
                                        const CodeView& rhs, const CodeView& result, int threads) {
  if (lhs.type.dtype != DType::F32 || rhs.type.dtype != DType::F32 ||
      graph.result_type(node).dtype != DType::F32)
    return nullptr;
  const Side left = side_of(node, 0, lhs.type.shape.size());
  const Side right = side_of(node, 1, rhs.type.shape.size());
  const auto a = matrix_of(lhs.type, left.free, left.contract);
  const auto b = matrix_of(rhs.type, right.contract, right.free);
  const size_t first = left.batch.size(), second = first + left.free.size();
  const auto c =
      matrix_of(result.type, range(first, second), range(second, result.type.shape.size()));
  if (!a || !b || !c || a->cols.size == 0 || num_elements(result.type.shape) == 0) return nullptr;
  MatrixView x{lhs, *a, {}}, y{rhs, *b, {}}, z{result, *c, {}};
  const Dims batch = merge_batch(x, y, z, left, right);
  if (batch.size() > 8) return nullptr;
  omp_set_num_threads(threads);
  // oneDNN writes dense rows: (a b)^T = b^T a^T.
  auto step = z.matrix.cols.stride == 1 ? std::make_unique<DotStep>(x, y, z, batch)
                                        : std::make_unique<DotStep>(y.transposed(), x.transposed(),
                                                                    z.transposed(), batch);
  if (step->is_slow()) return nullptr;
  return step;
}

}  // namespace cleave
