#pragma once

#include <cstddef>

namespace cleave {

// Buffers begin at cache lines: 65 -> 128.
inline constexpr size_t kAlignment = 64;
inline size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace cleave
