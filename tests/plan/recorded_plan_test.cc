#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "cleave/models/registry.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/heuristic.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/record.h"
#include "cleave/runtime/tensor.h"

namespace cleave::plan {
namespace {

using Counts = std::map<std::pair<std::string, std::string>, double>;

// What Tensors communicate when a planned module is recorded on them, argument by argument as the
// plan has them.
Counts executed(const Plan& plan, const Graph& graph) {
  const Graph applied = apply(plan, graph);
  const Function& function = *applied.find_function(plan.entry);
  std::vector<Tensor> args;
  for (size_t i = 0; i < function.arg_types.size(); ++i) {
    ShardingSpec spec = plan.values[i].spec;
    spec.mesh = applied.meshes[0];
    const Array whole = make_array(function.arg_types[i], fmt::format("random:{}", i));
    std::vector<Array> shards;
    for (int64_t device = 0; device < spec.mesh->num_devices(); ++device)
      shards.push_back(shard_of(whole, {spec, nullptr}, device));
    args.push_back(Tensor::from_shards(std::move(shards), whole.shape(), spec));
  }
  CommLog log;
  evaluate(record_function(applied, args));
  Counts counts;
  for (const CommEvent& event : log.events())
    if (!event.is_local()) ++counts[{event.kind, event.axes}];
  return counts;
}

TEST(RecordedPlan, CommunicatesAsPlanned) {
  for (const char* name : {"model:mlp?step=grad", "model:encoder"})
    for (const char* mesh : {"x=2", "x=2,y=2"}) {
      const Graph graph = models::build_model(name).graph;
      PlannerOptions options;
      options.mesh = std::make_shared<const Mesh>(parse_mesh(mesh));
      options.profile = &builtin_profile("h100");
      for (const PlannerResult& result :
           {make_plan(graph, options), plan_by_heuristic(graph, options)}) {
        ASSERT_TRUE(result.plan);
        Counts planned;
        for (const CollectiveTotal& total : result.plan->totals.collectives)
          if (total.bytes > 0) planned[{total.kind, total.axes}] += total.count;
        EXPECT_EQ(executed(*result.plan, graph), planned) << name << " on " << mesh;
      }
    }
}

}  // namespace
}  // namespace cleave::plan
