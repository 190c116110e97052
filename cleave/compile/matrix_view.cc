#include "cleave/compile/matrix_view.h"

#include <algorithm>
#include <array>

#include "cleave/core/error.h"
#include "cleave/ops/dot/dot_dims.h"

namespace cleave {
namespace {

bool contains(const Dims& dims, int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// Dimensions seen as one, where they lie behind each other.
std::optional<MergedDim> merge(const StridedType& type, const Dims& dims) {
  MergedDim merged;
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

// Batch dimensions of both sides and the result, merged where all three allow it.
Dims merge_batch(MatrixView& lhs, MatrixView& rhs, MatrixView& out, const DotSide& left,
                 const DotSide& right) {
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

DotSide dot_side(const Node& node, size_t operand, size_t rank) {
  DotDims dims = dot_dims(node);
  DotSide side;
  side.batch = std::move(operand == 0 ? dims.lhs_batch : dims.rhs_batch);
  side.contract = std::move(operand == 0 ? dims.lhs_contract : dims.rhs_contract);
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (!contains(side.batch, d) && !contains(side.contract, d)) side.free.push_back(d);
  return side;
}

bool is_matrix_like(const Node& dot, size_t operand, const StridedType& type) {
  return is_matrix_like(dot_side(dot, operand, type.shape.size()), operand, type);
}

bool is_matrix_like(const DotSide& side, size_t operand, const StridedType& type) {
  for (int64_t d : side.batch)
    if (type.shape[d] > 1 && type.strides[d] == 0) return false;
  return operand == 0 ? matrix_of(type, side.free, side.contract).has_value()
                      : matrix_of(type, side.contract, side.free).has_value();
}

Shape matrix_strides(const Node& dot, size_t operand, const Shape& shape) {
  return matrix_strides(dot_side(dot, operand, shape.size()), operand, shape);
}

Shape matrix_strides(const DotSide& side, size_t operand, const Shape& shape) {
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

std::optional<MatrixProduct> matrix_product(const Node& dot, const CodeView& lhs,
                                            const CodeView& rhs, const CodeView& out) {
  return matrix_product(dot_side(dot, 0, lhs.type.shape.size()),
                        dot_side(dot, 1, rhs.type.shape.size()), lhs, rhs, out);
}

std::optional<MatrixProduct> matrix_product(const DotSide& left, const DotSide& right,
                                            const CodeView& lhs, const CodeView& rhs,
                                            const CodeView& out) {
  const auto a = matrix_of(lhs.type, left.free, left.contract);
  const auto b = matrix_of(rhs.type, right.contract, right.free);
  const size_t first = left.batch.size(), second = first + left.free.size();
  const auto c = matrix_of(out.type, range(first, second), range(second, out.type.shape.size()));
  if (!a || !b || !c || a->cols.size == 0 || num_elements(out.type.shape) == 0) return std::nullopt;
  MatrixProduct product{{lhs, *a, {}}, {rhs, *b, {}}, {out, *c, {}}, {}};
  product.batch = merge_batch(product.lhs, product.rhs, product.out, left, right);
  if (product.batch.size() > 8) return std::nullopt;
  return product;
}

}  // namespace cleave
