// Results of sharded runs beside those of one device: what roundings excuse, and what they do not.
#include "cleave/runtime/compare_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cleave/graph/text/text.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/models/registry.h"
#include "cleave/rules/export/export_passes.h"
#include "cleave/runtime/compare.h"
#include "cleave/runtime/executor.h"
#include "cleave/runtime/fill.h"
#include "cleave/runtime/random_roundings.h"
#include "cleave/spmd/partition.h"
#include "cleave/spmd/random_shardings.h"

namespace cleave {
namespace {

using testing::HasSubstr;

Array floats(Shape shape, const std::function<float(int64_t)>& value) {
  Array array(DType::F32, std::move(shape));
  for (int64_t i = 0; i < array.num_elements(); ++i) array.data<float>()[i] = value(i);
  return array;
}

float wave(int64_t i) { return std::sin(static_cast<float>(i) * 1.7F + 0.3F); }

std::vector<Array> run_randomly_sharded(const Graph& graph, const std::vector<Array>& args,
                                        const std::string& mesh_text, uint64_t seed) {
  Graph sharded = graph;
  Mesh mesh = parse_mesh(mesh_text);
  if (mesh.name.empty()) mesh.name = "mesh";
  const auto shared = std::make_shared<const Mesh>(std::move(mesh));
  drop_shardings_and_meshes(sharded);
  sharded.meshes = {shared};
  shard_randomly(sharded, "main", shared, seed);
  return Executor(partition(sharded, {.entry = "main", .mesh = shared})).run(args, {});
}

// Compares random shardings, all of which are right; gives how many numbers took roundings.
int64_t unsteady_under_shardings(const Graph& graph, const std::vector<Array>& args,
                                 uint64_t seeds = 6) {
  const std::vector<Array> expected = run_function(graph, "main", args);
  int64_t unsteady = 0;
  for (const char* mesh : {"x=2,y=2", "x=3"})
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const RunComparison comparison = compare_runs(graph, "main", args, expected,
                                                    run_randomly_sharded(graph, args, mesh, seed));
      EXPECT_TRUE(comparison.same())
          << mesh << " random:" << seed << ": " << testing::PrintToString(comparison.differences);
      unsteady += comparison.unsteady;
    }
  return unsteady;
}

void add_to(Array& array, int64_t element, float what) {
  array = array.copy();
  array.data<float>()[element] += what;
}

// Large terms that cancel: the sum is a few of their roundings.
constexpr const char* kCancels = R"(
func.func @main(%x: tensor<64x96xf32>) -> tensor<64xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<64x96xf32>, tensor<f32>) -> tensor<64xf32>
  return %sum : tensor<64xf32>
})";

Array cancelling_rows() {
  return floats({64, 96}, [](int64_t i) {
    const int64_t row = i / 96, column = i % 96;
    const int64_t other = column < 48 ? column : (7 * column + 5) % 48;
    return (column < 48 ? 1e4F : -1e4F) * (wave(row * 48 + other) + 1.5F);
  });
}

TEST(CompareRuns, ExcusesSumsThatCancel) {
  EXPECT_GT(unsteady_under_shardings(parse_module(kCancels), {cancelling_rows()}), 0);
}

TEST(CompareRuns, RefusesWhatIsFarFromASumThatCancels) {
  const Graph graph = parse_module(kCancels);
  const std::vector<Array> args{cancelling_rows()};
  const std::vector<Array> expected = run_function(graph, "main", args);
  std::vector<Array> wrong = expected;
  add_to(wrong[0], 7, 5);  // roundings of 1e4 are about 1e-3
  const RunComparison comparison = compare_runs(graph, "main", args, expected, wrong);
  EXPECT_FALSE(comparison.same());
  EXPECT_EQ(comparison.different, 1);
  EXPECT_THAT(comparison.differences.at(0), HasSubstr("result 0 differs by 5: [7]"));
}

// Normalised rows that are nearly constant, and beside them a sum that nothing disturbs.
constexpr const char* kNormalises = R"(
func.func @main(%x: tensor<32x100xf32>) -> (tensor<32x100xf32>, tensor<32xf32>, tensor<32x100xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %count = stablehlo.constant dense<100.0> : tensor<32xf32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<32x100xf32>, tensor<f32>) -> tensor<32xf32>
  %mean = stablehlo.divide %sum, %count : tensor<32xf32>
  %means = stablehlo.broadcast_in_dim %mean, dims = [0] : (tensor<32xf32>) -> tensor<32x100xf32>
  %off = stablehlo.subtract %x, %means : tensor<32x100xf32>
  %square = stablehlo.multiply %off, %off : tensor<32x100xf32>
  %squares = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<32x100xf32>, tensor<f32>) -> tensor<32xf32>
  %root = stablehlo.sqrt %squares : tensor<32xf32>
  %roots = stablehlo.broadcast_in_dim %root, dims = [0] : (tensor<32xf32>) -> tensor<32x100xf32>
  %y = stablehlo.divide %off, %roots : tensor<32x100xf32>
  %twice = stablehlo.add %x, %x : tensor<32x100xf32>
  return %y, %sum, %twice : tensor<32x100xf32>, tensor<32xf32>, tensor<32x100xf32>
})";

