#pragma once

#include <cstdint>

#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_random.h"

namespace cleave::models {

// Makes the weights of a model: the n-th tensor depends on the seed and on n alone. Nothing is
// computed until a value is read, so that a model of any size can be made, traced and planned.
class Init {
 public:
  explicit Init(uint64_t seed = 0, DType dtype = DType::F32) : next_(seed << 20), dtype_(dtype) {}

  Tensor normal(const Shape& shape, double scale) {
    return cast(cleave::normal(random_key(next_++), shape) * scale, dtype_);
  }
  // Scaled by the root of the number of inputs.
  Tensor linear(int64_t in, int64_t out);
  Tensor ones(const Shape& shape) { return cleave::ones(shape, dtype_); }
  Tensor zeros(const Shape& shape) { return cleave::zeros(shape, dtype_); }
  // A kernel [height, width, in, out].
  Tensor kernel(int64_t size, int64_t in, int64_t out);
  // Integers in [0, limit): tokens, labels.
  Tensor integers(const Shape& shape, int64_t limit) {
    return randint(random_key(next_++), shape, 0, limit);
  }

 private:
  uint64_t next_;
  DType dtype_;
};

}  // namespace cleave::models
