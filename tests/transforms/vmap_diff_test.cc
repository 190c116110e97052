#include "batch_harness.h"
#include "cleave/transforms/diff.h"

namespace cleave {
namespace {

const char* const kText = R"(
func.func @dense(%x: tensor<3xf32>, %w: tensor<3x4xf32>) -> tensor<f32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [0] x [0] : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  %1 = stablehlo.tanh %0 : tensor<4xf32>
  %2 = stablehlo.multiply %1, %1 : tensor<4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%2 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
func.func @convolve(%x: tensor<2x7x4xf32>, %k: tensor<3x4x5xf32>) -> tensor<f32> {
  %0 = stablehlo.convolution(%x, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[1, 0]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<2x7x4xf32>, tensor<3x4x5xf32>) -> tensor<2x3x5xf32>
  %1 = stablehlo.sine %0 : tensor<2x3x5xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1, 2] : (tensor<2x3x5xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
func.func @look_up(%x: tensor<6x4xf32>, %i: tensor<5x1xi64>) -> tensor<f32> {
  %0 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<6x4xf32>, tensor<5x1xi64>) -> tensor<5x4xf32>
  %1 = stablehlo.exponential %0 : tensor<5x4xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%1 init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<5x4xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
}
func.func @choose(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<f32> {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.sine %x : tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }, {
    %1 = stablehlo.multiply %x, %x : tensor<3xf32>
    stablehlo.return %1 : tensor<3xf32>
  }) : (tensor<i1>) -> tensor<3xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %3 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<3xf32>, tensor<f32>) -> tensor<f32>
  return %3 : tensor<f32>
})";

VmapOptions first_batched(const Graph& graph, const std::string& name, int64_t size) {
  const Function& function = *graph.find_function(name);
  VmapOptions options;
  options.size = size;
  options.in_dims.resize(function.arg_types.size());
  options.in_dims[0] = 0;
  options.out_dims.resize(function.result_types.size(), 0);
  return options;
}

// The derivative of f, batched, is like a loop over derivatives.
TEST(VmapOfDerivatives, AreLikeALoop) {
  for (const char* name : {"dense", "convolve", "look_up", "choose"})
    for (const auto& derive : {&grad, &jvp, &vjp}) {
      Graph graph = parse_module(kText);
      const std::string derived = (*derive)(graph, name, {});
      VmapOptions options = first_batched(graph, derived, 3);
      expect_like_loop(graph, derived, options, derived);
      options.in_dims.assign(options.in_dims.size(), 0);
      expect_like_loop(graph, derived, options, derived + " in all arguments");
    }
}

// The derivative of the batched f, by an argument that has examples, is the derivative of each; by
// one that they share, the sum.
TEST(DerivativesOfVmap, AreTheSumOverTheExamples) {
  Graph graph = parse_module(kText);
  const int64_t size = 3;
  for (const char* name : {"dense", "convolve"}) {
    VmapOptions options = first_batched(graph, name, size);
    const std::string pullback = vjp(graph, vmap(graph, name, options));
    const std::string one = grad(graph, name);
    const Function& function = *graph.find_function(name);
    std::vector<Array> args = batched_arguments(function, options.in_dims, size, 1);
    const std::vector<Array> each =
        run_loop(graph, one, args, {.in_dims = options.in_dims, .out_dims = {0, 0}, .size = size});
    args.push_back(make_array(Type::tensor(DType::F32, {size}), "ones"));
    const std::vector<Array> actual = run_function(graph, pullback, args);
    ASSERT_EQ(actual.size(), 3u);
    const Comparison own = compare(actual[1], each[0], kRoundings);
    EXPECT_TRUE(own.same) << name << ": " << own.first;
    Graph sums;
    GraphBuilder b =
        GraphBuilder::function(sums, "main", {Type::tensor(DType::F32, each[1].shape())});
    b.finish({b.reduce(b.arg(0), "stablehlo.add", 0, {0})});
    const Comparison shared =
        compare(actual[2], run_function(sums, "main", std::vector<Array>{each[1]})[0], kRoundings);
    EXPECT_TRUE(shared.same) << name << ": " << shared.first;
  }
}

}  // namespace
}  // namespace cleave
