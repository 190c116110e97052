#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cleave/core/error.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/export.h"
#include "cleave/plan/heuristic.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/names.h"
#include "models.h"
#include "tests/support/planning.h"

namespace cleave::plan {
namespace {

using namespace test;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Plan plan_of(const Graph& graph, const PlannerOptions& options) {
  return make_plan(graph, options).plan.value();
}

TEST(PlanFile, SurvivesJson) {
  const Graph graph = parse_module(mlp_step(512, 256, 1024, 256));
  PlannerOptions options = options_for("x=2,y=2");
  options.memory = int64_t{1} << 30;
  const Plan plan = plan_of(graph, options);
  const Plan back = plan_from_json(to_json(plan));
  EXPECT_EQ(to_json(back), to_json(plan));
  EXPECT_EQ(back.totals, plan.totals);
  EXPECT_EQ(back.memory, plan.memory);
  EXPECT_EQ(back.ops, plan.ops);
  EXPECT_TRUE(diff(plan, back).empty());
}

// Files of before there were schedules: nothing overlapped.
TEST(PlanFile, WithoutAScheduleNothingOverlaps) {
  const Plan plan = plan_of(parse_module(mlp(512, 256, 1024, 256)), options_for("x=4"));
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(to_json(plan));
  for (const char* field : {"step_seconds", "communication_seconds", "exposed_seconds"})
    ASSERT_EQ(json["totals"].erase(field), 1u) << field;
  for (const char* field : {"step_bound", "step_gap"})
    ASSERT_EQ(json["bound"].erase(field), 1u) << field;
  const Plan old = plan_from_json(json.dump());
  EXPECT_EQ(old.totals.step_seconds, plan.totals.seconds);
  EXPECT_EQ(old.totals.exposed_seconds, plan.totals.seconds - plan.totals.compute_seconds);
  EXPECT_EQ(old.bound.step_bound, plan.bound.lower_bound);
  EXPECT_EQ(old.bound.step_gap, plan.bound.gap);
  json["totals"]["step_seconds"] = -1;
  try {
    plan_from_json(json.dump());
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("step_seconds"));
  }
}

TEST(PlanFile, ErrorsNameTheField) {
  try {
    plan_from_json(R"({"format": "cleave-plan", "version": 1})");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("module"));
  }
  EXPECT_THROW(plan_from_json("{}"), UserError);
  EXPECT_THROW(plan_from_json(R"({"format": "cleave-plan", "version": 7})"), UserError);
}

TEST(PlanFile, DiffNamesWhatChanged) {
  const Graph graph = parse_module(mlp(512, 256, 1024, 256));
  PlannerOptions options = options_for("x=4");
  options.pins = {{"w1", parse_sharding("[{}, {\"x\"}]", options.mesh), "w1"}};
  const Plan a = plan_of(graph, options);
  options.pins = {{"w1", parse_sharding("[{\"x\"}, {}]", options.mesh), "w1"}};
  const Plan b = plan_of(graph, options);
  EXPECT_THAT(diff(a, b), ::testing::Contains(R"(w1: [{}, {"x"}] -> [{"x"}, {}])"));
  Plan c = a;
  c.totals.seconds = a.totals.seconds * 1.5;
  c.totals.step_seconds = a.totals.step_seconds * 1.25;
  c.totals.collectives.push_back({"all_to_all", "\"x\"", 2, 1024, 1e-3});
  c.memory.limit = int64_t{3} << 20;
  const std::vector<std::string> lines = diff(a, c);
  EXPECT_THAT(lines, ::testing::Contains("memory limit: none -> 3.00 MiB"));
  EXPECT_THAT(lines, ::testing::Contains("all_to_all \"x\": none -> x2, 1 ms"));
  EXPECT_THAT(lines, ::testing::Contains(HasSubstr("(+50.0%)")));
  EXPECT_THAT(lines, ::testing::Contains(::testing::MatchesRegex("step: .*[(][+]25.0%[)]")));
  EXPECT_TRUE(diff(a, a).empty());
  c.memory.share = 0.75;
  EXPECT_EQ(plan_from_json(to_json(c)).memory, c.memory);
  EXPECT_THAT(
      diff(a, c),
      ::testing::Contains("memory limit: none -> 4.00 MiB, of which programs can use 3.00 MiB"));
}

TEST(PlanFile, NamesSurvivePrinting) {
  const Graph graph = parse_module(loop(3, 64, 64));
  const Graph again = parse_module(print_module(graph));
  const Graph flat = flatten(graph, "main"), flat_again = flatten(again, "main");
  const Names names = name_everything(flat, "main");
  const Names names_again = name_everything(flat_again, "main");
  EXPECT_EQ(fingerprint(flat, "main"), fingerprint(flat_again, "main"));
  EXPECT_TRUE(names.node_of.count("while.0/1/dot_general.0"));
  EXPECT_TRUE(names.value_of.count("while.0#1"));
  for (const auto& [name, id] : names.node_of) EXPECT_TRUE(names_again.node_of.count(name)) << name;
}

