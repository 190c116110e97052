#pragma once

#include <memory>
#include <vector>

#include "cleave/compile/epilogue.h"
#include "cleave/compile/matrix_view.h"

// Steps that multiply matrices.
namespace cleave {

// What is done to the elements of a product before they are written.
struct DotEpilogue {
  EpilogueStep step;
  CodeView operand;  // packed; only if the step has one
};

class DotStep : public CodeStep {
 public:
  virtual size_t scratch_bytes(int threads) const = 0;
};

// A product by oneDNN, over strided views: float32, and bfloat16 if the processor has it. Null if
// oneDNN does not take the types or the layout, or takes them only by slow code. The product is cut
// into parts for several threads.
std::unique_ptr<DotStep> make_dot_step(const MatrixProduct& product,
                                       const std::vector<DotEpilogue>& epilogue, int threads);
bool has_dot_step(DType lhs, DType rhs, DType result);

// A product by the kernel (cleave/kernels/gemm.h): operands and result are of one dtype, and the
// result is packed.
std::unique_ptr<CodeStep> make_gemm_step(const MatrixProduct& product);

// Converts elements that lie without gaps to another dtype.
std::unique_ptr<CodeStep> make_convert_step(const CodeView& from, const CodeView& to);

}  // namespace cleave