Array nearly_constant() {
  return floats({32, 100},
                [](int64_t i) { return 3.3F * (1 + 3e-7F * wave(i) + 1e-5F * wave(i / 100)); });
}

TEST(CompareRuns, ExcusesNormalisedConstants) {
  EXPECT_GT(unsteady_under_shardings(parse_module(kNormalises), {nearly_constant()}), 0);
}

TEST(CompareRuns, RefusesWrongNumbersBesideUnsteadyOnes) {
  const Graph graph = parse_module(kNormalises);
  const std::vector<Array> args{nearly_constant()};
  const std::vector<Array> expected = run_function(graph, "main", args);
  for (size_t result : {1, 2}) {
    std::vector<Array> wrong = run_randomly_sharded(graph, args, "x=2,y=2", 3);
    const float magnitude = std::fabs(wrong[result].contiguous().data<float>()[5]);
    add_to(wrong[result], 5, 1e-4F * magnitude);
    const RunComparison comparison = compare_runs(graph, "main", args, expected, wrong);
    EXPECT_EQ(comparison.different, 1) << "result " << result;
    ASSERT_EQ(comparison.differences.size(), 1U);
    // An elementwise op of the arguments is the same everywhere.
    if (result == 2) {
      EXPECT_THAT(comparison.differences[0], HasSubstr("roundings do not move it"));
    }
  }
}

// The place of the largest of several sums that are equal but for their roundings, values rounded
// at the half, and a comparison.
constexpr const char* kChooses = R"(
func.func @main(%x: tensor<24x40xf32>, %w: tensor<40x6xf32>)
    -> (tensor<24x6xi32>, tensor<24x6xf32>, tensor<24x6xi1>, tensor<24xi32>) {
  %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<24x40xf32>, tensor<40x6xf32>) -> tensor<24x6xf32>
  %places = stablehlo.iota dim = 1 : tensor<24x6xi32>
  %sorted:2 = "stablehlo.sort"(%y, %places) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %less = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }) : (tensor<24x6xf32>, tensor<24x6xi32>) -> (tensor<24x6xf32>, tensor<24x6xi32>)
  %first = stablehlo.slice %y [0:24, 0:1] : (tensor<24x6xf32>) -> tensor<24x1xf32>
  %firsts = stablehlo.broadcast_in_dim %first, dims = [0, 1] : (tensor<24x1xf32>) -> tensor<24x6xf32>
  %half = stablehlo.constant dense<0.5> : tensor<24x6xf32>
  %ratio = stablehlo.divide %y, %firsts : tensor<24x6xf32>
  %shifted = stablehlo.add %ratio, %half : tensor<24x6xf32>
  %whole = stablehlo.floor %ratio : tensor<24x6xf32>
  %above = stablehlo.compare GT, %y, %firsts : (tensor<24x6xf32>, tensor<24x6xf32>) -> tensor<24x6xi1>
  %sure = stablehlo.iota dim = 0 : tensor<24xi32>
  return %sorted#1, %whole, %above, %sure
    : tensor<24x6xi32>, tensor<24x6xf32>, tensor<24x6xi1>, tensor<24xi32>
})";

// Columns of `w` are equal, but their sums are made in another order: by device.
std::vector<Array> near_ties() {
  return {floats({24, 40}, wave), floats({40, 6}, [](int64_t i) { return 1 + wave(i / 6); })};
}

TEST(CompareRuns, ExcusesChoicesBetweenNearTies) {
  const Graph graph = parse_module(kChooses);
  const std::vector<Array> args = near_ties();
  unsteady_under_shardings(graph, args, 3);
  // As if a sum came out one rounding higher: another place, one more, and above.
  const std::vector<Array> expected = run_function(graph, "main", args);
  std::vector<Array> flipped = expected;
  for (Array& array : flipped) array = array.copy();
  std::swap(flipped[0].data<int32_t>()[0], flipped[0].data<int32_t>()[3]);
  flipped[1].data<float>()[9] += flipped[1].data<float>()[9] > 0 ? -1 : 1;
  flipped[2].data<bool>()[15] = !flipped[2].data<bool>()[15];
  const RunComparison comparison = compare_runs(graph, "main", args, expected, flipped);
  EXPECT_TRUE(comparison.same()) << testing::PrintToString(comparison.differences);
  EXPECT_EQ(comparison.unsteady, 4);
  EXPECT_THAT(unsteady_text(comparison), HasSubstr("4 of 456 numbers differ"));
}

