#include "cleave/core/error.h"
#include "cleave/registry/pass_families.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/program_module.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave {
namespace {

MeshPtr mesh_of(const Graph& graph, const PassOptions& options) {
  if (options.has("mesh")) {
    Mesh mesh = parse_mesh(options.get("mesh"));
    mesh.name = "mesh";
    return std::make_shared<const Mesh>(std::move(mesh));
  }
  for (const MeshPtr& mesh : graph.meshes)
    if (!mesh->axes.empty()) return mesh;
  throw_user("the module has no mesh; give one with mesh=x=2,y=4");
}

std::string entry_of(const Graph& graph, const PassOptions& options) {
  if (options.has("entry") || graph.find_function("main")) return options.get("entry", "main");
  if (graph.functions.empty()) throw_user("the module has no function");
  return graph.functions.front().name;
}

}  // namespace

void register_partition_passes(PassRegistry& registry) {
  registry.add(
      {"cleave-partition",
       {"entry", "mesh", "device", "form"},
       [](Graph& graph, const PassOptions& options, PassContext&) {
         const MeshPtr mesh = mesh_of(graph, options);
         const std::string form = options.get("form", "spmd");
         if (form != "spmd" && form != "manual")
           throw_user("-cleave-partition: form is spmd or manual, not {}", form);
         const Program program =
             partition(graph, {.entry = entry_of(graph, options), .mesh = mesh, .verified = true});
         if (!options.has("device")) {
           const SingleProgram single = single_program(program);
           graph = form == "spmd" ? spmd_module(single) : manual_module(single);
           return;
         }
         const int64_t device = options.get_int("device", 0);
         if (device < 0 || device >= mesh->num_devices())
           throw_user("-cleave-partition: there is no device {} in {}", device, to_string(*mesh));
         graph = to_module(program, device);
       }});
  registry.add({"cleave-random-shardings",
                {"entry", "mesh", "seed"},
                [](Graph& graph, const PassOptions& options, PassContext&) {
                  const MeshPtr mesh = mesh_of(graph, options);
                  if (!graph.find_mesh(mesh->name)) graph.meshes.push_back(mesh);
                  shard_randomly(graph, entry_of(graph, options), mesh,
                                 static_cast<uint64_t>(options.get_int("seed", 1)));
                }});
}

}  // namespace cleave
