#include <algorithm>

#include "cleave/graph/value_sharding.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void remove_sub_axes_of_inputs_and_outputs(Graph& graph) {
  const int main = main_function(graph);
  if (main < 0) return;
  auto update = [](AttrDict& attrs) {
    const ShardingSpec* old = sharding_in(attrs);
    if (!old) return;
    ShardingSpec spec = *old;
    for (DimSpec& dim : spec.dims) {
      if (!dim.open) continue;
      auto part = std::find_if(dim.axes.begin(), dim.axes.end(),
                               [&](const AxisRef& axis) { return !is_whole(axis, *spec.mesh); });
      dim.axes.erase(part, dim.axes.end());
    }
    attrs.set(kShardingAttr, ShardingAttr{std::move(spec)});
  };
  for (AttrDict& attrs : graph.functions[main].arg_attrs) update(attrs);
  for (AttrDict& attrs : graph.functions[main].result_attrs) update(attrs);
}

}  // namespace cleave
