#pragma once

#include <optional>

#include "cleave/compile/device_code.h"

// Operands of a dot_general, strided as they lie, as batches of matrices.
namespace cleave {

using Dims = std::vector<int64_t>;

// The dimensions of one side: batch, rows (or columns) that stay, and those that are summed over.
struct DotSide {
  Dims batch, free, contract;
};
DotSide dot_side(const Node& dot, size_t operand, size_t rank);

struct MergedDim {
  int64_t size = 1, stride = 1;
};

// Rows and columns, one of which is dense.
struct Matrix {
  MergedDim rows, cols;
};

// One side of a product, or the product: its view, its matrices, the strides of its batches.
struct MatrixView {
  CodeView view;
  Matrix matrix;
  Dims batch;

  // The same elements with rows and columns exchanged.
  MatrixView transposed() const { return {view, {matrix.cols, matrix.rows}, batch}; }
};

// A product as batches of matrix products. Batch dimensions are merged if all three views allow it.
struct MatrixProduct {
  MatrixView lhs, rhs, out;
  Dims batch;  // sizes
};
// Nothing if a view is no matrix, or nothing is computed.
std::optional<MatrixProduct> matrix_product(const DotSide& left, const DotSide& right,
                                            const CodeView& lhs, const CodeView& rhs,
                                            const CodeView& out);
std::optional<MatrixProduct> matrix_product(const Node& dot, const CodeView& lhs,
                                            const CodeView& rhs, const CodeView& out);

// Whether a library reads the operand without rearranging it first.
bool is_matrix_like(const DotSide& side, size_t operand, const StridedType& type);
bool is_matrix_like(const Node& dot, size_t operand, const StridedType& type);
// Strides of a packed copy that it does read: batch, rows, columns.
Shape matrix_strides(const DotSide& side, size_t operand, const Shape& shape);
Shape matrix_strides(const Node& dot, size_t operand, const Shape& shape);

}  // namespace cleave
