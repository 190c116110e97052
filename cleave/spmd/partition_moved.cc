#include <algorithm>

#include "cleave/graph/op_def.h"
#include "cleave/spmd/partitioner.h"
#include "cleave/spmd/planned_marks.h"

// An op that cannot run along a dimension which is cut may run along another one: a sort of columns
// that are cut runs on whole columns, fewer of them, after an all_to_all.
namespace cleave {
namespace {

bool uses_any(const ShardingSpec& spec, const AxisList& axes) {
  auto meets = [&](const AxisRef& ref) { return overlaps_any(ref, axes); };
  return std::any_of(spec.partial.begin(), spec.partial.end(), meets) ||
         std::any_of(spec.dims.begin(), spec.dims.end(), [&](const DimSpec& dim) {
           return std::any_of(dim.axes.begin(), dim.axes.end(), meets);
         });
}

}  // namespace

double Partitioner::seconds_to(const Node& node, const OpPartition& how) {
  double seconds = 0;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ShardingSpec& from = spec_of(current(node.operands[i]));
    if (!from.mesh || !how.operands[i].mesh) continue;
    const Type& type = source_.operand_type(node, i);
    seconds += resharder_.seconds(from, how.operands[i], type.shape, type.dtype);
  }
  return seconds;
}

std::optional<OpPartition> Partitioner::moved_to_another_dim(
    const Node& node, const OpRule& rule, const OpPartition& how,
    const std::vector<ShardingSpec>& have) {
  if (how.halo || node.attrs.has(kPlannedAttr)) return std::nullopt;
  // Later ops may want it back where it was, so it has to pay twice.
  constexpr double kThereAndBack = 2;
  double best = seconds_to(node, how) / kThereAndBack;
  std::optional<OpPartition> found;
  for (size_t i = 0; i < have.size(); ++i) {
    if (!have[i].mesh || !how.operands[i].mesh) continue;
    const Shape& shape = source_.operand_type(node, i).shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      const AxisList& axes = have[i].dims[d].axes;
      auto uses = [&](const ShardingSpec& spec) { return uses_any(spec, axes); };
      if (axes.empty() || std::any_of(how.operands.begin(), how.operands.end(), uses) ||
          std::any_of(how.results.begin(), how.results.end(), uses))
        continue;
      for (size_t e = 0; e < shape.size(); ++e) {
        if (e == d || !have[i].dims[e].axes.empty() || shape[e] % total_size(axes) != 0) continue;
        std::vector<ShardingSpec> moved = how.operands;
        moved[i].dims[e].axes = axes;
        const OpPartition other =
            partition_op(source_, node, rule, program_.mesh, moved, Wanted(node.results.size()));
        if (other.halo || other.operands[i].dims[e].axes != axes ||
            std::any_of(other.results.begin(), other.results.end(),
                        [](const ShardingSpec& spec) { return spec.is_partial(); }))
          continue;
        const double seconds = seconds_to(node, other);
        if (seconds >= best) continue;
        best = seconds;
        found = other;
      }
    }
  }
  return found;
}

}  // namespace cleave
