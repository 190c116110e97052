#include <fmt/core.h>

#include "cleave/compile/executable.h"
#include "cleave/spmd/random_shardings.h"
#include "tests/spmd/sharded_run.h"

// Every op family under every kind of sharding, against the run on one device: uneven and empty
// shards, sub-axes, axes in any order, pending reductions of any operator.
namespace cleave {
namespace {

struct Scenario {
  const char* name;
  const char* text;
};

constexpr Scenario kScenarios[] = {
    {"elementwise",
     R"(func.func @main(%a: tensor<7x9xf32>, %b: tensor<7x9xf32>) -> tensor<7x9xf32> {
       %0 = stablehlo.add %a, %b : tensor<7x9xf32>
       %1 = stablehlo.multiply %0, %a : tensor<7x9xf32>
       %2 = stablehlo.tanh %1 : tensor<7x9xf32>
       %3 = stablehlo.maximum %2, %b : tensor<7x9xf32>
       return %3 : tensor<7x9xf32> })"},
    {"partial cast to int", R"(func.func @main(%a: tensor<5x4xf32>) -> tensor<5x4xi32> {
       %0 = stablehlo.add %a, %a : tensor<5x4xf32>
       %1 = stablehlo.convert %0 : (tensor<5x4xf32>) -> tensor<5x4xi32>
       return %1 : tensor<5x4xi32> })"},
    {"pending ands and ors",
     R"(func.func @main(%a: tensor<9x5xf32>, %b: tensor<9x5xf32>) -> (tensor<9x5xi1>, tensor<9x5xi1>) {
       %0 = stablehlo.compare LT, %a, %b : (tensor<9x5xf32>, tensor<9x5xf32>) -> tensor<9x5xi1>
       %1 = stablehlo.not %0 : tensor<9x5xi1>
       %2 = stablehlo.and %0, %1 : tensor<9x5xi1>
       %3 = stablehlo.or %0, %1 : tensor<9x5xi1>
       return %2, %3 : tensor<9x5xi1>, tensor<9x5xi1> })"},
    {"slice with a stride", R"(func.func @main(%a: tensor<11x6xi32>) -> tensor<4x2xi32> {
       %0 = stablehlo.slice %a [1:11:3, 2:6:2] : (tensor<11x6xi32>) -> tensor<4x2xi32>
       return %0 : tensor<4x2xi32> })"},
    {"pad, negative and interior",
     R"(func.func @main(%a: tensor<5x4xi32>, %p: tensor<i32>) -> tensor<12x2xi32> {
       %0 = stablehlo.pad %a, %p, low = [2, -1], high = [1, -1], interior = [1, 0] : (tensor<5x4xi32>, tensor<i32>) -> tensor<12x2xi32>
       return %0 : tensor<12x2xi32> })"},
    {"concatenate",
     R"(func.func @main(%a: tensor<5x3xi32>, %b: tensor<2x3xi32>, %c: tensor<4x3xi32>) -> tensor<11x3xi32> {
       %0 = stablehlo.concatenate %a, %b, %c, dim = 0 : (tensor<5x3xi32>, tensor<2x3xi32>, tensor<4x3xi32>) -> tensor<11x3xi32>
       return %0 : tensor<11x3xi32> })"},
    {"reverse and transpose", R"(func.func @main(%a: tensor<7x5xi32>) -> tensor<5x7xi32> {
       %0 = stablehlo.reverse %a, dims = [0, 1] : tensor<7x5xi32>
       %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<7x5xi32>) -> tensor<5x7xi32>
       return %1 : tensor<5x7xi32> })"},
    {"coprime reshape", R"(func.func @main(%a: tensor<6x4xi32>) -> tensor<2x12xi32> {
       %0 = stablehlo.reshape %a : (tensor<6x4xi32>) -> tensor<4x6xi32>
       %1 = stablehlo.reshape %0 : (tensor<4x6xi32>) -> tensor<24xi32>
       %2 = stablehlo.reshape %1 : (tensor<24xi32>) -> tensor<2x12xi32>
       return %2 : tensor<2x12xi32> })"},
    {"broadcast of a sharded one", R"(func.func @main(%a: tensor<1x5xi32>) -> tensor<4x5x3xi32> {
       %0 = stablehlo.broadcast_in_dim %a, dims = [0, 1] : (tensor<1x5xi32>) -> tensor<4x5x3xi32>
       return %0 : tensor<4x5x3xi32> })"},
    {"iota", R"(func.func @main(%a: tensor<7x3xi32>) -> tensor<7x3xi32> {
       %0 = stablehlo.iota dim = 0 : tensor<7x3xi32>
       %1 = stablehlo.add %0, %a : tensor<7x3xi32>
       return %1 : tensor<7x3xi32> })"},
    {"reductions",
     R"(func.func @main(%a: tensor<7x6xi32>, %i: tensor<i32>) -> (tensor<6xi32>, tensor<7xi32>, tensor<i32>) {
       %0 = stablehlo.reduce(%a init: %i) applies stablehlo.add across dimensions = [0] : (tensor<7x6xi32>, tensor<i32>) -> tensor<6xi32>
       %1 = stablehlo.reduce(%a init: %i) applies stablehlo.minimum across dimensions = [1] : (tensor<7x6xi32>, tensor<i32>) -> tensor<7xi32>
       %2 = stablehlo.reduce(%a init: %i) applies stablehlo.multiply across dimensions = [0, 1] : (tensor<7x6xi32>, tensor<i32>) -> tensor<i32>
       return %0, %1, %2 : tensor<6xi32>, tensor<7xi32>, tensor<i32> })"},
    {"cumsum", R"(func.func @main(%a: tensor<9x4xi32>) -> tensor<9x4xi32> {
       %c = stablehlo.constant dense<0> : tensor<i32>
       %0 = "stablehlo.reduce_window"(%a, %c) <{padding = dense<[[8, 0], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 9, 1>}> ({
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           %s = stablehlo.add %x, %y : tensor<i32>
           stablehlo.return %s : tensor<i32>
       }) : (tensor<9x4xi32>, tensor<i32>) -> tensor<9x4xi32>
       return %0 : tensor<9x4xi32> })"},
    {"max pooling with padding", R"(func.func @main(%a: tensor<11x5xf32>) -> tensor<6x5xf32> {
       %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
       %0 = "stablehlo.reduce_window"(%a, %c) <{padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>}> ({
         ^bb0(%x: tensor<f32>, %y: tensor<f32>):
           %s = stablehlo.maximum %x, %y : tensor<f32>
           stablehlo.return %s : tensor<f32>
       }) : (tensor<11x5xf32>, tensor<f32>) -> tensor<6x5xf32>
       return %0 : tensor<6x5xf32> })"},
    {"convolution",
     R"(func.func @main(%a: tensor<2x9x7x4xf32>, %k: tensor<3x2x2x6xf32>) -> tensor<2x5x6x6xf32> {
       %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 1], pad = [[1, 1], [0, 0]]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64} : (tensor<2x9x7x4xf32>, tensor<3x2x2x6xf32>) -> tensor<2x5x6x6xf32>
       return %0 : tensor<2x5x6x6xf32> })"},
    {"batched matmul",
     R"(func.func @main(%a: tensor<3x5x4xf32>, %b: tensor<3x4x7xf32>) -> tensor<3x5x7xf32> {
       %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<3x5x4xf32>, tensor<3x4x7xf32>) -> tensor<3x5x7xf32>
       return %0 : tensor<3x5x7xf32> })"},
    {"dynamic slices",
     R"(func.func @main(%a: tensor<9x6xi32>, %u: tensor<4x6xi32>, %i: tensor<i32>, %j: tensor<i32>) -> (tensor<9x6xi32>, tensor<3x6xi32>) {
       %0 = stablehlo.dynamic_update_slice %a, %u, %i, %j : (tensor<9x6xi32>, tensor<4x6xi32>, tensor<i32>, tensor<i32>) -> tensor<9x6xi32>
       %1 = stablehlo.dynamic_slice %a, %i, %j, sizes = [3, 6] : (tensor<9x6xi32>, tensor<i32>, tensor<i32>) -> tensor<3x6xi32>
       return %0, %1 : tensor<9x6xi32>, tensor<3x6xi32> })"},
    {"dynamic slices of a few elements",
     R"(func.func @main(%a: tensor<17x6xf32>, %i: tensor<ui8>, %j: tensor<ui8>) -> (tensor<5x6xf32>, tensor<1x2xf32>, tensor<3x1xi1>) {
       %0 = stablehlo.dynamic_slice %a, %i, %j, sizes = [5, 6] : (tensor<17x6xf32>, tensor<ui8>, tensor<ui8>) -> tensor<5x6xf32>
       %1 = stablehlo.dynamic_slice %a, %i, %j, sizes = [1, 2] : (tensor<17x6xf32>, tensor<ui8>, tensor<ui8>) -> tensor<1x2xf32>
       %z = stablehlo.constant dense<0.0> : tensor<17x6xf32>
       %p = stablehlo.compare LT, %a, %z : (tensor<17x6xf32>, tensor<17x6xf32>) -> tensor<17x6xi1>
       %2 = stablehlo.dynamic_slice %p, %i, %j, sizes = [3, 1] : (tensor<17x6xi1>, tensor<ui8>, tensor<ui8>) -> tensor<3x1xi1>
       return %0, %1, %2 : tensor<5x6xf32>, tensor<1x2xf32>, tensor<3x1xi1> })"},
    {"max pooling backward, overlapping windows and padding",
     R"(func.func @main(%a: tensor<11x5xf32>, %g: tensor<6x5xf32>, %i: tensor<f32>) -> tensor<11x5xf32> {
       %0 = "stablehlo.select_and_scatter"(%a, %g, %i) <{padding = dense<[[1, 1], [0, 0]]> : tensor<2x2xi64>, window_dimensions = array<i64: 3, 1>, window_strides = array<i64: 2, 1>}> ({
         ^bb0(%x: tensor<f32>, %y: tensor<f32>):
           %s = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
           stablehlo.return %s : tensor<i1>
       }, {
         ^bb0(%x: tensor<f32>, %y: tensor<f32>):
           %s = stablehlo.add %x, %y : tensor<f32>
           stablehlo.return %s : tensor<f32>
       }) : (tensor<11x5xf32>, tensor<6x5xf32>, tensor<f32>) -> tensor<11x5xf32>
       return %0 : tensor<11x5xf32> })"},
    {"max pooling backward with gaps between windows, in two dimensions",
     R"(func.func @main(%a: tensor<2x14x10xi32>, %g: tensor<2x4x3xi32>, %i: tensor<i32>) -> tensor<2x14x10xi32> {
       %0 = "stablehlo.select_and_scatter"(%a, %g, %i) <{padding = dense<[[0, 0], [0, -1], [2, 1]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 2, 4>, window_strides = array<i64: 1, 3, 4>}> ({
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           %s = stablehlo.compare GE, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %s : tensor<i1>
       }, {
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           %s = stablehlo.add %x, %y : tensor<i32>
           stablehlo.return %s : tensor<i32>
       }) : (tensor<2x14x10xi32>, tensor<2x4x3xi32>, tensor<i32>) -> tensor<2x14x10xi32>
       return %0 : tensor<2x14x10xi32> })"},
    {"gather and scatter with duplicates",
     R"(func.func @main(%t: tensor<10x4xi32>, %ids: tensor<7x1xi32>, %u: tensor<7x4xi32>) -> (tensor<7x4xi32>, tensor<10x4xi32>) {
       %0 = "stablehlo.gather"(%t, %ids) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<10x4xi32>, tensor<7x1xi32>) -> tensor<7x4xi32>
       %1 = "stablehlo.scatter"(%t, %ids, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           %s = stablehlo.add %x, %y : tensor<i32>
           stablehlo.return %s : tensor<i32>
       }) : (tensor<10x4xi32>, tensor<7x1xi32>, tensor<7x4xi32>) -> tensor<10x4xi32>
       return %0, %1 : tensor<7x4xi32>, tensor<10x4xi32> })"},
    {"sort", R"(func.func @main(%a: tensor<9x3xi32>) -> tensor<9x3xi32> {
       %0 = "stablehlo.sort"(%a) <{dimension = 0 : i64, is_stable = true}> ({
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           %s = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %s : tensor<i1>
       }) : (tensor<9x3xi32>) -> tensor<9x3xi32>
       return %0 : tensor<9x3xi32> })"},
    {"softmax with empty shards", R"(func.func @main(%a: tensor<3x2xf32>) -> tensor<3x2xf32> {
       %m = stablehlo.constant dense<0xFF800000> : tensor<f32>
       %z = stablehlo.constant dense<0.0> : tensor<f32>
       %0 = stablehlo.reduce(%a init: %m) applies stablehlo.maximum across dimensions = [1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3xf32>
       %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<3xf32>) -> tensor<3x2xf32>
       %2 = stablehlo.subtract %a, %1 : tensor<3x2xf32>
       %3 = stablehlo.exponential %2 : tensor<3x2xf32>
       %4 = stablehlo.reduce(%3 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<3x2xf32>, tensor<f32>) -> tensor<3xf32>
       %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<3xf32>) -> tensor<3x2xf32>
       %6 = stablehlo.divide %3, %5 : tensor<3x2xf32>
       return %6 : tensor<3x2xf32> })"},
    {"loop whose carry gets two shardings",
     R"(func.func @main(%a: tensor<6x6xf32>) -> tensor<6x6xf32> {
       %n = stablehlo.constant dense<3> : tensor<i32>
       %one = stablehlo.constant dense<1> : tensor<i32>
       %zero = stablehlo.constant dense<0> : tensor<i32>
       %0:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<6x6xf32>
       cond {
         %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
         stablehlo.return %c : tensor<i1>
       } do {
         %j = stablehlo.add %i, %one : tensor<i32>
         %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<6x6xf32>) -> tensor<6x6xf32>
         %y = stablehlo.add %t, %a : tensor<6x6xf32>
         stablehlo.return %j, %y : tensor<i32>, tensor<6x6xf32>
       }
       return %0#1 : tensor<6x6xf32> })"},
    {"branches", R"(func.func @main(%p: tensor<i1>, %a: tensor<5x4xf32>) -> tensor<5x4xf32> {
       %0 = "stablehlo.if"(%p) ({
         %1 = stablehlo.negate %a : tensor<5x4xf32>
         stablehlo.return %1 : tensor<5x4xf32>
       }, {
         %1 = stablehlo.tanh %a : tensor<5x4xf32>
         stablehlo.return %1 : tensor<5x4xf32>
       }) : (tensor<i1>) -> tensor<5x4xf32>
       return %0 : tensor<5x4xf32> })"},
    {"calls", R"(func.func private @twice(%x: tensor<5x4xf32>) -> tensor<5x4xf32> {
       %0 = stablehlo.add %x, %x : tensor<5x4xf32>
       return %0 : tensor<5x4xf32> }
     func.func @main(%a: tensor<5x4xf32>) -> tensor<5x4xf32> {
       %0 = call @twice(%a) : (tensor<5x4xf32>) -> tensor<5x4xf32>
       %1 = call @twice(%0) : (tensor<5x4xf32>) -> tensor<5x4xf32>
       return %1 : tensor<5x4xf32> })"},
};

