#include "cleave/compile/executable.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/rules/pipelines.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/fill.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"
#include "tests/compile/count_allocations.h"
#include "tests/support/arguments.h"

namespace cleave {
namespace {

void expect_same(const std::vector<Array>& actual, const std::vector<Array>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const Comparison comparison = compare(actual[i], expected[i]);
    EXPECT_TRUE(comparison.same) << "result " << i << ": " << comparison.first;
  }
}

void expect_same_as_op_by_op(const std::string& text) {
  const Graph graph = parse_module(text, "test");
  const std::vector<Array> args = arguments(graph);
  Executable executable(graph, "main");
  EXPECT_TRUE(executable.is_compiled());
  const std::vector<Array> expected = run_function(graph, "main", args);
  expect_same(executable.run(args), expected);
  expect_same(executable.run(args), expected);
}

TEST(Executable, LoopsCarryWithoutLosingValues) {
  // Values that trade places, one that is updated in place, one that stays, one from outside.
  expect_same_as_op_by_op(R"(
func.func @main(%a: tensor<5xf32>, %b: tensor<5xf32>, %t: tensor<8x5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<8x5xf32>, tensor<i32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<7> : tensor<i32>
  %half = stablehlo.constant dense<0.5> : tensor<5xf32>
  %0:4 = stablehlo.while(%i = %zero, %x = %a, %y = %b, %s = %t) : tensor<i32>, tensor<5xf32>, tensor<5xf32>, tensor<8x5xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %sum = stablehlo.add %x, %y : tensor<5xf32>
    %scaled = stablehlo.multiply %sum, %half : tensor<5xf32>
    %row = stablehlo.reshape %scaled : (tensor<5xf32>) -> tensor<1x5xf32>
    %u = stablehlo.dynamic_update_slice %s, %row, %i, %zero : (tensor<8x5xf32>, tensor<1x5xf32>, tensor<i32>, tensor<i32>) -> tensor<8x5xf32>
    stablehlo.return %next, %y, %scaled, %u : tensor<i32>, tensor<5xf32>, tensor<5xf32>, tensor<8x5xf32>
  }
  return %0#1, %0#2, %0#3, %0#0 : tensor<5xf32>, tensor<5xf32>, tensor<8x5xf32>, tensor<i32>
})");
}

TEST(Executable, ArgumentsComeBackInAnotherShape) {
  const Graph graph = parse_module(R"(
func.func @main(%x: tensor<3x5xf32>, %k: tensor<6xf32>) -> (tensor<5x3xf32>, tensor<3x5xf32>, tensor<6xi32>, tensor<5x3xf32>) {
  %0 = stablehlo.reshape %x : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %1 = stablehlo.bitcast_convert %k : (tensor<6xf32>) -> tensor<6xi32>
  %2 = stablehlo.transpose %x, dims = [1, 0] : (tensor<3x5xf32>) -> tensor<5x3xf32>
  return %0, %x, %1, %2 : tensor<5x3xf32>, tensor<3x5xf32>, tensor<6xi32>, tensor<5x3xf32>
})",
                                   "test");
  const std::vector<Array> args = arguments(graph);
  Executable executable(graph, "main");
  const std::vector<Array> results = executable.run(args);
  const std::vector<Array> expected = run_function(graph, "main", args);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(results[i].shape(), expected[i].shape()) << i;
    EXPECT_EQ(results[i].dtype(), expected[i].dtype()) << i;
  }
  expect_same(results, expected);
}

TEST(Executable, LoopsInLoops) {
  expect_same_as_op_by_op(R"(
func.func @main(%a: tensor<4x4xf32>, %b: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<3> : tensor<i32>
  %q = stablehlo.constant dense<0.25> : tensor<4x4xf32>
  %0:3 = stablehlo.while(%i = %zero, %x = %a, %y = %b) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %1:3 = stablehlo.while(%j = %zero, %u = %y, %v = %x) : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
    cond {
      %c = stablehlo.compare LT, %j, %next : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %jn = stablehlo.add %j, %one : tensor<i32>
      %p = stablehlo.dot_general %u, %v, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %w = stablehlo.multiply %p, %q : tensor<4x4xf32>
      stablehlo.return %jn, %v, %w : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
    }
    %t = stablehlo.transpose %1#1, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
    stablehlo.return %next, %1#2, %t : tensor<i32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
  return %0#1, %0#2 : tensor<4x4xf32>, tensor<4x4xf32>
})");
}

TEST(Executable, Branches) {
  for (int branch : {-1, 0, 1, 2, 9})
    expect_same_as_op_by_op(fmt::format(R"(
func.func @main(%a: tensor<5xf32>, %b: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {{
  %i = stablehlo.constant dense<{}> : tensor<i32>
  %j = stablehlo.negate %i : tensor<i32>
  %k = stablehlo.negate %j : tensor<i32>
  %0 = "stablehlo.case"(%k) ({{
    %x = stablehlo.add %a, %b : tensor<5xf32>
    stablehlo.return %x : tensor<5xf32>
  }}, {{
    stablehlo.return %b : tensor<5xf32>
  }}, {{
    %y = stablehlo.exponential %a : tensor<5xf32>
    stablehlo.return %y : tensor<5xf32>
  }}) : (tensor<i32>) -> tensor<5xf32>
  %z = stablehlo.multiply %0, %a : tensor<5xf32>
  return %0, %z : tensor<5xf32>, tensor<5xf32>
}})",
                                        branch));
}

