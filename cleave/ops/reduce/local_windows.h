#pragma once

#include <vector>

#include "cleave/graph/attribute.h"
#include "cleave/kernels/window.h"

namespace cleave {

// What windows [begin, begin + count) along one dimension see: which elements, and how much padding
// beside them. Of an input of 10 with windows of 3, stride 1, padding 1 and 1:
//   windows [0, 5)  see elements [0, 6) after 1 of padding
//   windows [5, 10) see elements [4, 10) before 1 of padding
struct WindowPart {
  int64_t offset = 0, size = 0;
  int64_t low = 0, high = 0;
};
WindowPart window_part(const Window::Dim& window, int64_t size, int64_t begin, int64_t count);

// dense<[[low, high], ...]> : tensor<nx2xi64>
Attribute padding_attr(const std::vector<int64_t>& pairs);

}  // namespace cleave