// Binding finds what names mean: nodes, values, and the values behind copies.
TEST(PlanFile, IsBoundToIds) {
  const Graph graph = parse_module(mlp(64, 64, 64, 64));
  Plan plan = plan_of(graph, options_for("x=2,y=2"));
  const ShardingSpec spec = parse_sharding("[{\"x\"}, {}]", plan.mesh);
  plan.copies = {{"w1'1", "w1", spec, ""}, {"w1'2", "w1'1", spec, "dot_general.0"}};
  for (PlannedOp& op : plan.ops)
    for (PlannedOperand& operand : op.operands)
      if (operand.source.starts_with("w1")) operand.source = "w1'2";
  // Printing renames arguments, which go by their places.
  for (const Graph& flat :
       {flatten(graph, "main"), flatten(parse_module(print_module(graph)), "main")}) {
    const Names names = name_everything(flat, "main");
    const BoundPlan bound = bind(plan, flat);
    const size_t num_args = flat.region(bound.body()).args.size();
    for (size_t i = 0; i < plan.values.size(); ++i) {
      EXPECT_EQ(bound.planned(bound.values[i]), &plan.values[i]);
      if (i >= num_args)
        EXPECT_EQ(names.values[bound.values[i].index], plan.values[i].name);
      else
        EXPECT_EQ(bound.values[i], flat.region(bound.body()).args[i]);
    }
    for (size_t o = 0; o < plan.ops.size(); ++o) {
      EXPECT_EQ(names.nodes[bound.ops[o].node.index], plan.ops[o].name);
      EXPECT_EQ(bound.planned(bound.ops[o].node), &plan.ops[o]);
      const Node& node = flat.node(bound.ops[o].node);
      for (size_t i = 0; i < node.operands.size(); ++i) {
        const BoundSource& source = bound.ops[o].operands[i];
        EXPECT_EQ(source.value, node.operands[i]);
        const std::string& name =
            source.copy < 0 ? bound.planned(source.value)->name : plan.copies[source.copy].name;
        EXPECT_EQ(name, plan.ops[o].operands[i].source);
      }
    }
    const NodeId first = names.node_of.at("dot_general.0");
    EXPECT_EQ(bound.ops[bound.op_index[first.index]].operands[1].copy, 1);
    EXPECT_EQ(bound.copies[1].source.copy, 0);
    EXPECT_EQ(bound.copies[1].source.value, bound.values[1]);
    EXPECT_EQ(bound.copies[1].before, first);
    EXPECT_FALSE(bound.copies[0].before.valid());
    EXPECT_EQ(bound.end, plan.find_op("return"));
  }
  Plan other = plan;
  other.ops[0].operands[0].source = "nothing";
  EXPECT_THAT([&] { bind(other, flatten(graph, "main")); },
              ::testing::ThrowsMessage<UserError>(
                  HasSubstr("takes nothing, which is neither a value nor an earlier copy")));
}

TEST(PlanFile, CallsAreWrittenOut) {
  const Graph graph = parse_module(
      "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
      "  %0 = call @f(%x) : (tensor<8xf32>) -> tensor<8xf32>\n"
      "  %1 = call @f(%0) : (tensor<8xf32>) -> tensor<8xf32>\n  return %1 : tensor<8xf32>\n}\n"
      "func.func private @f(%y: tensor<8xf32>) -> tensor<8xf32> {\n"
      "  %0 = stablehlo.tanh %y : tensor<8xf32>\n  return %0 : tensor<8xf32>\n}\n");
  const Names names = name_everything(flatten(graph, "main"), "main");
  EXPECT_TRUE(names.node_of.count("tanh.0"));
  EXPECT_TRUE(names.node_of.count("tanh.1"));
}

