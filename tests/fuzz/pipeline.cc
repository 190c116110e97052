#include "pipeline.h"

#include <stdexcept>

#include "cleave/compile/executable.h"
#include "cleave/core/error.h"
#include "cleave/core/mesh_text.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/verify.h"
#include "cleave/machine/profile.h"
#include "cleave/plan/planner.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/pipelines.h"
#include "cleave/rules/propagate/populate_sharding_rules.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/interpreter.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave::fuzz {
namespace {

// Ops that run in a moment: no value of more elements than this, few ops, few rounds.
bool is_small(const Graph& graph) {
  double work = 0;
  bool loops = false;
  auto count = [&](const Type& type) {
    double elements = 1;
    if (type.is_tensor())
      for (const int64_t size : type.shape) elements *= static_cast<double>(size);
    work += elements;
  };
  for (const Function& function : graph.functions)
    for (const Type& type : function.arg_types) count(type);
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    loops |= node.name() == "stablehlo.while";
    for (const ValueId result : node.results) count(graph.type(result));
  });
  return work < 2e5 && !loops;
}

const Function* entry_of(const Graph& graph) {
  if (const Function* main = graph.find_function("main"))
    return main->body.valid() ? main : nullptr;
  for (const Function& function : graph.functions)
    if (function.body.valid()) return &function;
  return nullptr;
}

MeshPtr small_mesh(RandomSource& random) {
  static const char* const kMeshes[] = {"x=2", "x=3", "x=2,y=2"};
  Mesh mesh = parse_mesh(kMeshes[random.below(3)]);
  mesh.name = "mesh";
  return std::make_shared<const Mesh>(std::move(mesh));
}

}  // namespace

std::string whole_way(const std::string& text, uint64_t seed) {
  std::string stage = "parse";
  try {
    RandomSource random(seed);
    const Graph graph = parse_module(text, "fuzz");
    stage = "print";
    const std::string printed = print_module(graph);
    if (print_module(parse_module(printed, "printed")) != printed)
      throw std::logic_error("what is printed reads as another module");
    stage = "verify";
    verify_graph(graph);
    stage = "rules";
    Graph ruled = graph;
    populate_sharding_rules(ruled, false);
    stage = "propagate";
    Graph propagated = graph;
    run_propagation_pipeline(propagated, {});
    verify_graph(propagated);
    const Function* entry = entry_of(graph);
    if (!entry || !is_small(graph)) return stage;
    const std::string name = entry->name;
    std::vector<Array> args;
    for (const Type& type : entry->arg_types) {
      if (!type.is_tensor()) return stage;
      args.push_back(make_array(type, "random:1"));
    }
    stage = "run";
    run_function(graph, name, args);
    stage = "run compiled";
    Executable(graph, name).run(args);
    stage = "partition";
    const MeshPtr mesh = small_mesh(random);
    Graph sharded = graph;
    drop_shardings_and_meshes(sharded);
    sharded.meshes = {mesh};
    shard_randomly(sharded, name, mesh, random.next() % 1000);
    Program program = partition(sharded, {.entry = name, .mesh = mesh});
    stage = "run sharded";
    Executor(program).run(args);
    stage = "plan";
    plan::PlannerOptions options;
    options.mesh = mesh;
    options.profile = &builtin_profile("h100");
    options.entry = name;
    options.time_limit = 0.2;
    options.threads = 1;
    plan::make_plan(graph, options);
    return "end";
  } catch (const UserError&) {
    return stage;
  } catch (const std::exception& error) {
    throw std::runtime_error(stage + ": " + error.what());
  }
}

}  // namespace cleave::fuzz
