// What the planner and the cost model say of whole models, against what runs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "cleave/analyze/kernels.h"
#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/program_memory.h"
#include "cleave/compile/executable.h"
#include "cleave/core/units.h"
#include "cleave/models/registry.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/predicted_memory.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"
#include "tests/support/arguments.h"
#include "tests/support/mesh_of.h"

namespace cleave::plan {
namespace {

// A step of AdamW of five models that differ in kind.
const char* const kModels[] = {"mlp?layers=2", "gpt?layers=2", "moe?layers=1", "resnet?batch=8",
                               "unet?batch=8"};

// Weights and optimizer state are given away, as every training loop does.
void donate_states(Graph& graph) {
  Function& main = *graph.find_function("main");
  const Program program =
      partition(graph, {.entry = "main", .mesh = graph.meshes.empty() ? mesh_of("x=1") : nullptr});
  const analyze::MemoryClasses classes = analyze::memory_classes(program);
  main.arg_attrs.resize(main.arg_types.size());
  for (size_t i = 0; i < main.arg_types.size(); ++i)
    if (classes.arguments[i] == analyze::MemoryClass::Parameters ||
        classes.arguments[i] == analyze::MemoryClass::OptimizerState)
      main.arg_attrs[i].set("jax.buffer_donor", UnitAttr{});
}

Graph train_step(const std::string& model, const std::string& sharding, const MeshPtr& mesh) {
  Graph graph = models::build_model(fmt::format("model:{}&step=train&sharding={}", model, sharding),
                                    mesh.get())
                    .graph;
  return graph;
}

TEST(ModelAccounts, PeakMemoryIsWhatTheRuntimeMeasures) {
  const MeshPtr mesh = mesh_of("data=2,model=2");
  for (const char* model : kModels)
    for (const char* sharding : {"fsdp", "mixed"}) {
      Graph graph = train_step(model, sharding, mesh);
      donate_states(graph);
      run_propagation_pipeline(graph, {});
      const Executor executor(partition(graph, {.entry = "main"}), nullptr);
      MemoryUse measured;
      executor.run(arguments(executor.program()), {.memory = &measured});
      int64_t predicted = 0;
      for (int64_t device = 0; device < executor.num_devices(); ++device)
        predicted = std::max(predicted, analyze::program_memory(executor.program(), device).peak);
      EXPECT_NEAR(static_cast<double>(predicted), static_cast<double>(measured.peak()),
                  0.05 * static_cast<double>(measured.peak()))
          << model << " " << sharding;
    }
}

TEST(ModelAccounts, PeakMemoryOfCompiledStepsIsWhatTheyHold) {
  const MeshPtr mesh = mesh_of("data=2,model=2");
  for (const char* model : kModels) {
    Graph graph = train_step(model, "mixed", mesh);
    donate_states(graph);
    run_propagation_pipeline(graph, {});
    const Program program = partition(graph, {.entry = "main"});
    Executable executable(program);
    ASSERT_TRUE(executable.is_compiled()) << model;
    MemoryUse measured;
    executable.run(arguments(program), {.memory = &measured});
    for (int64_t device = 0; device < executable.num_devices(); ++device)
      EXPECT_NEAR(static_cast<double>(executable.memory_bytes(device)),
                  static_cast<double>(measured.peaks[static_cast<size_t>(device)]),
                  0.05 * static_cast<double>(measured.peak()))
          << model << " device " << device;
    EXPECT_GT(executable.stats().donated, 0u) << model;
  }
}

// The plan's total is the sum over the Program's nodes, taken one by one: what each op costs on its
// local shapes, what each change of layout costs by the reshard search and beside it, and the
// host's part.
TEST(ModelAccounts, EveryCostIsCountedOnce) {
  for (const char* model : kModels)
    for (const char* mesh_text : {"x=4", "x=2,y=2,z=2"}) {
      const MeshPtr mesh = mesh_of(mesh_text);
      Graph graph = models::build_model(fmt::format("model:{}&step=train", model)).graph;
      PlannerOptions options;
      options.mesh = mesh;
      options.profile = &builtin_profile("h200");
      const PlannerResult result = make_plan(graph, options);
      ASSERT_TRUE(result.plan) << result.reason;
      const Program program = partition_planned(*result.plan, graph, *options.profile);
      const Instance instance = instantiate_shapes(program, 0);
      const RegionId body = instance.graph.find_function(instance.entry)->body;
      double transfers = 0;
      double compute = analyze::step_seconds(instance.graph, body, *options.profile);
      // Bodies of reductions are part of them; loops and calls there are none.
      for (NodeId id : instance.graph.region(body).nodes) {
        const Node& node = instance.graph.node(id);
        ASSERT_TRUE(node.name() != "stablehlo.while" && node.name() != "func.call");
        if (node.name() != "cleave.transfer") {
          compute += analyze::node_seconds(program, instance, id, *options.profile);
          continue;
        }
        const NodeId origin = instance.origin[id.index];
        transfers += analyze::transfer_cost(program, origin, *options.profile).seconds;
        const Node& transfer = program.graph.node(origin);
        const ValueId source = behind_transfers(program.graph, transfer.operands[0]);
        if (transfer.attrs.has(kSpillsAttr))
          compute +=
              analyze::spill_seconds(analyze::spill_bytes(program.graph, source),
                                     program.layout(transfer.operands[0]).spec, *options.profile);
      }
      const PlanTotals& totals = result.plan->totals;
      EXPECT_NEAR(totals.compute_seconds, compute, 1e-9 * compute) << model << " " << mesh_text;
      EXPECT_NEAR(totals.seconds, compute + transfers, 1e-9 * totals.seconds)
          << model << " " << mesh_text;
      double by_kind = 0;
      for (const CollectiveTotal& total : totals.collectives) by_kind += total.seconds;
      EXPECT_NEAR(by_kind, transfers, 1e-9 * totals.seconds) << model << " " << mesh_text;
      EXPECT_NEAR(analyze::program_cost(program, *options.profile).seconds, totals.seconds,
                  1e-9 * totals.seconds);
    }
}

// The planner's count and that of the program differ.
TEST(MemoryNote, IsOfProgramsThatHoldMoreThanTheLimit) {
  const MachineProfile profile = builtin_profile("h100");
  for (const char* model : {"model:gpt?step=train", "model:moe?step=train"}) {
    const Graph graph = models::build_model(model).graph;
    PlannerOptions options;
    options.mesh = mesh_of("data=2,model=4");
    options.profile = &profile;
    options.machine = "h100";
    options.memory = 8 << 20;
    options.effort = 50;
    options.time_limit = 600;
    Plan plan = *make_plan(graph, options).plan;
    const int64_t held = analyze::program_memory(partition_planned(plan, graph, profile)).peak;
    // What the planner allowed, a little less than the program holds, and as much.
    for (const int64_t limit : {int64_t{8 << 20}, held - 1, held}) {
      plan.memory.limit = limit;
      const auto note = note_of_memory(plan, graph, profile);
      EXPECT_EQ(note.has_value(), held > limit) << model << " within " << limit;
      if (note) {
        EXPECT_THAT(*note, testing::HasSubstr(bytes_text(static_cast<double>(held))));
      }
    }
    plan.memory.limit.reset();
    EXPECT_FALSE(note_of_memory(plan, graph, profile));
  }
}

}  // namespace
}  // namespace cleave::plan
