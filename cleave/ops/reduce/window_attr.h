#pragma once

#include "cleave/graph/graph.h"
#include "cleave/kernels/window.h"

namespace cleave {

// The attribute `name` with `count` entries; if it is absent, each entry is `fallback`. Throws
// UserError if it has another number of entries, or, in the second form, one that is not positive.
std::vector<int64_t> window_entries(const Node& node, const char* name, size_t count,
                                    int64_t fallback);
std::vector<int64_t> positive_window_entries(const Node& node, const char* name, size_t count);

// The window of reduce_window and select_and_scatter: attributes window_dimensions, window_strides,
// base_dilations, window_dilations and padding, each by dimension, absent ones with their defaults.
// Throws UserError if one has another number of entries than `rank` or a value that is not
// positive.
Window window_of(const Node& node, size_t rank);

// Window size 1, stride 1 and no padding: elements correspond one to one.
bool is_trivial(const Window::Dim& dim);

}  // namespace cleave
