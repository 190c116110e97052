#include <algorithm>

#include "cleave/core/error.h"
#include "cleave/spmd/partitioner.h"

namespace cleave {
namespace {

AxisList dim_axes(const ShardingSpec& spec) {
  AxisList axes;
  for (const DimSpec& dim : spec.dims) axes.insert(axes.end(), dim.axes.begin(), dim.axes.end());
  return axes;
}

std::string kind_of(const ShardingSpec& from, const ShardingSpec& to) {
  if (from.is_partial() && !to.is_partial())
    return intersection(dim_axes(to), from.partial).empty() ? "all_reduce" : "reduce_scatter";
  if (to.is_partial() && !from.is_partial()) return "replicated_to_unreduced";
  const AxisList before = dim_axes(from), after = dim_axes(to);
  if (without(after, before).empty() && !without(before, after).empty()) return "all_gather";
  if (without(before, after).empty() && !without(after, before).empty()) return "all_slice";
  return "all_to_all";
}

}  // namespace

ValueId Partitioner::reshard(ValueId value, const ShardingSpec& spec, RegionId target) {
  const ShardingSpec from = spec_of(value);
  const Type type = program_.graph.type(value);
  AxisList axes = dim_axes(from);
  for (const AxisRef& ref : dim_axes(spec)) axes.push_back(ref);
  AttrDict attrs;
  attrs.set("sharding", ShardingAttr{spec});
  attrs.set("cleave.step", string_attr(kind_of(from, spec)));
  attrs.set("cleave.axes",
            string_attr(to_string(from.is_partial() ? from.partial : axes, *spec.mesh)));
  attrs.set("cleave.for", string_attr(asking_));
  const NodeId id = add("sdy.reshard", {value}, {type}, std::move(attrs), {spec}, target);
  return program_.graph.node(id).results[0];
}

}  // namespace cleave
