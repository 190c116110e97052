#pragma once

#include <optional>

#include "cleave/kernels/reduce.h"
#include "cleave/kernels/window.h"

namespace cleave {

// Folds every window, `init` first; padding and holes count as `init`.
//   max pooling: {1, 8, 8, 3}, window {1, 2, 2, 1}, stride {1, 2, 2, 1} -> {1, 4, 4, 3}
Array reduce_window(const Array& input, const Window& window, Reducer reducer, const Array& init);

// How reduce_window folds: in the order of `stages`, each of which pads with the operator's
// identity and folds its windows from there; `init` is folded in at the end. Unless the operator's
// identity is `init` itself, the input is padded with `init` before (`before`). A single stage of a
// few elements pads with `init` and begins with it.
struct WindowFold {
  bool is_single = false;
  std::optional<Window> before;
  std::vector<Window> stages;
};
WindowFold plan_window_fold(const Shape& input, const Window& window, bool init_is_identity);
// What that allocates beside its result: padded inputs, and results of stages.
int64_t reduce_window_workspace(const Shape& input, DType dtype, const Window& window,
                                bool init_is_identity);
// The dimensions of window_view() that are inside the window.
std::vector<int64_t> window_dims(size_t rank);

// Sum, Prod, Max and Min: result[positions[i]] becomes result[positions[i]] op updates[i], in
// order; `result` begins as `init` everywhere. Positions count elements in row-major order;
// negative ones are left out.
Array scatter_windows(const Shape& shape, const std::vector<int64_t>& positions,
                      const Array& updates, Reducer reducer, const Array& init);

}  // namespace cleave
