#pragma once

#include <memory>
#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

enum class FftKind : uint8_t { Forward, Inverse, RealForward, RealInverse };

// Discrete Fourier transforms over the last dimensions, one for each entry of `lengths`, of F32,
// F64, C64 and C128; computed in double. Inverses divide by the number of elements.
//   RealForward {8, 6}, lengths {6} -> complex {8, 4}
//   RealInverse {8, 4}, lengths {6} -> real {8, 6}
Array fft(const Array& input, FftKind kind, const std::vector<int64_t>& lengths);

// The same, prepared once: tables of roots are kept, and nothing is allocated. Input and result are
// packed and not empty; `work` has work_bytes().
class FourierTransform {
 public:
  FourierTransform(DType input, const Shape& shape, FftKind kind,
                   const std::vector<int64_t>& lengths);
  ~FourierTransform();
  const Shape& result_shape() const;
  DType result_dtype() const;
  size_t work_bytes() const;
  void run(const std::byte* input, std::byte* result, std::byte* work) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace cleave
