#include "cleave/spmd/annotated_mesh.h"

#include "cleave/core/error.h"
#include "cleave/graph/rewrite.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/rules/export/export_passes.h"

namespace cleave {
namespace {

// Calls `visit` with the mesh of every sharding of the module.
template <typename Visit>
void visit_meshes(const Graph& graph, Visit visit) {
  const auto visit_spec = [&](const ShardingSpec& spec) {
    if (spec.mesh && !spec.mesh->axes.empty()) visit(*spec.mesh);
  };
  for (const Function& function : graph.functions)
    for (const auto* list : {&function.arg_attrs, &function.result_attrs})
      for (const AttrDict& attrs : *list)
        if (const ShardingSpec* spec = sharding_in(attrs)) visit_spec(*spec);
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    const std::string_view own = own_sharding_attr(node);
    for (const std::string_view attr :
         {own.empty() ? std::string_view(kShardingAttr) : own, std::string_view("in_shardings"),
          std::string_view("out_shardings")})
      for (const ShardingSpec& spec : get_shardings(node, attr)) visit_spec(spec);
  });
}

}  // namespace

void require_annotated_mesh(const Graph& graph, const std::function<bool(const Mesh& own)>& fits,
                            const std::string& option, const std::string& way_out) {
  visit_meshes(graph, [&](const Mesh& own) {
    if (fits(own)) return;
    throw_user("{}: the module's annotations are of @{} = {}; {}", option, own.name, to_string(own),
               way_out);
  });
}

void drop_annotations(Graph& graph, const Mesh& mesh) {
  GraphRewrite rewrite(graph);
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    const std::string_view own = own_sharding_attr(node);
    if (own.empty() || node.operands.size() != node.results.size()) return;
    const std::vector<ShardingSpec> specs = get_shardings(node, own);
    if (specs.empty() || !specs[0].mesh || specs[0].mesh->same_devices(mesh)) return;
    for (size_t i = 0; i < node.results.size(); ++i)
      rewrite.replace_uses(node.results[i], node.operands[i]);
    rewrite.erase(id);
  });
  rewrite.apply();
  drop_shardings_and_meshes(graph);
}

}  // namespace cleave