TEST(Executable, RowsAndColumnsOfEverySize) {
  for (const auto& [rows, columns] :
       {std::pair{3, 5}, {1, 700}, {700, 1}, {100, 1000}, {2000, 64}, {3, 9000}, {64, 4096}})
    expect_same_as_op_by_op(fmt::format(R"(
func.func @main(%x: tensor<{0}x{1}xf32>, %scale: tensor<{1}xf32>) -> (tensor<{0}x{1}xf32>, tensor<{1}xf32>, tensor<f32>) {{
  %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [1] : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>
  %mb = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<{0}xf32>) -> tensor<{0}x{1}xf32>
  %d = stablehlo.subtract %x, %mb : tensor<{0}x{1}xf32>
  %e = stablehlo.exponential %d : tensor<{0}x{1}xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>
  %sb = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<{0}xf32>) -> tensor<{0}x{1}xf32>
  %y = stablehlo.divide %e, %sb : tensor<{0}x{1}xf32>
  %b = stablehlo.broadcast_in_dim %scale, dims = [1] : (tensor<{1}xf32>) -> tensor<{0}x{1}xf32>
  %z = stablehlo.multiply %y, %b : tensor<{0}x{1}xf32>
  %c = stablehlo.reduce(%z init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{1}xf32>
  %t = stablehlo.reduce(%z init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<f32>
  return %z, %c, %t : tensor<{0}x{1}xf32>, tensor<{1}xf32>, tensor<f32>
}})",
                                        rows, columns));
}

TEST(Executable, MatrixProductsOfEveryLayout) {
  expect_same_as_op_by_op(R"(
func.func @main(%q: tensor<2x6x3x8xf32>, %k: tensor<2x5x3x8xf32>, %w: tensor<3x8x7xf32>, %x: tensor<6x2x3x8xf32>) -> (tensor<2x3x6x5xf32>, tensor<2x6x7xf32>, tensor<6x7x2xf32>) {
  %s = stablehlo.dot_general %q, %k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : (tensor<2x6x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x3x6x5xf32>
  %y = stablehlo.dot_general %q, %w, contracting_dims = [2, 3] x [0, 1] : (tensor<2x6x3x8xf32>, tensor<3x8x7xf32>) -> tensor<2x6x7xf32>
  %z = stablehlo.dot_general %x, %w, batching_dims = [] x [], contracting_dims = [3, 2] x [1, 0] : (tensor<6x2x3x8xf32>, tensor<3x8x7xf32>) -> tensor<6x2x7xf32>
  %t = stablehlo.transpose %z, dims = [0, 2, 1] : (tensor<6x2x7xf32>) -> tensor<6x7x2xf32>
  return %s, %y, %t : tensor<2x3x6x5xf32>, tensor<2x6x7xf32>, tensor<6x7x2xf32>
})");
}

constexpr const char* kStep = R"(
func.func @main(%w: tensor<64x64xf32> {tf.aliasing_output = 0 : i32}, %x: tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rate = stablehlo.constant dense<0.01> : tensor<64x64xf32>
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %t = stablehlo.tanh %y : tensor<64x64xf32>
  %g = stablehlo.dot_general %x, %t, contracting_dims = [0] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %d = stablehlo.multiply %g, %rate : tensor<64x64xf32>
  %n = stablehlo.subtract %w, %d : tensor<64x64xf32>
  %s = stablehlo.reduce(%t init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<64x64xf32>, tensor<f32>) -> tensor<64xf32>
  return %n, %s : tensor<64x64xf32>, tensor<64xf32>
})";

TEST(Executable, DonatedArgumentsBecomeResults) {
  const Graph graph = parse_module(kStep, "test");
  Executable executable(graph, "main");
  EXPECT_EQ(executable.stats().donated, 1u);
  std::vector<Array> args = arguments(graph);
  const std::vector<Array> expected = run_function(graph, "main", args);
  // Held elsewhere: the argument stays as it is.
  const Array before = args[0].copy();
  expect_same(executable.run(args), expected);
  EXPECT_TRUE(identical(args[0], before));
  // Given away: the result lies where it lay.
  std::vector<std::vector<Array>> given(1);
  given[0] = {args[0].copy(), args[1]};
  const std::byte* memory = given[0][0].raw();
  const auto results = executable.run_shards(std::move(given));
  EXPECT_EQ(results[0][0].raw(), memory);
  expect_same(results[0], expected);
}

