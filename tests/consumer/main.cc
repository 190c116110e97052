// What a program outside of Cleave does with the installed headers: tensors over a mesh, a
// gradient, a module that is read, planned and run, a model, an operator.
#include "cleave/cleave.h"
#include "cleave/discover.h"
#include "cleave/models.h"
using namespace cleave;

namespace {

constexpr const char* kModule = R"(
func.func @main(%x: tensor<9x16xf32>, %w: tensor<16x8xf32>) -> tensor<9x8xf32> {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<9x16xf32>, tensor<16x8xf32>) -> tensor<9x8xf32>
  return %y : tensor<9x8xf32>
})";

bool tensors_and_transforms(const Mesh& mesh) {
  const Tensor x = iota({6}, 0, DType::F32).shard(mesh, P("data"));
  const auto square = [](const Tensor& v) { return sum(v * v); };
  return compile(grad(square))(x).sharding() == x.sharding() && square(x).item() == 55;
}

bool plan_and_run(const MeshPtr& mesh) {
  const Graph graph = parse_module(kModule);
  const MachineProfile& machine = builtin_profile("h100");
  plan::PlannerOptions options;
  options.mesh = mesh;
  options.profile = &machine;
  const plan::PlannerResult result = plan::make_plan(graph, options);
  if (!result.plan) return false;
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, "random:1"));
  Executable executable(plan::partition_planned(*result.plan, graph, machine));
  const std::vector<Array> whole = run_function(graph, "main", args);
  return compare_runs(graph, "main", args, whole, executable.run(args)).same();
}

}  // namespace

int main() {
  const auto mesh = std::make_shared<const Mesh>(Mesh{{"data", 2}, {"model", 4}});
  const bool tensors = tensors_and_transforms(*mesh);
  const bool planned = plan_and_run(mesh);
  const bool others = !models::build_model("model:mlp").arguments.empty() && find_operator("cross");
  print("tensors {}, plan {}, models and operators {}\n", tensors, planned, others);
  return tensors && planned && others ? 0 : 1;
}
