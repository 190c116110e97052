#include "batch_harness.h"
#include "cleave/runtime/executor.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave {
namespace {

const MeshPtr& test_mesh() {
  static const MeshPtr mesh = [] {
    Graph graph = parse_module("sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>");
    return graph.meshes[0];
  }();
  return mesh;
}

// A module with the one function, as the partitioner takes it.
Graph batched_module(const BatchSample& sample, const VmapOptions& options) {
  Graph graph = sample.graph;
  const std::string name = vmap(graph, sample.function, options);
  std::set<std::string> called;
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    for (const char* attr : {"callee", "decomposition"})
      if (node.def->has(kCall) && node.attrs.has(attr))
        called.insert(std::string(node.attrs.get_string(attr)));
  });
  std::erase_if(graph.functions,
                [&](const Function& f) { return f.name != name && !called.contains(f.name); });
  graph.find_function(name)->name = "main";
  return graph;
}

void expect_same_over_shards(const Graph& graph, const std::string& what) {
  const Executor executor(partition(graph, {.entry = "main"}));
  const Function& main = *graph.find_function("main");
  std::vector<Array> args;
  for (size_t i = 0; i < main.arg_types.size(); ++i)
    args.push_back(make_array(main.arg_types[i], "random:" + std::to_string(i + 1)));
  const std::vector<Array> actual = executor.run(args);
  const std::vector<Array> expected = run_function(graph, "main", args);
  for (size_t r = 0; r < actual.size(); ++r) {
    const Comparison difference = compare(actual[r], expected[r]);
    EXPECT_TRUE(difference.same) << what << ", result " << r << ": " << difference.first;
  }
}

// Everything batched, then sharded in random ways; the number of examples does not divide.
TEST(VmapSharded, RandomShardings) {
  size_t runs = 0;
  for (const BatchSample& sample : batch_samples()) {
    const Function& function = *sample.graph.find_function(sample.function);
    if (!sample.graph.meshes.empty()) continue;  // these have layouts of their own
    VmapOptions options;
    options.size = 3;
    for (const AttrDict& attrs : function.arg_attrs)
      options.in_dims.push_back(attrs.has("test.common") ? VmapOptions::Dim{} : 0);
    options.out_dims.resize(function.result_types.size(), 0);
    for (uint64_t seed : {1, 2}) {
      Graph graph = batched_module(sample, options);
      graph.meshes = {test_mesh()};
      shard_randomly(graph, "main", test_mesh(), seed);
      const std::string what = sample.name + " seed " + std::to_string(seed);
      EXPECT_NO_THROW(expect_same_over_shards(graph, what)) << what;
      ++runs;
    }
  }
  EXPECT_GT(runs, 200u);
}

std::string batched_text(const std::string& text, const VmapOptions& options) {
  Graph graph = parse_module(text);
  const BatchSample sample{"", graph, graph.functions.front().name};
  const Graph made = batched_module(sample, options);
  verify_graph(made);
  if (!options.spmd_axis.empty()) expect_same_over_shards(made, "spmd axis");
  return print_module(made);
}

TEST(VmapSharded, SpmdAxisOnArgumentsResultsAndConstraints) {
  const std::string text = R"(
sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func @f(%x: tensor<4xf32>, %w: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"model"}]>}) {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4x6xf32>) -> tensor<6xf32>
  %1 = sdy.sharding_constraint %0 <@mesh, [{"model"}]> : tensor<6xf32>
  return %1 : tensor<6xf32>
})";
  EXPECT_EQ(
      batched_text(text, {.in_dims = {0, {}}, .out_dims = {0}, .size = 5, .spmd_axis = "data"}),
      R"(module {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func @main(%arg0: tensor<5x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {?}]>}, %arg1: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"model"}]>}) -> (tensor<5x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<5x4xf32>, tensor<4x6xf32>) -> tensor<5x6xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{"data"}, {"model"}]> : tensor<5x6xf32>
    return %1 : tensor<5x6xf32>
  }
}
)");
  // Without an axis, the examples are left to propagation.
  EXPECT_NE(batched_text(text, {.in_dims = {0, {}}, .out_dims = {0}, .size = 5})
                .find("sdy.sharding_constraint %0 <@mesh, [{?}, {\"model\"}]>"),
            std::string::npos);
}

TEST(VmapSharded, SpmdAxisThroughAManualComputation) {
  const std::string text = R"(
sdy.mesh @mesh = <["data"=2, "model"=2]>
func.func @f(%x: tensor<4x6xf32>) -> tensor<2x6xf32> {
  %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"model"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"model"} (%a: tensor<2x6xf32>) {
    %1 = "stablehlo.all_reduce"(%a) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
    ^bb0(%c: tensor<f32>, %d: tensor<f32>):
      %2 = stablehlo.add %c, %d : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x6xf32>) -> tensor<2x6xf32>
    sdy.return %1 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
})";
  const std::string batched =
      batched_text(text, {.in_dims = {0}, .out_dims = {0}, .size = 3, .spmd_axis = "data"});
  EXPECT_NE(batched.find("in_shardings=[<@mesh, [{\"data\"}, {\"model\"}, {}]>]"),
            std::string::npos)
      << batched;
  EXPECT_NE(batched.find("out_shardings=[<@mesh, [{\"data\"}, {}, {}]>]"), std::string::npos)
      << batched;
  try {
    batched_text(text, {.in_dims = {0}, .out_dims = {0}, .size = 3, .spmd_axis = "model"});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(std::string(error.what()),
              "vmap: sdy.manual_computation: the axis \"model\" is manual here and cannot hold the "
              "examples as well; give vmap an axis that the computation leaves free");
  }
}

TEST(VmapSharded, AnAxisInUseIsAnError) {
  const std::string text = R"(
sdy.mesh @mesh = <["data"=2]>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = sdy.sharding_constraint %x <@mesh, [{"data"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
})";
  try {
    batched_text(text, {.in_dims = {0}, .out_dims = {0}, .size = 2, .spmd_axis = "data"});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "vmap: sdy.sharding_constraint has the sharding <@mesh, [{\"data\"}]>, which uses the "
        "axis \"data\" that the examples are to be sharded over; give vmap another axis, or "
        "take it out of the sharding");
  }
}

}  // namespace
}  // namespace cleave
