#include <omp.h>

#include <algorithm>
#include <array>
#include <optional>
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

// Batch dimensions of both sides and the result, merged where all three allow it.
struct Batch {
  Dims sizes, lhs, rhs, out;
};

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

class DotStep : public CodeStep {
 public:
  DotStep(CodeView lhs, CodeView rhs, CodeView out, int64_t m, int64_t n, int64_t k,
          const Matrix& a, const Matrix& b, const Batch& batch)
      : lhs_(std::move(lhs)), rhs_(std::move(rhs)), out_(std::move(out)) {
    auto describe = [](const Dims& sizes, const Dims& strides, Dims matrix, Dims steps) {
      Dims dims = sizes, all = strides;
      dims.insert(dims.end(), matrix.begin(), matrix.end());
      all.insert(all.end(), steps.begin(), steps.end());
      return memory::desc(dims, memory::data_type::f32, all);
    };
    const memory::desc a_desc =
        describe(batch.sizes, batch.lhs, {m, k}, {a.rows.stride, a.cols.stride});
    const memory::desc b_desc =
        describe(batch.sizes, batch.rhs, {k, n}, {b.rows.stride, b.cols.stride});
    const memory::desc c_desc = describe(batch.sizes, batch.out, {m, n}, {n, 1});
    const dnnl::matmul::primitive_desc desc({a_desc, b_desc, c_desc}, onednn_engine());
    primitive_ = dnnl::matmul(desc);
    a_ = memory(a_desc, onednn_engine(), nullptr);
    b_ = memory(b_desc, onednn_engine(), nullptr);
    c_ = memory(c_desc, onednn_engine(), nullptr);
    arguments_ = {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}};
  }

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
};

Batch merged_batch(const StridedType& lhs, const StridedType& rhs, const Side& left,
                   const Side& right, int64_t matrix_size) {
  Batch batch;
  int64_t out = matrix_size;
  std::vector<std::array<int64_t, 4>> dims;  // from the last
  for (size_t i = left.batch.size(); i-- > 0;) {
    const int64_t size = lhs.shape[left.batch[i]];
    const int64_t l = lhs.strides[left.batch[i]], r = rhs.strides[right.batch[i]];
    if (size != 1) {
      if (!dims.empty() && l == dims.back()[1] * dims.back()[0] &&
          r == dims.back()[2] * dims.back()[0])
        dims.back()[0] *= size;
      else
        dims.push_back({size, l, r, out});
    }
    out *= size;
  }
  for (auto it = dims.rbegin(); it != dims.rend(); ++it) {
    batch.sizes.push_back((*it)[0]);
    batch.lhs.push_back((*it)[1]);
    batch.rhs.push_back((*it)[2]);
    batch.out.push_back((*it)[3]);
  }
  return batch;
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
  if (!a || !b) return nullptr;
  const int64_t m = a->rows.size, k = a->cols.size, n = b->cols.size;
  if (m == 0 || n == 0 || k == 0 || num_elements(result.type.shape) == 0) return nullptr;
  const Batch batch = merged_batch(lhs.type, rhs.type, left, right, m * n);
  if (batch.sizes.size() > 8) return nullptr;
  omp_set_num_threads(threads);
  return std::make_unique<DotStep>(lhs, rhs, result, m, n, k, *a, *b, batch);
}

}  // namespace cleave
