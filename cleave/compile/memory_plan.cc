#include "cleave/compile/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "cleave/core/aligned.h"

namespace cleave {

MemoryPlan plan_memory(const std::vector<MemoryRequest>& requests) {
  MemoryPlan plan;
  plan.offsets.assign(requests.size(), 0);
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].bytes > requests[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const MemoryRequest& request = requests[i];
    size_t offset = 0;
    for (size_t other : placed) {
      if (requests[other].end < request.begin || request.end < requests[other].begin) continue;
      if (offset + aligned(request.bytes) <= plan.offsets[other]) break;
      offset = std::max(offset, plan.offsets[other] + aligned(requests[other].bytes));
    }
    plan.offsets[i] = offset;
    plan.bytes = std::max(plan.bytes, offset + aligned(request.bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [&](size_t at, size_t other) { return at < plan.offsets[other]; }),
        i);
  }
  std::map<int64_t, int64_t> change;
  for (const MemoryRequest& request : requests) {
    change[request.begin] += static_cast<int64_t>(aligned(request.bytes));
    change[request.end + 1] -= static_cast<int64_t>(aligned(request.bytes));
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, live += bytes);
  plan.lower_bound = static_cast<size_t>(most);
  return plan;
}

}  // namespace cleave
