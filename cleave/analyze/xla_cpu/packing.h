#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace cleave::analyze::hlo {

// Memory of one size that is in use at some times, both ends included.
struct Block {
  int64_t bytes = 0;
  std::vector<std::pair<int, int>> times = {};
};

// What blocks take together if those that are in use at the same time lie apart: the better of two
// orders, the largest first and the longest first, each into the smallest gap that it fits.
int64_t packed_bytes(const std::vector<Block>& blocks);

}  // namespace cleave::analyze::hlo
