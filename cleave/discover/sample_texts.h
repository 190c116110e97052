#pragma once

#include <string_view>

namespace cleave {

// Calls of ops that are not elementwise, one function each. Dimensions differ, and do not divide
// evenly.
std::string_view basic_sample_texts();
// Calls of ops that need more than shapes: constants as operands, regions, complex numbers.
std::string_view structured_sample_texts();

}  // namespace cleave
