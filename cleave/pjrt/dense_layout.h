#pragma once

#include <vector>

#include "cleave/pjrt/c_interface.h"

namespace cleave::pjrt {

// Row-major elements, as a plugin is told of them. Layouts are always given: without one, a plugin
// may choose another, and some end the process over it.
class DenseLayout {
 public:
  explicit DenseLayout(size_t rank) : order_(rank) {
    for (size_t i = 0; i < rank; ++i) order_[i] = static_cast<int64_t>(rank - 1 - i);
    layout_.tiled.minor_to_major = order_.data();
    layout_.tiled.minor_to_major_size = rank;
  }
  DenseLayout(const DenseLayout&) = delete;
  DenseLayout& operator=(const DenseLayout&) = delete;
  c::MemoryLayout* get() { return &layout_; }

 private:
  std::vector<int64_t> order_;
  c::MemoryLayout layout_;
};

}  // namespace cleave::pjrt