TEST(CompareRuns, RefusesChoicesThatAreClear) {
  const Graph graph = parse_module(kChooses);
  const std::vector<Array> args{floats({24, 40}, wave),
                                floats({40, 6}, [](int64_t i) { return wave(i) + 2 * (i % 6); })};
  const std::vector<Array> expected = run_function(graph, "main", args);
  for (size_t result : {0, 1, 2, 3}) {
    std::vector<Array> wrong = expected;
    wrong[result] = wrong[result].copy();
    if (result == 1)
      wrong[1].data<float>()[9] += 1;
    else if (result == 2)
      wrong[2].data<bool>()[15] = !wrong[2].data<bool>()[15];
    else
      wrong[result].data<int32_t>()[4] += 1;
    const RunComparison comparison = compare_runs(graph, "main", args, expected, wrong);
    EXPECT_EQ(comparison.different, 1) << "result " << result;
  }
}

TEST(CompareRuns, RefusesAForgottenPart) {
  const Graph graph = parse_module(kNormalises);
  const std::vector<Array> args{nearly_constant()};
  const std::vector<Array> expected = run_function(graph, "main", args);
  // As if the all_reduce of two halves had been left out.
  std::vector<Array> wrong = expected;
  wrong[1] = binary(BinaryOp::Multiply, expected[1],
                    Array::scalar<float>(DType::F32, 0.5F).broadcast({32}, {}));
  const RunComparison comparison = compare_runs(graph, "main", args, expected, wrong);
  EXPECT_EQ(comparison.different, 32);
  EXPECT_THAT(comparison.differences.at(0), HasSubstr("32 of its 32 numbers differ so"));
}

TEST(CompareRuns, RefusesWhatIsNotFinite) {
  const Graph graph = parse_module(kCancels);
  const std::vector<Array> args{cancelling_rows()};
  const std::vector<Array> expected = run_function(graph, "main", args);
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<Array> wrong = expected;
    add_to(wrong[0], 3, value);
    EXPECT_EQ(compare_runs(graph, "main", args, expected, wrong).different, 1);
  }
}

TEST(CompareRuns, TellsLargeIntegersApart) {
  const Graph graph = parse_module(
      "func.func @main(%x: tensor<2xi64>) -> tensor<2xi64> { return %x : tensor<2xi64> }");
  Array x(DType::I64, {2});
  x.data<int64_t>()[0] = INT64_MAX - 1;
  x.data<int64_t>()[1] = 1;
  std::vector<Array> wrong{x.copy()};
  wrong[0].data<int64_t>()[0] = INT64_MAX;
  const std::vector<Array> args{x};
  EXPECT_EQ(compare_runs(graph, "main", args, args, wrong).different, 1);
  EXPECT_TRUE(compare_runs(graph, "main", args, args, args).same());
}

TEST(CompareRuns, TrainingStepsOfModels) {
  for (const char* name :
       {"model:gpt?step=train&layers=1&d=32&heads=4&kv_heads=2&hidden=64&vocab=64&"
        "batch=4&length=16",
        "model:resnet?step=train&blocks=1&channels=8&size=8&batch=4"}) {
    const models::BuiltModel model = models::build_model(name, nullptr);
    std::vector<Array> args;
    for (const Tensor& tensor : model.arguments) args.push_back(tensor.to_host());
    unsteady_under_shardings(model.graph, args, 2);
    // Weights, moments, loss: whatever is off by 1e-3 of its own scale is seen.
    const std::vector<Array> expected = run_function(model.graph, "main", args);
    for (size_t i = 0; i < expected.size(); i += 11) {
      std::vector<Array> wrong = expected;
      const Comparison itself = compare(expected[i], expected[i]);
      if (expected[i].dtype() != DType::F32 || itself.scale < 1e-6) continue;
      int64_t largest = 0;
      const float* x = expected[i].data<float>();
      for (int64_t k = 0; k < expected[i].num_elements(); ++k)
        if (std::fabs(x[k]) > std::fabs(x[largest])) largest = k;
      add_to(wrong[i], largest, static_cast<float>(1e-3 * itself.scale));
      EXPECT_FALSE(compare_runs(model.graph, "main", args, expected, wrong).same())
          << name << " result " << i;
    }
  }
}

