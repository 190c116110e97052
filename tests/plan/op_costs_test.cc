// Questions about one op, against the planner's tables and against numbers made by hand.
#include "cleave/plan/op_costs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cleave/graph/flow.h"
#include "cleave/graph/text/text.h"
#include "cleave/models/registry.h"
#include "cleave/plan/formulation.h"
#include "cleave/plan/names.h"
#include "tests/plan/models.h"
#include "tests/support/error_of.h"
#include "tests/support/mesh_of.h"

namespace cleave::plan {
namespace {

using testing::HasSubstr;

// Round numbers: 1 TFLOP/s, 1 GB/s, and no executor, so that every op is a kernel of its own.
MachineProfile round_machine() {
  MachineProfile profile = default_profile();
  profile.executor = {};
  profile.tiles = {};
  profile.launch_us = 1;
  profile.matmul_launch_us = 2;
  profile.memory_gbps = 1;
  profile.cache_bytes = 0;
  profile.vector_tflops = 1;
  profile.bandwidth_efficiency.fill(1);
  profile.matmul = {{DType::F32, {1, 0, 0}}};
  return profile;
}

NodeId first(const Graph& graph, std::string_view op) {
  for (uint32_t i = 0; i < graph.num_nodes(); ++i)
    if (graph.node({i}).name() == op) return {i};
  return {};
}

// y = tanh(x w1) w2, x 512 x 1024, w1 1024 x 4096.
struct Mlp {
  Graph graph = parse_module(test::mlp(512, 1024, 4096, 1024));
  NodeId dot = first(graph, "stablehlo.dot_general"), tanh = first(graph, "stablehlo.tanh");
  MeshPtr mesh = mesh_of("x=4");
  ShardingSpec whole = parse_sharding("[{}, {}]", mesh);
  ShardingSpec rows = parse_sharding(R"([{"x"}, {}])", mesh);
  ShardingSpec columns = parse_sharding(R"([{}, {"x"}])", mesh);
};

TEST(OpCosts, ByHand) {
  const Mlp m;
  const MachineProfile machine = round_machine();
  const OpLayouts by_rows{{m.rows, m.whole}, {m.rows}};
  // 2 * 128 * 1024 * 4096 FLOP; 0.5, 16 and 2 MiB.
  const ComputeCost cost = compute_cost(m.graph, m.dot, by_rows, machine);
  const double bytes = 4.0 * (128 * 1024 + 1024 * 4096 + 128 * 4096);
  EXPECT_NEAR(cost.seconds, 2e-6 + bytes * 1e-9, 1e-12);
  EXPECT_NEAR(cost.launch, 2e-6, 1e-12);
  EXPECT_NEAR(cost.memory, bytes * 1e-9, 1e-9);
  EXPECT_NEAR(cost.arithmetic, 2.0 * 128 * 1024 * 4096 * 1e-12, 1e-9);
  EXPECT_EQ(cost.limit(), Limit::Memory);
  const MemoryCost memory = memory_cost(m.graph, m.dot, by_rows);
  EXPECT_EQ(memory.operands, 4 * (128 * 1024 + 1024 * 4096));
  EXPECT_EQ(memory.results, 4 * 128 * 4096);
  // Fast memory: arithmetic limits it. Small work: the launch does.
  MachineProfile fast = machine;
  fast.memory_gbps = 1e6;
  EXPECT_EQ(compute_cost(m.graph, m.dot, by_rows, fast).limit(), Limit::Arithmetic);
  fast.matmul[DType::F32].tflops = 1e6;
  EXPECT_EQ(compute_cost(m.graph, m.dot, by_rows, fast).limit(), Limit::Launch);
  EXPECT_STREQ(std::string(name(Limit::Launch)).c_str(), "launch");
}

TEST(OpCosts, ReductionsArePartial) {
  const Mlp m;
  const ShardingSpec partial = parse_sharding(R"([{}, {}], unreduced={"x"})", m.mesh);
  const OpLayouts split_k{{m.columns, m.rows}, {partial}};
  const double seconds = compute_cost(m.graph, m.dot, split_k, round_machine()).seconds;
  EXPECT_NEAR(seconds, 2e-6 + 4e-9 * (512 * 256 + 256 * 4096 + 512 * 4096), 1e-12);
}

TEST(OpCosts, CommunicationByHand) {
  const Mlp m;
  MachineProfile machine = round_machine();
  for (auto& protocols : machine.collectives) {
    protocols.resize(1);
    protocols[0] = {};
    protocols[0].name = "line";
    protocols[0].base_us = 10;
    protocols[0].inside_gbps = protocols[0].across_gbps = 2;
  }
  const ValueId x = m.graph.node(m.dot).operands[0];
  const CommunicationCost gather = communication_cost(m.graph, x, m.rows, m.whole, machine);
  // Three quarters of 2 MiB at 2 GB/s.
  EXPECT_NEAR(gather.seconds(), 10e-6 + 512 * 1024 * 4 * 0.75 / 2e9, 1e-9);
  ASSERT_EQ(gather.way.steps.size(), 1u);
  EXPECT_EQ(gather.way.steps[0].kind, StepKind::AllGather);
  EXPECT_EQ(gather.way.bytes, 512 * 1024 * 3);
  EXPECT_EQ(gather.spill_seconds, 0);
  EXPECT_EQ(communication_cost(m.graph, x, m.rows, m.rows, machine).seconds(), 0);
}

// Whether the tables count some layout of the value: as its op leaves it, or completed.
bool is_held(const Formulation& formulation, ValueId value) {
  bool is_known = false;
  for (const Version& version : formulation.versions) {
    const bool is_shared = version.source >= 0 && !version.alias.empty();
    if (version.value != value || is_shared) continue;
    if (version.takes_memory) return true;
    is_known = true;
  }
  return !is_known;
}

void expect_tables_agree(const Graph& graph, const MeshPtr& mesh, const MachineProfile& profile) {
  const Graph flat = flatten(graph, "main", profile);
  const Names names = name_everything(flat, "main");
  Layouts layouts(mesh, profile);
  StrategyBook book(flat, layouts);
  const Formulation formulation(flat, names, layouts, book, {});
  size_t asked = 0;
  for (const FormulatedOp& op : formulation.ops) {
    if (!op.set || flow_of(flat.node(op.node)) != Flow::None) continue;
    const Node& node = flat.node(op.node);
    const size_t step = std::max<size_t>(1, op.set->list.size() / 6);
    for (size_t s = 0; s < op.set->list.size(); s += step) {
      const Strategy& strategy = op.set->list[s];
      OpLayouts specs;
      int64_t operands = 0, results = 0;
      auto spec = [&](SpecId id) { return id == kNoSpec ? ShardingSpec{} : layouts.spec(id); };
      for (size_t i = 0; i < strategy.operands.size(); ++i) {
        specs.operands.push_back(spec(strategy.operands[i]));
        operands += layouts.bytes(strategy.operands[i], flat.operand_type(node, i));
      }
      for (size_t i = 0; i < strategy.results.size(); ++i) {
        specs.results.push_back(spec(strategy.results[i]));
        if (is_held(formulation, node.results[i]))
          results += layouts.bytes(strategy.results[i], flat.result_type(node, i));
      }
      ++asked;
      ComputeCost cost;
      ASSERT_NO_THROW(cost = compute_cost(flat, op.node, specs, profile))
          << error_of([&] { compute_cost(flat, op.node, specs, profile); });
      EXPECT_EQ(cost.seconds, strategy.seconds) << node.name();
      EXPECT_LE(cost.launch, cost.seconds * (1 + 1e-9)) << node.name();
      const MemoryCost memory = memory_cost(flat, op.node, specs);
      EXPECT_LE(memory.operands, operands) << node.name();  // the same operand twice counts once
      EXPECT_EQ(memory.results, results) << node.name();
      if (strategy.results.empty() || strategy.results[0] == kNoSpec) continue;
      const SpecId other = op.set->list[0].results[0];
      const double way =
          communication_cost(flat, node.results[0], specs.results[0], spec(other), profile)
              .way.seconds;
      EXPECT_NEAR(way, layouts.seconds(strategy.results[0], other, flat.result_type(node)),
                  1e-12 + 1e-9 * way)
          << node.name();
    }
  }
  EXPECT_GT(asked, 20u);
}

TEST(OpCosts, TablesAreMadeOfThem) {
  for (const char* model :
       {"model:gpt?layers=1&step=train", "model:moe?layers=1", "model:resnet?batch=8"})
    for (const char* machine : {"h100", "tpu-v5p"}) {
      SCOPED_TRACE(fmt::format("{} on {}", model, machine));
      expect_tables_agree(models::build_model(model).graph, mesh_of("data=2,model=2"),
                          builtin_profile(machine));
    }
}

TEST(OpCosts, WrongSpecsAreNamed) {
  const Mlp m;
  const MachineProfile machine = round_machine();
  auto why = [&](NodeId node, OpLayouts specs) {
    return error_of([&] { compute_cost(m.graph, node, specs, machine); });
  };
  EXPECT_THAT(why(m.dot, {{m.rows}, {m.rows}}),
              HasSubstr("stablehlo.dot_general has 2 operands, and 1 layouts are given for them"));
  EXPECT_THAT(why(m.dot, {{m.rows, m.whole}, {}}), HasSubstr("has 1 results, and 0 layouts"));
  EXPECT_THAT(why(m.tanh, {{parse_sharding(R"([{"x"}])", m.mesh)}, {m.rows}}),
              HasSubstr("operand 0 of stablehlo.tanh is tensor<512x4096xf32>, and its layout "
                        "[{\"x\"}] has 1 dimensions"));
  EXPECT_THAT(why(m.tanh, {{m.rows}, {parse_sharding(R"([{"y"}, {}])", mesh_of("y=4"))}}),
              HasSubstr("result 0 of stablehlo.tanh lies on the mesh <[\"y\"=4]>"));
  EXPECT_THAT(why(m.tanh, {{ShardingSpec{}}, {m.rows}}), HasSubstr("needs a layout on the mesh"));
  EXPECT_THAT(why(m.tanh, {{ShardingSpec{}}, {ShardingSpec{}}}),
              HasSubstr("none of the layouts has a mesh"));
  ShardingSpec twice = m.rows;
  twice.dims[1].axes = twice.dims[0].axes;
  EXPECT_THAT(why(m.tanh, {{twice}, {twice}}), HasSubstr("operand 0 of stablehlo.tanh: "));
  ShardingSpec unknown = m.rows;
  unknown.dims[0].axes[0].axis = 7;
  EXPECT_THAT(why(m.tanh, {{unknown}, {unknown}}), HasSubstr("operand 0 of stablehlo.tanh: "));
  // The result of tanh lies as its operand does.
  EXPECT_THAT(why(m.tanh, {{m.rows}, {m.columns}}),
              HasSubstr("stablehlo.tanh cannot run as [{\"x\"}, {}] -> [{}, {\"x\"}]; it can as "));
  EXPECT_THAT(why(m.dot, {{m.rows, m.rows}, {m.rows}}), HasSubstr("cannot run as"));
  const ValueId x = m.graph.node(m.dot).operands[0];
  EXPECT_THAT(error_of([&] {
                communication_cost(m.graph, x, m.rows, parse_sharding("[{}]", m.mesh), machine);
              }),
              HasSubstr("the value after is tensor<512x1024xf32>, and its layout [{}] has 1"));
  EXPECT_THAT(error_of([&] { communication_cost(m.graph, x, {}, m.rows, machine); }),
              HasSubstr("a change of layout needs a layout on a mesh before it and after it"));
}

// Both divide the same types by what is made of constants, but only one by a number that is known
// not to be 0.
TEST(Strategies, APendingSumIsDividedByKnownNumbersAlone) {
  const Graph graph = parse_module(R"(
func.func @main(%a: tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %four = stablehlo.constant dense<4.0> : tensor<8xf32>
  %one = stablehlo.constant dense<1.0> : tensor<8xf32>
  %n = stablehlo.subtract %four, %one : tensor<8xf32>
  %s = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
  %known = stablehlo.divide %s, %four : tensor<8xf32>
  %unknown = stablehlo.divide %s, %n : tensor<8xf32>
  return %known, %unknown : tensor<8xf32>, tensor<8xf32>
})");
  const auto mesh = std::make_shared<const Mesh>(Mesh{{"x", 4}});
  const MachineProfile profile = load_profile("h100");
  const Graph flat = flatten(graph, "main", profile);
  Layouts layouts(mesh, profile);
  StrategyBook book(flat, layouts);
  std::vector<bool> carries;
  flat.walk([&](NodeId id) {
    if (flat.node(id).name() != "stablehlo.divide") return;
    bool any = false;
    for (const Strategy& strategy : book.strategies(book.number(id, {false, true})).list)
      any |= layouts.spec(strategy.operands[0]).is_partial();
    carries.push_back(any);
  });
  EXPECT_EQ(carries, (std::vector<bool>{true, false}));
}

}  // namespace
}  // namespace cleave::plan