class RandomShardings : public testing::TestWithParam<int> {};

TEST_P(RandomShardings, mean_the_same) {
  const Scenario& scenario = kScenarios[GetParam()];
  for (const char* mesh_text : {"x=2", "x=3", "x=2,y=2", "x=2,y=3", "x=2,y=2,z=2", "x=8"}) {
    const auto mesh = std::make_shared<const Mesh>([&] {
      Mesh mesh = parse_mesh(mesh_text);
      mesh.name = "mesh";
      return mesh;
    }());
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      const Graph graph = parse_module(scenario.text);
      Graph sharded = graph;
      sharded.meshes = {mesh};
      shard_randomly(sharded, "main", mesh, seed);
      const Program program = partition(sharded, {.entry = "main", .mesh = mesh});
      const Executor executor(program);
      Executable compiled{Program(program)};
      std::vector<Array> args;
      for (const Type& type : graph.find_function("main")->arg_types)
        args.push_back(make_array(type, fmt::format("random:{}", seed + args.size())));
      const std::vector<Array> actual = executor.run(args), again = executor.run(args);
      const std::vector<Array> fused = compiled.run(args);
      const std::vector<Array> expected = run_function(graph, "main", args);
      for (size_t i = 0; i < actual.size(); ++i) {
        const Comparison compiles = compare(fused[i], expected[i]);
        EXPECT_TRUE(compiles.same) << scenario.name << ", compiled, mesh " << mesh_text << ", seed "
                                   << seed << ", result " << i << ": " << compiles.first;
        EXPECT_TRUE(identical(actual[i], again[i])) << "the bits depend on timing";
        const Comparison comparison = compare(actual[i], expected[i]);
        EXPECT_TRUE(comparison.same) << scenario.name << ", mesh " << mesh_text << ", seed " << seed
                                     << ", result " << i << ": " << comparison.first;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Scenarios, RandomShardings,
                         testing::Range(0, static_cast<int>(std::size(kScenarios))));

}  // namespace
}  // namespace cleave
