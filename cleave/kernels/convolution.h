#pragma once

#include <vector>

#include "cleave/kernels/array.h"
#include "cleave/kernels/window.h"

namespace cleave {

// Which dimension of the operands and of the result is what.
struct ConvDims {
  int64_t input_batch = 0, input_feature = 0;
  std::vector<int64_t> input_spatial;
  int64_t kernel_input_feature = 0, kernel_output_feature = 0;
  std::vector<int64_t> kernel_spatial;
  int64_t output_batch = 0, output_feature = 0;
  std::vector<int64_t> output_spatial;
};

struct ConvWindow {
  Window window;               // by spatial dimension; sizes are those of the kernel
  std::vector<bool> reversed;  // by spatial dimension: the kernel is mirrored
  int64_t feature_groups = 1;
  int64_t batch_groups = 1;
};

// Any convolution of StableHLO, for every dtype, on strided views. F32 and BF16 with one to three
// spatial dimensions run in oneDNN, all others as matrix multiplications over windows.
//   NHWC {1, 8, 8, 3} with HWIO {3, 3, 3, 16} -> {1, 6, 6, 16}
Array convolution(const Array& input, const Array& kernel, const ConvDims& dims,
                  const ConvWindow& window, DType result);

// The shape of the result.
Shape convolution_shape(const Shape& input, const Shape& kernel, const ConvDims& dims,
                        const ConvWindow& window);

// The dtype in which it is computed: operands are converted to it before, and the result after. In
// BF16 the result is written in its own dtype.
DType convolution_compute_type(DType input, DType kernel, DType result);

namespace conv_detail {

// Operands in one order of dimensions, whatever it was: input {n, g, c, spatial...}, kernel {g, o,
// c, spatial...}, result {n, g, o, spatial...}, with batch groups made into feature groups and
// mirrored kernels into negative strides. All are views.
struct Canonical {
  Array input, kernel, result;
  Window window;  // by spatial dimension
};
Canonical canonical(const Array& input, const Array& kernel, const Array& result,
                    const ConvDims& dims, const ConvWindow& window);

// Whether oneDNN takes it; if so, it has been computed.
bool run_onednn(const Canonical& conv);
// Windows as rows of a matrix.
void run_windows(const Canonical& conv);

}  // namespace conv_detail
}  // namespace cleave