TEST(RandomRoundings, LeaveExactSumsAlone) {
  const Graph graph = parse_module(R"(
func.func @main(%whole: tensor<16x8xf32>, %x: tensor<8x5xf32>, %hot: tensor<3x8xf32>)
    -> (tensor<16xf32>, tensor<3x5xf32>, tensor<5xf32>, tensor<8x5xf32>, tensor<5xf32>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %low = stablehlo.constant dense<-1.0e9> : tensor<f32>
  %counts = stablehlo.reduce(%whole init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<16x8xf32>, tensor<f32>) -> tensor<16xf32>
  %rows = stablehlo.dot_general %hot, %x, contracting_dims = [1] x [0]
    : (tensor<3x8xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %most = stablehlo.reduce(%x init: %low) applies stablehlo.maximum across dimensions = [0]
    : (tensor<8x5xf32>, tensor<f32>) -> tensor<5xf32>
  %e = stablehlo.exponential %x : tensor<8x5xf32>
  %sum = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0]
    : (tensor<8x5xf32>, tensor<f32>) -> tensor<5xf32>
  return %counts, %rows, %most, %e, %sum
    : tensor<16xf32>, tensor<3x5xf32>, tensor<5xf32>, tensor<8x5xf32>, tensor<5xf32>
})");
  const std::vector<Array> args{
      floats({16, 8}, [](int64_t i) { return static_cast<float>(i % 5); }), floats({8, 5}, wave),
      floats({3, 8}, [](int64_t i) { return i % 8 == 2 * (i / 8) ? 1.F : 0.F; })};
  const std::vector<Array> expected = run_function(graph, "main", args);
  const auto shaken = run_with_roundings(graph, "main", args, {.seed = 5});
  ASSERT_TRUE(shaken);
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(identical((*shaken)[i], expected[i])) << i;
  EXPECT_FALSE(identical((*shaken)[4], expected[4]));
  EXPECT_TRUE(compare((*shaken)[4], expected[4], 50).same);
  EXPECT_TRUE(identical((*run_with_roundings(graph, "main", args, {.seed = 5}))[4], (*shaken)[4]));
  EXPECT_FALSE(identical((*run_with_roundings(graph, "main", args, {.seed = 6}))[4], (*shaken)[4]));
}

// bf16 operands are exact in the 32 bits that they are summed in: it is those that round.
TEST(RandomRoundings, ShakeWideSumsByTheirOwnRoundings) {
  const Graph graph = parse_module(R"(
func.func @main(%a: tensor<8x64xbf16>, %b: tensor<64x8xbf16>) -> tensor<8x8xf32> {
  %y = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
    : (tensor<8x64xbf16>, tensor<64x8xbf16>) -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
})");
  const std::vector<Array> args{convert(floats({8, 64}, wave), DType::BF16),
                                convert(floats({64, 8}, wave), DType::BF16)};
  const std::vector<Array> expected = run_function(graph, "main", args);
  const auto shaken = run_with_roundings(graph, "main", args, {});
  ASSERT_TRUE(shaken);
  EXPECT_FALSE(identical((*shaken)[0], expected[0]));
  EXPECT_TRUE(compare((*shaken)[0], expected[0], 200).same);
}

// Newton's iteration until nothing changes: shaken, it need not end.
TEST(RandomRoundings, GiveUpOnLoopsThatDoNotSettle) {
  const Graph graph = parse_module(R"(
func.func @main(%x: tensor<32xf32>) -> tensor<f32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %huge = stablehlo.constant dense<1.0e9> : tensor<f32>
  %r:2 = stablehlo.while(%now = %huge, %before = %zero) : tensor<f32>, tensor<f32>
    cond {
      %more = stablehlo.compare NE, %now, %before : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %half = stablehlo.constant dense<0.5> : tensor<f32>
      %s = stablehlo.multiply %now, %half : tensor<f32>
      %all = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<32xf32>
      %terms = stablehlo.multiply %all, %x : tensor<32xf32>
      %sum = stablehlo.reduce(%terms init: %half) applies stablehlo.add across dimensions = [0]
        : (tensor<32xf32>, tensor<f32>) -> tensor<f32>
      stablehlo.return %sum, %now : tensor<f32>, tensor<f32>
    }
  return %r#0 : tensor<f32>
})");
  const std::vector<Array> args{floats({32}, [](int64_t i) { return 0.03F + 0.001F * wave(i); })};
  const std::vector<Array> expected = run_function(graph, "main", args);
  std::vector<Array> wrong{expected[0].copy()};
  add_to(wrong[0], 0, 1);
  EXPECT_EQ(compare_runs(graph, "main", args, expected, wrong).different, 1);
}

}  // namespace
}  // namespace cleave
