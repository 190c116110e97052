#pragma once

#include "cleave/kernels/reduce.h"
#include "cleave/kernels/window.h"

namespace cleave {

// Folds every window, `init` first; padding and holes count as `init`.
//   max pooling: {1, 8, 8, 3}, window {1, 2, 2, 1}, stride {1, 2, 2, 1} -> {1, 4, 4, 3}
Array reduce_window(const Array& input, const Window& window, Reducer reducer, const Array& init);

// Sum, Prod, Max and Min: result[positions[i]] becomes result[positions[i]] op updates[i], in
// order, where `result` begins as `init` everywhere. Positions count elements in row-major order;
// negative ones are left out.
Array scatter_windows(const Shape& shape, const std::vector<int64_t>& positions,
                      const Array& updates, Reducer reducer, const Array& init);

}  // namespace cleave
