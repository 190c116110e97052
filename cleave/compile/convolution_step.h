#pragma once

#include <memory>
#include <vector>

#include "cleave/compile/dot_step.h"
#include "cleave/kernels/window.h"

namespace cleave {

// A convolution in the order of conv_detail::Canonical: input {n, g, c, spatial...}, kernel {g, o,
// c, spatial...}, result {n, g, o, spatial...}.
struct ConvolutionViews {
  CodeView input, kernel, result;
  Window window;  // by spatial dimension
};

// A convolution by oneDNN, together with its epilogue, whose operands have one element for each
// output feature. Examples are shared among threads; each part brings its
// input into the layout that oneDNN likes, in scratch memory, and its result back, while they are
// in the cache.
class ConvolutionStep : public CodeStep {
 public:
  virtual size_t scratch_bytes(int threads) const = 0;
  // Bytes of the kernel in another layout, which is made before by `kernel_step`; 0: as it is.
  virtual size_t kernel_bytes() const = 0;
  virtual std::unique_ptr<CodeStep> kernel_step(const CodeView& to) = 0;
};
// Null if oneDNN does not take it, or takes it only by slow code.
std::unique_ptr<ConvolutionStep> make_convolution_step(const ConvolutionViews& views,
                                                       const std::vector<DotEpilogue>& epilogue,
                                                       int threads);

}  // namespace cleave
