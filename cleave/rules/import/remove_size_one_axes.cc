#include <algorithm>

#include "cleave/graph/value_sharding.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {

void remove_size_one_axes(Graph& graph) {
  const bool any = std::any_of(graph.meshes.begin(), graph.meshes.end(), [](const MeshPtr& mesh) {
    return std::any_of(mesh->axes.begin(), mesh->axes.end(),
                       [](const MeshAxis& axis) { return axis.size == 1; });
  });
  if (!any) return;
  auto is_one = [](const AxisRef& axis) { return axis.size == 1; };
  transform_shardings(graph, [&](const ShardingSpec& spec) {
    ShardingSpec result = spec;
    for (DimSpec& dim : result.dims) {
      std::erase_if(dim.axes, is_one);
      if (dim.axes.empty() && !dim.open) dim.priority.reset();
    }
    std::erase_if(result.replicated, is_one);
    std::erase_if(result.partial, is_one);
    return result;
  });
}

}  // namespace cleave
