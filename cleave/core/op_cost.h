#pragma once

#include <cstdint>

namespace cleave {

// What kind of kernel an op runs, since flops and bytes alone do not tell its time.
enum class KernelClass : uint8_t { Elementwise, Matmul, Reduction, Softmax, Norm, Transpose };
inline constexpr int kNumKernelClasses = 6;

// Work of an op on the shapes of its node: what a machine profile turns into seconds. An op without
// any (a reshape, a constant, a loop around its body) launches nothing and takes no time.
struct OpCost {
  // Matrix products: `count` of them, m x k by k x n. None if `count` is 0. A convolution is one of
  // pixels by features; `groups` and `channels` (the fewer of input and output) are its own.
  struct Products {
    double count = 0, m = 0, k = 0, n = 0;
    double groups = 1, channels = 0;
    bool is_exact = false;  // in f32, whatever the executor does by default
    bool operator==(const Products&) const = default;
  };

  double flops = 0;
  double bytes_read = 0;
  double bytes_written = 0;
  KernelClass kernel = KernelClass::Elementwise;
  Products products = {};  // of a matmul, and of a convolution as one

  bool is_nothing() const { return flops == 0 && bytes_read == 0 && bytes_written == 0; }
};

}  // namespace cleave
