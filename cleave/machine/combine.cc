#include "cleave/machine/combine.h"

#include <algorithm>

namespace cleave {

double combine_limit(CollectiveKind kind, double result_bytes, int64_t ranks) {
  return kind == CollectiveKind::ReduceScatter ? result_bytes * static_cast<double>(ranks)
                                               : result_bytes;
}

std::vector<std::vector<size_t>> combine(std::span<const double> bytes, double limit) {
  std::vector<std::vector<size_t>> sets;
  std::vector<size_t> open;
  double sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (limit <= 0 || bytes[i] > limit) {
      sets.push_back({i});
      continue;
    }
    if (!open.empty() && sum + bytes[i] > limit) {
      sets.push_back(std::move(open));
      open.clear();
      sum = 0;
    }
    open.push_back(i);
    sum += bytes[i];
  }
  if (!open.empty()) sets.push_back(std::move(open));
  std::sort(sets.begin(), sets.end());
  return sets;
}

double combined_seconds(std::span<const double> bytes, double limit, const CollectiveCost& cost) {
  double seconds = 0;
  for (const std::vector<size_t>& set : combine(bytes, limit)) {
    double sum = 0;
    for (size_t i : set) sum += bytes[i];
    seconds += cost.seconds(sum);
  }
  return seconds;
}

CollectiveCost share_of_combined(const CollectiveCost& cost, double limit) {
  if (limit <= 0 || cost.lines().empty()) return cost;
  std::vector<CostLine> lines = cost.lines();
  lines.push_back({0, cost.seconds(limit) / limit});
  return CollectiveCost(std::move(lines));
}

}  // namespace cleave
