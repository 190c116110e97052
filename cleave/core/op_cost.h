#pragma once

#include <cstdint>

namespace cleave {

// What kind of kernel an op runs, since flops and bytes alone do not tell its time.
enum class KernelClass : uint8_t { Elementwise, Matmul, Reduction, Softmax, Norm, Transpose };
inline constexpr int kNumKernelClasses = 6;

// Work of an op on the shapes of its node: what a machine profile turns into seconds. An op without
// any (a reshape, a constant, a loop around its body) launches nothing and takes no time.
struct OpCost {
  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  KernelClass kernel = KernelClass::Elementwise;

  bool is_nothing() const { return flops == 0 && bytes_read == 0 && bytes_written == 0; }
};

}  // namespace cleave
