#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

using Shape = std::vector<int64_t>;

// The size of a dimension that is known only at run time; prints as `?`.
inline constexpr int64_t kDynamicSize = INT64_MIN;

int64_t num_elements(const Shape& shape);     // {2, 3} -> 6, {} -> 1, {4, 0} -> 0
Shape row_major_strides(const Shape& shape);  // in elements: {2, 3, 4} -> {12, 4, 1}
std::string to_string(const Shape& shape);    // {2, 3} -> "2x3", {} -> "", dynamic -> "?"

// ceil(a / b) for a >= 0, b > 0.
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace cleave
