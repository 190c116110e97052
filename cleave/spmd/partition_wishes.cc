#include <algorithm>

#include "cleave/spmd/partitioner.h"

// What a layout says beyond where elements lie: axes that are to stay replicated, and priorities.
// Programs do not need it. It decides how ops without a layout of their own follow from their
// operands, and Tensors keep it from one op to the next.
namespace cleave {
namespace {

bool says_more(const ShardingSpec& spec) {
  return spec.mesh && (!spec.replicated.empty() ||
                       std::any_of(spec.dims.begin(), spec.dims.end(),
                                   [](const DimSpec& dim) { return dim.priority.has_value(); }));
}

bool is_used(const AxisRef& axis, const ShardingSpec& spec) {
  return overlaps_any(axis, spec.partial) ||
         std::any_of(spec.dims.begin(), spec.dims.end(),
                     [&](const DimSpec& dim) { return overlaps_any(axis, dim.axes); });
}

}  // namespace

void Partitioner::wish(ValueId source, const ShardingSpec& spec) {
  if (says_more(spec))
    wishes_[source] = spec;
  else
    wishes_.erase(source);  // of the function in another layout
}

ShardingSpec Partitioner::with_wishes(ValueId source, ShardingSpec spec) const {
  const auto it = wishes_.find(source);
  if (it == wishes_.end() || !spec.mesh || spec.dims.size() != it->second.dims.size()) return spec;
  for (size_t d = 0; d < spec.dims.size(); ++d)
    if (!spec.dims[d].axes.empty()) spec.dims[d].priority = it->second.dims[d].priority;
  for (const AxisRef& axis : it->second.replicated)
    if (!is_used(axis, spec)) spec.replicated.push_back(axis);
  return spec;
}

}  // namespace cleave
