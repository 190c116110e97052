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

// A part of the product: one call of oneDNN, which uses one thread.
struct DotPart {
  dnnl::matmul primitive;
  memory a, b, c;
  std::unordered_map<int, memory> arguments;
  int64_t a_offset = 0, b_offset = 0, c_offset = 0;  // bytes
  bool is_slow = false;                              // only the library's reference code takes it

  DotPart(const MatrixView& lhs, const MatrixView& rhs, const MatrixView& out, const Dims& batch) {
    auto describe = [&](const MatrixView& view) {
      const Matrix& m = view.matrix;
      Dims dims = batch, strides = view.batch;
      dims.insert(dims.end(), {m.rows.size, m.cols.size});
      strides.insert(strides.end(), {m.rows.stride, m.cols.stride});
      return memory::desc(dims, memory::data_type::f32, strides);
    };
    const memory::desc x = describe(lhs), y = describe(rhs), z = describe(out);
    const dnnl::matmul::primitive_desc desc({x, y, z}, onednn_engine());
    is_slow = std::string_view(desc.impl_info_str()).find("ref") != std::string_view::npos;
    primitive = dnnl::matmul(desc);
    a = memory(x, onednn_engine(), nullptr);
    b = memory(y, onednn_engine(), nullptr);
    c = memory(z, onednn_engine(), nullptr);
    arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}};
  }
};

class DotStep : public CodeStep {
 public:
  DotStep(MatrixView lhs, MatrixView rhs, MatrixView out, Dims batch, int threads)
      : lhs_(lhs.view), rhs_(rhs.view), out_(out.view) {
    constexpr double kWorthSharing = 2e6;  // operations: some tens of microseconds
    double work = 2.0 * static_cast<double>(lhs.matrix.rows.size * lhs.matrix.cols.size) *
                  static_cast<double>(rhs.matrix.cols.size);
    for (int64_t size : batch) work *= static_cast<double>(size);
    const int64_t wanted = threads > 1 && work >= kWorthSharing ? 3 * threads : 1;
    const int64_t m = lhs.matrix.rows.size, n = rhs.matrix.cols.size;
    if (wanted > 1 && !batch.empty() && batch[0] >= wanted)
      split(batch[0], wanted, 1, [&](int64_t start, int64_t size) {
        Dims sizes = batch;
        sizes[0] = size;
        add(lhs, rhs, out, sizes, start * lhs.batch[0], start * rhs.batch[0], start * out.batch[0]);
      });
    else if (m >= n)
      split(m, wanted, 32, [&](int64_t start, int64_t size) {
        MatrixView a = lhs, c = out;
        a.matrix.rows.size = c.matrix.rows.size = size;
        add(a, rhs, c, batch, start * a.matrix.rows.stride, 0, start * c.matrix.rows.stride);
      });
    else
      split(n, wanted, 64, [&](int64_t start, int64_t size) {
        MatrixView b = rhs, c = out;
        b.matrix.cols.size = c.matrix.cols.size = size;
        add(lhs, b, c, batch, 0, start * b.matrix.cols.stride, start * c.matrix.cols.stride);
      });
  }

  bool is_slow() const { return parts_[0].is_slow; }

  Next run(Frame& frame) const override {
    const auto run_part = [&](int64_t index, int) {
      DotPart& part = parts_[static_cast<size_t>(index)];
      part.a.set_data_handle(frame.data(lhs_) + part.a_offset);
      part.b.set_data_handle(frame.data(rhs_) + part.b_offset);
      part.c.set_data_handle(frame.data(out_) + part.c_offset);
      part.primitive.execute(onednn_stream(), part.arguments);
    };
    if (frame.team && parts_.size() > 1) {
      frame.team->run(static_cast<int64_t>(parts_.size()), run_part);
    } else {
      for (size_t i = 0; i < parts_.size(); ++i) run_part(static_cast<int64_t>(i), 0);
    }
    return Next::Continue;
  }

 private:
  // Calls visit(start, size) for about `parts` parts, multiples of `unit`.
  template <typename Visit>
  static void split(int64_t size, int64_t parts, int64_t unit, Visit visit) {
    const int64_t step = ceil_div(ceil_div(size, parts), unit) * unit;
    for (int64_t start = 0; start < size; start += step) visit(start, std::min(step, size - start));
  }
  void add(const MatrixView& lhs, const MatrixView& rhs, const MatrixView& out, const Dims& batch,
           int64_t a, int64_t b, int64_t c) {
    DotPart part(lhs, rhs, out, batch);
    part.a_offset = a * static_cast<int64_t>(sizeof(float));
    part.b_offset = b * static_cast<int64_t>(sizeof(float));
    part.c_offset = c * static_cast<int64_t>(sizeof(float));
    parts_.push_back(std::move(part));
  }

  CodeView lhs_, rhs_, out_;
  mutable std::vector<DotPart> parts_;
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
  // oneDNN writes dense rows: (a b)^T = b^T a^T.
  auto step = z.matrix.cols.stride == 1 ? std::make_unique<DotStep>(x, y, z, batch, threads)
                                        : std::make_unique<DotStep>(y.transposed(), x.transposed(),
                                                                    z.transposed(), batch, threads);
  if (step->is_slow()) return nullptr;
  return step;
}

}  // namespace cleave
