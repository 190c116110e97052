#pragma once

#include <cstdint>

namespace cleave {

// How often this program has asked for memory so far.
int64_t allocation_count();

}  // namespace cleave
