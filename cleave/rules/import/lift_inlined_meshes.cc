#include "cleave/core/error.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/rules/import/import_passes.h"

namespace cleave {
namespace {

std::string fresh_mesh_name(const Graph& graph, std::string_view base) {
  std::string name(base);
  for (int i = 0; graph.find_mesh(name); ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

}  // namespace

void lift_inlined_meshes(Graph& graph) {
  std::vector<MeshPtr> kept;
  auto find_equal = [&](const Mesh& mesh) -> MeshPtr {
    for (const MeshPtr& known : kept)
      if (known->same_devices(mesh)) return known;
    return nullptr;
  };
  for (const MeshPtr& mesh : graph.meshes)
    if (!find_equal(*mesh)) kept.push_back(mesh);
  graph.meshes = kept;
  transform_shardings(graph, [&](const ShardingSpec& spec) {
    ShardingSpec lifted = spec;
    lifted.mesh = find_equal(*spec.mesh);
    if (!lifted.mesh) {
      Mesh mesh = *spec.mesh;
      const std::string base = mesh.is_maximal()
                                   ? fmt::format("maximal_mesh_{}", mesh.device_ids[0])
                               : mesh.is_empty() ? std::string("empty_mesh")
                                                 : std::string("mesh");
      mesh.name = fresh_mesh_name(graph, base);
      lifted.mesh = std::make_shared<const Mesh>(std::move(mesh));
      kept.push_back(lifted.mesh);
      graph.meshes.push_back(lifted.mesh);
    }
    return lifted;
  });
}

}  // namespace cleave
