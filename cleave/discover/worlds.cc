#include "cleave/discover/worlds.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "cleave/core/shard_layout.h"

namespace cleave {
namespace {

bool leaves_one(int64_t size, const std::vector<int>& worlds) {
  for (int w : worlds)
    for (int i = 0; i < w; ++i)
      if (chunk_of(size, w, i).size == 1) return true;
  return false;
}

// What all even shards of a size are multiples of: if it is more than 1, "size(d) % w == 0" and
// "size(d) % (2 * w) == 0" are the same to all tests.
int64_t common_divisor(int64_t size, const std::vector<int>& worlds) {
  int64_t divisor = 0;
  for (int w : worlds)
    if (size % w == 0) divisor = std::gcd(divisor, size / w);
  return divisor;
}

// A number of devices that leaves shards of one, or for a large size some that have nothing in
// common with the others; 0 if there is none.
int world_of_small_shards(int64_t size, const std::vector<int>& worlds) {
  constexpr int kMostDevices = 16;
  const int64_t divisor = common_divisor(size, worlds);
  if (divisor <= 1 && leaves_one(size, worlds)) return 0;
  if (size <= kMostDevices) return static_cast<int>(size);
  for (int w = 2; w <= kMostDevices && divisor > 1; ++w)
    if (size % w == 0 && std::gcd(divisor, size / w) == 1) return w;
  return 0;
}

}  // namespace

std::vector<int> worlds_of(const Operator& op, const Sample& sample,
                           const DiscoverOptions& options) {
  constexpr size_t kMostMore = 2;
  std::vector<int> worlds = options.worlds;
  if (!options.uneven_worlds || !op.shape_attr.empty()) return worlds;
  std::set<int64_t> sizes;
  for (const TensorDesc& desc : sample.operands)
    for (int64_t size : desc.shape) {
      if (size < 2) continue;
      sizes.insert(size);
      auto divides = [&](int w) { return size % w == 0; };
      if (worlds.size() >= options.worlds.size() + kMostMore ||
          !std::all_of(worlds.begin(), worlds.end(), divides))
        continue;
      int w = 2;
      while (divides(w)) ++w;
      worlds.push_back(w);
    }
  const size_t before = worlds.size();
  for (int64_t size : sizes)
    if (const int w = world_of_small_shards(size, worlds);
        w > 1 && worlds.size() < before + kMostMore)
      worlds.push_back(w);
  return worlds;
}

}  // namespace cleave
