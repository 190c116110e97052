#pragma once

#include <vector>

#include "cleave/kernels/array.h"

namespace cleave {

// A sliding window, by dimension of the input. In coordinates of the dilated and padded input,
// element w of the window of output o lies at o * stride + w * dilation.
struct Window {
  struct Dim {
    int64_t size = 1;
    int64_t stride = 1;
    int64_t base_dilation = 1;  // 1 + holes between neighbours of the input
    int64_t dilation = 1;       // 1 + holes between neighbours of the window
    int64_t low = 0, high = 0;  // padding at the ends; negative crops
    bool operator==(const Dim&) const = default;
  };
  std::vector<Dim> dims;
};

// How many windows fit along a dimension of `size` elements.
//   10 elements, window 3, stride 2 -> 4
int64_t num_windows(int64_t size, const Window::Dim& window);

// What padding does: elements [start, start + size) of the input go to `target` and every `step`-th
// place from there in a result of `shape`; everything else is filled.
struct Padding {
  Shape shape, start, size, target, step;
  bool only_crops = true;  // nothing is filled
};
Padding plan_padding(const Shape& input, const Window& window);

// The input with padding and holes filled by `fill` (a scalar of its dtype); a view if it only
// crops.
Array pad_and_dilate(const Array& input, const Window& window, const Array& fill);

// All windows of a padded input, as a view without copies: dimensions are the outputs, then the
// elements of the window.
//   {10}, window 3, stride 2 -> {4, 3}
Array window_view(const Array& padded, const Window& window);

}  // namespace cleave
