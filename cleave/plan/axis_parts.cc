#include "cleave/plan/axis_parts.h"

#include <algorithm>
#include <map>

#include "cleave/plan/layouts.h"

namespace cleave::plan {
namespace {

constexpr size_t kMostParts = 4;

// The largest part of an axis of n that divides a dimension; 1: none.
int64_t part_for(int64_t dim, int64_t n) {
  for (int64_t part = n / 2; part > 1; --part)
    if (n % part == 0 && dim % part == 0) return part;
  return 1;
}

bool nests(const std::vector<int64_t>& cuts, int64_t cut) {
  return std::all_of(cuts.begin(), cuts.end(),
                     [&](int64_t other) { return other % cut == 0 || cut % other == 0; });
}

bool is_by_parts(const ShardingSpec& spec) {
  if (!spec.mesh) return false;
  auto is_part = [&](const AxisRef& ref) { return !is_whole(ref, *spec.mesh); };
  if (std::any_of(spec.partial.begin(), spec.partial.end(), is_part)) return true;
  return std::any_of(spec.dims.begin(), spec.dims.end(), [&](const DimSpec& dim) {
    return std::any_of(dim.axes.begin(), dim.axes.end(), is_part);
  });
}

}  // namespace

std::vector<AxisList> axis_parts(const Graph& flat, const Mesh& mesh) {
  std::map<std::pair<int, int64_t>, double> bytes;  // by axis and cut
  size_t count = 0;
  for (size_t a = 0; a < mesh.axes.size(); ++a) {
    const int64_t n = mesh.axes[a].size;
    count += n > 1;
    for (uint32_t v = 0; v < flat.num_values(); ++v) {
      const Type& type = flat.type({v});
      if (!type.is_tensor() || type.unranked || !type.has_static_shape()) continue;
      for (int64_t dim : type.shape)
        if (dim > 1 && !splits_well(dim, n))
          if (const int64_t cut = part_for(dim, n); cut > 1)
            bytes[{static_cast<int>(a), cut}] += static_cast<double>(type.byte_count());
    }
  }
  std::vector<std::pair<double, std::pair<int, int64_t>>> ranked;
  for (const auto& [cut, weight] : bytes) ranked.emplace_back(weight, cut);
  std::sort(ranked.rbegin(), ranked.rend());  // of equal ones, the last axis: its links are faster
  std::vector<std::vector<int64_t>> cuts(mesh.axes.size());
  size_t taken = 0;
  for (const auto& [weight, cut] : ranked) {
    if (count + taken >= kMostParts) break;
    if (!nests(cuts[cut.first], cut.second)) continue;
    cuts[cut.first].push_back(cut.second);
    ++taken;
  }
  if (taken == 0) return {};
  std::vector<AxisList> parts(mesh.axes.size());
  for (size_t a = 0; a < cuts.size(); ++a) {
    if (cuts[a].empty()) continue;
    std::sort(cuts[a].begin(), cuts[a].end());
    cuts[a].push_back(mesh.axes[a].size);
    int64_t pre = 1;
    for (int64_t cut : cuts[a]) {
      parts[a].push_back(
          {static_cast<int32_t>(a), static_cast<int32_t>(pre), static_cast<int32_t>(cut / pre)});
      pre = cut;
    }
  }
  return parts;
}

bool has_sub_axes(const Plan& plan) {
  auto any = [](const std::vector<ShardingSpec>& specs) {
    return std::any_of(specs.begin(), specs.end(), is_by_parts);
  };
  for (const PlannedValue& value : plan.values)
    if (is_by_parts(value.spec)) return true;
  for (const PlannedOp& op : plan.ops) {
    if (any(op.results)) return true;
    for (const PlannedOperand& operand : op.operands)
      if (is_by_parts(operand.spec)) return true;
  }
  return false;
}

}  // namespace cleave::plan
