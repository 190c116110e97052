#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/shape.h"

namespace cleave {

// A copy between two strided layouts of one shape, prepared once: dimensions that lie behind each
// other are merged, and a transposition goes tile by tile.
class StridedCopy {
 public:
  StridedCopy() = default;
  // Strides in elements of `element_size` bytes.
  StridedCopy(const Shape& shape, const Shape& from_strides, const Shape& to_strides,
              int element_size);

  void run(const std::byte* from, std::byte* to) const;
  bool is_plain() const { return dims_.size() <= 1; }  // one run of bytes, or nothing

 private:
  struct Dim {
    int64_t size, from, to;
  };
  template <typename T>
  void run_as(const T* from, T* to) const;

  std::vector<Dim> dims_;  // the last two are walked innermost
  int64_t element_size_ = 1;
  int64_t count_ = 0;
};

}  // namespace cleave
