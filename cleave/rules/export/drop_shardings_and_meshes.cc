#include "cleave/graph/value_sharding.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {

void drop_shardings_and_meshes(Graph& graph) {
  for (Function& function : graph.functions) {
    for (AttrDict& attrs : function.arg_attrs) attrs.erase(kShardingAttr);
    for (AttrDict& attrs : function.result_attrs) attrs.erase(kShardingAttr);
  }
  graph.walk([&](NodeId id) { graph.node(id).attrs.erase(kShardingAttr); });
  graph.meshes.clear();
}

}  // namespace cleave