// But for the bookkeeping of oneDNN's own calls.
TEST(Executable, AllocatesNothingInTheSteadyState) {
  const Graph graph = parse_module(R"(
func.func @main(%x: tensor<64x48xf32>, %t: tensor<8x64xf32>) -> (tensor<64x48xf32>, tensor<8x64xf32>) {
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %n = stablehlo.constant dense<8> : tensor<i32>
  %0:3 = stablehlo.while(%i = %zero, %v = %x, %s = %t) : tensor<i32>, tensor<64x48xf32>, tensor<8x64xf32>
  cond {
    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %e = stablehlo.tanh %v : tensor<64x48xf32>
    %r = stablehlo.reduce(%e init: %f) applies stablehlo.add across dimensions = [1] : (tensor<64x48xf32>, tensor<f32>) -> tensor<64xf32>
    %b = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<64xf32>) -> tensor<64x48xf32>
    %w = stablehlo.subtract %e, %b : tensor<64x48xf32>
    %row = stablehlo.reshape %r : (tensor<64xf32>) -> tensor<1x64xf32>
    %u = stablehlo.dynamic_update_slice %s, %row, %i, %zero : (tensor<8x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<8x64xf32>
    stablehlo.return %next, %w, %u : tensor<i32>, tensor<64x48xf32>, tensor<8x64xf32>
  }
  %p = stablehlo.transpose %0#1, dims = [1, 0] : (tensor<64x48xf32>) -> tensor<48x64xf32>
  %q = stablehlo.negate %p : tensor<48x64xf32>
  %z = stablehlo.transpose %q, dims = [1, 0] : (tensor<48x64xf32>) -> tensor<64x48xf32>
  return %z, %0#2 : tensor<64x48xf32>, tensor<8x64xf32>
})",
                                   "test");
  Executable executable(graph, "main", {.threads = 1});
  std::vector<std::vector<Array>> args = {arguments(graph)}, results;
  for (int warm = 0; warm < 3; ++warm) executable.run_shards_into(args, results);
  const int64_t before = allocation_count();
  for (int run = 0; run < 10; ++run) executable.run_shards_into(args, results);
  EXPECT_EQ(allocation_count() - before, 0);
  expect_same(results[0], run_function(graph, "main", args[0]));
}

TEST(Executable, WrongArgumentsAreNamed) {
  const Graph graph = parse_module(kStep, "test");
  Executable executable(graph, "main");
  std::vector<Array> args = arguments(graph);
  args[1] = Array::zeros(DType::F32, {64, 65});
  EXPECT_THROW(executable.run(args), UserError);
}

TEST(Executable, ShardedInAnyWay) {
  std::ifstream in(std::string(CLEAVE_TEST_DIR) + "/../../examples/transformer.mlir");
  const Graph graph = parse_module(std::string(std::istreambuf_iterator<char>(in), {}), "example");
  std::vector<Array> args;
  for (const Type& type : graph.find_function("main")->arg_types)
    args.push_back(make_array(type, is_integer(type.dtype) ? "zeros" : "random:3"));
  const std::vector<Array> expected = run_function(graph, "main", args);
  Graph annotated = graph;
  run_propagation_pipeline(annotated, {});
  Executable executable(partition(annotated, {.entry = "main", .mesh = nullptr}));
  EXPECT_TRUE(executable.is_compiled());
  CommLog log;
  expect_same(executable.run(args, {.log = &log}), expected);
  EXPECT_GT(log.count(), 0u);
  for (uint64_t seed : {1, 2}) {
    Graph random = graph;
    drop_shardings_and_meshes(random);
    Mesh shape = parse_mesh("x=2,y=3");
    shape.name = "mesh";
    const auto mesh = std::make_shared<const Mesh>(shape);
    random.meshes = {mesh};
    shard_randomly(random, "main", mesh, seed);
    Executable sharded(partition(random, {.entry = "main", .mesh = mesh}));
    EXPECT_TRUE(sharded.is_compiled());
    expect_same(sharded.run(args), expected);
  }
}

// The change of layout completes one axis and leaves another one pending that sharded the value:
// some devices get nothing of a part.
TEST(Executable, APartThatADeviceGetsNothingOfIsTheIdentity) {
  const Graph graph = parse_module(R"(
    sdy.mesh @mesh = <["x"=2, "y"=2, "z"=2]>
    func.func @main() -> tensor<9xi1> {
      %a = stablehlo.constant dense<0.0> : tensor<9xf32>
      %b = stablehlo.constant dense<1.0> : tensor<9xf32>
      %0 = sdy.sharding_constraint %a <@mesh, [{"y", "x"}]> : tensor<9xf32>
      %1 = sdy.sharding_constraint %b <@mesh, [{"y", "x"}], unreduced=min{"z"}> : tensor<9xf32>
      %2 = stablehlo.compare LT, %0, %1 : (tensor<9xf32>, tensor<9xf32>) -> tensor<9xi1>
      %3 = sdy.sharding_constraint %2 <@mesh, [{"y"}], unreduced=and{"x"}> : tensor<9xi1>
      return %3 : tensor<9xi1>
    })");
  Executable executable(partition(graph, {.entry = "main"}));
  for (int round = 0; round < 3; ++round)
    expect_same(executable.run({}), run_function(graph, "main", {}));
}

}  // namespace
}  // namespace cleave
