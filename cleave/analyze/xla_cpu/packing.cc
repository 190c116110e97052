#include "cleave/analyze/xla_cpu/packing.h"

#include <algorithm>
#include <numeric>

namespace cleave::analyze::hlo {
namespace {

constexpr int64_t kAlignment = 64;  // bytes

int64_t aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool meet(const Block& a, const Block& b) {
  for (const auto& [from, to] : a.times)
    for (const auto& [other_from, other_to] : b.times)
      if (from <= other_to && other_from <= to) return true;
  return false;
}

int length(const Block& block) { return block.times.back().second - block.times.front().first; }

int64_t packed_in_order(const std::vector<Block>& blocks, const std::vector<size_t>& order) {
  std::vector<std::pair<int64_t, size_t>> placed;  // offset, block
  int64_t total = 0;
  for (size_t i : order) {
    const int64_t bytes = aligned(blocks[i].bytes);
    int64_t best = -1, best_gap = INT64_MAX, top = 0;
    for (const auto& [offset, other] : placed) {
      if (offset + aligned(blocks[other].bytes) <= top && offset <= top) continue;
      if (!meet(blocks[i], blocks[other])) continue;
      const int64_t gap = offset - top;
      if (gap >= bytes && gap < best_gap) {
        best = top;
        best_gap = gap;
      }
      top = std::max(top, offset + aligned(blocks[other].bytes));
    }
    const int64_t at = best >= 0 ? best : top;
    const auto place = std::lower_bound(placed.begin(), placed.end(), std::pair(at, i));
    placed.insert(place, {at, i});
    total = std::max(total, at + blocks[i].bytes);
  }
  return total;
}

}  // namespace

int64_t packed_bytes(const std::vector<Block>& blocks) {
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<size_t> by_length = order;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (blocks[a].bytes != blocks[b].bytes) return blocks[a].bytes > blocks[b].bytes;
    return length(blocks[a]) > length(blocks[b]);
  });
  std::stable_sort(by_length.begin(), by_length.end(), [&](size_t a, size_t b) {
    if (length(blocks[a]) != length(blocks[b])) return length(blocks[a]) > length(blocks[b]);
    return blocks[a].bytes > blocks[b].bytes;
  });
  return std::min(packed_in_order(blocks, order), packed_in_order(blocks, by_length));
}

}  // namespace cleave::analyze::hlo
