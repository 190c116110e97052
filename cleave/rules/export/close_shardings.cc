#include "cleave/graph/value_sharding.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void close_shardings(Graph& graph) {
  transform_shardings(graph, [](const ShardingSpec& spec) {
    ShardingSpec closed = spec;
    closed.replicated.clear();
    for (DimSpec& dim : closed.dims) {
      dim.open = false;
      if (dim.axes.empty()) dim.priority.reset();
    }
    return closed;
  });
}

}  // namespace cleave