TEST(PlanFile, Exports) {
  const Graph graph = parse_module(mlp(64, 64, 64, 64));
  PlannerOptions options = options_for("data=2,model=2");
  for (const char* pin : {"x [{\"data\"}, {}]", "w1 [{}, {\"data\", \"model\"}]",
                          "w2 [{\"model\"}, {\"data\"}]", "dot_general.1 [{\"data\"}, {}]"}) {
    const std::string text = pin;
    const size_t space = text.find(' ');
    options.pins.push_back(
        {text.substr(0, space), parse_sharding(text.substr(space + 1), options.mesh), text});
  }
  const Plan plan = plan_of(graph, options);
  EXPECT_EQ(to_jax(plan, graph),
            "import jax\nfrom jax.sharding import AxisType, PartitionSpec as P\n\n"
            "mesh = jax.make_mesh((2, 2), (\"data\", \"model\"), axis_types=(AxisType.Auto,) * 2)\n"
            "in_specs = (\n"
            "    P(\"data\"),  # x\n"
            "    P(None, (\"data\", \"model\")),  # w1\n"
            "    P(\"model\", \"data\"),  # w2\n"
            ")\n"
            "out_specs = (\n"
            "    P(\"data\"),  # result0\n"
            ")\n");
  EXPECT_THAT(to_dtensor(plan), HasSubstr("    \"x\": [Shard(0), Replicate()],\n"
                                          "    \"w1\": [Shard(1), Shard(1)],\n"
                                          "    \"w2\": [Shard(1), Shard(0)],\n"));
  // The module with the plan in it reads back, and its arguments are annotated.
  const std::string text = print_module(apply(plan, graph));
  EXPECT_THAT(text, HasSubstr("%arg0: tensor<64x64xf32> {sdy.sharding = #sdy.sharding<@mesh, "
                              "[{\"data\"}, {}]>}"));
  EXPECT_EQ(print_module(parse_module(text)), text);
  // Also a plan for a module whose arguments printing renamed.
  EXPECT_EQ(print_module(apply(plan, parse_module(print_module(graph)))), text);
}

TEST(Heuristic, TellsWhatItDoes) {
  const Graph graph = parse_module(mlp(1 << 16, 256, 256, 256));
  PlannerOptions options = options_for("data=4");
  std::vector<std::string> lines;
  options.trace = [&](const std::string& line) { lines.push_back(line); };
  const PlannerResult result = plan_by_heuristic(graph, options);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(result.plan->bound.solver, "heuristic");
  ASSERT_GE(lines.size(), 6u);
  EXPECT_EQ(lines[0], "[Solver] Phase 1: 4 nodes, 3 arguments, mesh <[\"data\"=4]>");
  EXPECT_EQ(lines[2], "[Solver] Analyzing Node 0: dot_general");
  EXPECT_THAT(lines[3], HasSubstr("-> data parallel"));
  EXPECT_EQ(lines[4], "[Solver]   chosen: dot_general.0 [{\"data\"}, {?}]");
  EXPECT_EQ(to_string(result.plan->find_value("dot_general.1")->spec), R"([{"data"}, {}])");
  // The search is never worse.
  options.trace = {};
  EXPECT_LE(make_plan(graph, options).plan->totals.seconds,
            result.plan->totals.seconds * (1 + 1e-9));
}

TEST(Heuristic, LeavesWhatTheUserFixed) {
  const Graph graph = parse_module(mlp(1 << 16, 256, 256, 256));
  PlannerOptions options = options_for("data=4");
  options.pins = {{"dot_general.0", parse_sharding("[{}, {\"data\"}]", options.mesh), "pin"}};
  const PlannerResult result = plan_by_heuristic(graph, options);
  ASSERT_TRUE(result.plan);
  EXPECT_EQ(to_string(result.plan->find_op("tanh.0")->operands[0].spec), R"([{}, {"data"}])");
}

TEST(MeshSearch, TriesEveryShapeAndOrder) {
  std::vector<std::string> shapes;
  for (const MeshPtr& mesh : mesh_shapes(12, 2)) shapes.push_back(to_string(*mesh));
  EXPECT_THAT(shapes, ElementsAre(R"(<["x"=12]>)", R"(<["x"=2, "y"=6]>)", R"(<["x"=3, "y"=4]>)",
                                  R"(<["x"=4, "y"=3]>)", R"(<["x"=6, "y"=2]>)"));
  EXPECT_EQ(mesh_shapes(8, 3).size(), 4u);
  EXPECT_THROW(mesh_shapes(0, 2), UserError);
}

TEST(MeshSearch, TheFrontFallsWithMemory) {
  const Graph graph = parse_module(mlp(8192, 4096, 4096, 4096));
  const std::vector<int64_t> limits = {int64_t{130} << 20, int64_t{200} << 20, int64_t{1} << 30};
  const auto candidates = search_meshes(graph, mesh_shapes(8, 2), limits, options_for("x=8"));
  EXPECT_EQ(candidates.size(), 9u);
  double last = std::numeric_limits<double>::infinity();
  for (int index : fastest_by_limit(candidates, limits)) {
    ASSERT_GE(index, 0);
    EXPECT_LE(candidates[index].result.plan->totals.seconds, last);
    last = candidates[index].result.plan->totals.seconds;
  }
}

}  // namespace
}  // namespace cleave::plan
