#include "cleave/analyze/kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cleave/analyze/collisions.h"
#include "cleave/analyze/kernel_memory.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/text/text.h"
#include "cleave/ops/cost.h"
#include "cleave/spmd/partition.h"

namespace cleave::analyze {
namespace {

Graph marked(const std::string& text, const MachineProfile& profile = builtin_profile("h200")) {
  Graph graph = parse_module(text);
  mark_kernels(graph, "main", profile);
  return graph;
}

// Of every op of that name, in order.
std::vector<KernelUse> uses_of(const Graph& graph, std::string_view op) {
  std::vector<KernelUse> uses;
  graph.walk(graph.find_function("main")->body, [&](NodeId id) {
    if (graph.node(id).name() == op) uses.push_back(*kernel_use(graph.node(id)));
  });
  return uses;
}

KernelUse use_of(const Graph& graph, std::string_view op) { return uses_of(graph, op).at(0); }

// Two results of one function.
std::string two_users(std::string_view function) {
  return fmt::format(R"(
    func.func @main(%x: tensor<1024x1024xbf16>) -> (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) {{
      %0 = stablehlo.{} %x : tensor<1024x1024xbf16>
      %1 = stablehlo.add %0, %x : tensor<1024x1024xbf16>
      %2 = stablehlo.multiply %0, %1 : tensor<1024x1024xbf16>
      return %1, %2 : tensor<1024x1024xbf16>, tensor<1024x1024xbf16>
    }})",
                     function);
}

TEST(Kernels, KeepWhatTakesManyInstructions) {
  EXPECT_GT(use_of(marked(two_users("tanh")), "stablehlo.tanh").writes[0], 0);
  EXPECT_EQ(use_of(marked(two_users("exponential")), "stablehlo.exponential").writes[0], 0);
}

std::string softmax(int rows, int columns) {
  return fmt::format(R"(
    func.func @main(%x: tensor<{0}x{1}xbf16>) -> tensor<{0}x{1}xbf16> {{
      %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.convert %x : (tensor<{0}x{1}xbf16>) -> tensor<{0}x{1}xf32>
      %1 = stablehlo.reduce(%0 init: %least) applies stablehlo.maximum across dimensions = [1]
        : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<{0}xf32>) -> tensor<{0}x{1}xf32>
      %3 = stablehlo.subtract %0, %2 : tensor<{0}x{1}xf32>
      %4 = stablehlo.exponential %3 : tensor<{0}x{1}xf32>
      %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<{0}x{1}xf32>, tensor<f32>) -> tensor<{0}xf32>
      %6 = stablehlo.broadcast_in_dim %5, dims = [0] : (tensor<{0}xf32>) -> tensor<{0}x{1}xf32>
      %7 = stablehlo.exponential %3 : tensor<{0}x{1}xf32>
      %8 = stablehlo.divide %7, %6 : tensor<{0}x{1}xf32>
      %9 = stablehlo.multiply %8, %3 : tensor<{0}x{1}xf32>
      %10 = stablehlo.convert %9 : (tensor<{0}x{1}xf32>) -> tensor<{0}x{1}xbf16>
      return %10 : tensor<{0}x{1}xbf16>
    }})",
                     rows, columns);
}

TEST(Kernels, ReduceAlignedRowsInside) {
  EXPECT_EQ(use_of(marked(softmax(4096, 1024)), "stablehlo.subtract").writes[0], 0);
  EXPECT_GT(use_of(marked(softmax(4096, 1500)), "stablehlo.subtract").writes[0], 0);
}

// Rows of 768 lie in tiles of 1024: the same work on a third more elements.
TEST(Kernels, PadRowsToPowersOfTwo) {
  MachineProfile slow = builtin_profile("h200");
  slow.executor.rows_tops = 0.1;  // so that arithmetic is the limit
  const double even = use_of(marked(softmax(4096, 1024), slow), "stablehlo.divide").works;
  const double padded = use_of(marked(softmax(4096, 768), slow), "stablehlo.divide").works;
  EXPECT_NEAR(even, slow.executor.vector_tops / 0.1, 1e-9);
  EXPECT_NEAR(padded / even, 1024.0 / 768, 1e-9);
}

// Halves of halves, each added to the other: the code of level n is in the kernel 2^n times.
TEST(Kernels, HoldFewCopiesOfAnOp) {
  std::string text = "func.func @main(%v0: tensor<1048576xf32>) -> tensor<4096xf32> {\n";
  int64_t size = 1048576;
  for (int level = 0; level < 8; ++level, size /= 2)
    text += fmt::format(R"(
      %e{0} = stablehlo.exponential %v{0} : tensor<{1}xf32>
      %a{0} = stablehlo.slice %e{0} [0:{1}:2] : (tensor<{1}xf32>) -> tensor<{2}xf32>
      %b{0} = stablehlo.slice %e{0} [1:{1}:2] : (tensor<{1}xf32>) -> tensor<{2}xf32>
      %v{3} = stablehlo.add %a{0}, %b{0} : tensor<{2}xf32>)",
                        level, size, size / 2, level + 1);
  text += "\n return %v8 : tensor<4096xf32> }";
  auto written = [&](int64_t most) {
    MachineProfile profile = builtin_profile("h200");
    profile.executor.most_copies = most;
    int count = 0;
    for (const KernelUse& use : uses_of(marked(text, profile), "stablehlo.add"))
      count += use.writes[0] > 0;
    return count;
  };
  EXPECT_EQ(written(3), 4);   // every second: its code would be there four times
  EXPECT_EQ(written(15), 2);  // every fourth
  EXPECT_EQ(written(0), 1);   // the result alone
}

constexpr const char* kLoop = R"(
  func.func @main(%x: tensor<1024x1024xf32>) -> tensor<1024x1024xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %limit = stablehlo.constant dense<7> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1024x1024xf32>
      cond {
        %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %b = stablehlo.tanh %a : tensor<1024x1024xf32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %b : tensor<i32>, tensor<1024x1024xf32>
      }
    return %0#1 : tensor<1024x1024xf32>
  })";

TEST(Kernels, OfALoopAreLaunchedTogether) {
  const ExecutorProfile& executor = builtin_profile("h200").executor;
  const double launches = use_of(marked(kLoop), "stablehlo.tanh").launches;
  EXPECT_NEAR(launches * executor.launch_us, executor.loop_launch_us * (1 + executor.trip_launches),
              1e-9);
}

std::string convolution(bool reversed) {
  return fmt::format(R"(
    func.func @main(%x: tensor<8x16x16x64xf32>, %w: tensor<4x4x64x32xf32>) -> tensor<8x32x32x32xf32> {{
      %k = stablehlo.reverse %w, dims = [0, 1] : tensor<4x4x64x32xf32>
      %0 = stablehlo.convolution(%x, {}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {{stride = [1, 1], pad = [[2, 2], [2, 2]], lhs_dilate = [2, 2], rhs_dilate = [1, 1]}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<8x16x16x64xf32>, tensor<4x4x64x32xf32>) -> tensor<8x32x32x32xf32>
      return %0 : tensor<8x32x32x32xf32>
    }})",
                     reversed ? "%k" : "%w");
}

// 16 x 16 inputs meet each of 4 x 4 weights; zeros between them meet none.
TEST(Kernels, ZerosOfADilatedInputAreNoWork) {
  const Graph graph = parse_module(convolution(true));
  graph.walk(graph.find_function("main")->body, [&](NodeId id) {
    if (graph.node(id).def->name != "stablehlo.convolution") return;
    EXPECT_EQ(op_cost(graph, graph.node(id)).flops, 2.0 * 8 * 16 * 16 * 4 * 4 * 64 * 32);
  });
}

TEST(Kernels, FillGapsOfConvolutionsThatAreNoGradients) {
  const KernelUse plain = use_of(marked(convolution(false)), "stablehlo.convolution");
  const KernelUse gradient = use_of(marked(convolution(true)), "stablehlo.convolution");
  EXPECT_EQ(plain.gaps, 4);
  EXPECT_EQ(plain.workspace, 4 * 8 * 16 * 16 * 64 * 4);
  EXPECT_EQ(gradient.gaps, 1);
}

// p - m', where m' = m + g is returned too: one kernel that reads three arrays and writes two.
TEST(Kernels, ComputeWhatReadsTheirResults) {
  const Graph graph = marked(R"(
    func.func @main(%p: tensor<1048576xf32>, %m: tensor<1048576xf32>, %g: tensor<1048576xf32>)
        -> (tensor<1048576xf32>, tensor<1048576xf32>) {
      %0 = stablehlo.add %m, %g : tensor<1048576xf32>
      %1 = stablehlo.subtract %p, %0 : tensor<1048576xf32>
      return %0, %1 : tensor<1048576xf32>, tensor<1048576xf32>
    })");
  const KernelUse sum = use_of(graph, "stablehlo.add");
  const KernelUse rest = use_of(graph, "stablehlo.subtract");
  EXPECT_EQ(sum.launches + rest.launches, 1);
  EXPECT_EQ(rest.reads, (std::vector<double>{1, 0}));
  EXPECT_EQ(sum.writes[0] + rest.writes[0], 2);
}

// max(x, 0) for two products, where x is kept for its sign: it is made twice, and never kept.
TEST(Kernels, MakeRectifiersForEachProduct) {
  const Graph graph = marked(R"(
    func.func @main(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>)
        -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1024x1024xf32>
      %x = stablehlo.dot %a, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %y = stablehlo.maximum %x, %zeros : tensor<1024x1024xf32>
      %0 = stablehlo.dot %y, %a : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %1 = stablehlo.dot %y, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %2 = stablehlo.sign %x : tensor<1024x1024xf32>
      return %0, %1, %2 : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
    })");
  EXPECT_EQ(use_of(graph, "stablehlo.maximum").writes[0], 0);
  const std::vector<KernelUse> products = uses_of(graph, "stablehlo.dot");
  EXPECT_EQ(products[0].reads[0], 0);
  EXPECT_EQ(products[1].reads[0], 2);
  EXPECT_EQ(products[2].reads[0], 2);
}

// The same of x = a b + b a: the sum is what the products read, so it is in memory for them.
TEST(Kernels, KeepSumsThatProductsReadThroughARectifier) {
  const Graph graph = marked(R"(
    func.func @main(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>)
        -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>) {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %zeros = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<1024x1024xf32>
      %u = stablehlo.dot %a, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %v = stablehlo.dot %b, %a : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %x = stablehlo.add %u, %v : tensor<1024x1024xf32>
      %y = stablehlo.maximum %x, %zeros : tensor<1024x1024xf32>
      %0 = stablehlo.dot %y, %a : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %1 = stablehlo.dot %y, %b : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
      %2 = stablehlo.sign %x : tensor<1024x1024xf32>
      return %0, %1, %2 : tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<1024x1024xf32>
    })");
  EXPECT_GT(use_of(graph, "stablehlo.add").writes[0], 0);
  EXPECT_EQ(use_of(graph, "stablehlo.maximum").writes[0], 0);
}

// x - max(x) - log(sum(exp(x - max(x)))), of which one number of every row is read, or all.
std::string log_softmax(bool is_loss) {
  return fmt::format(R"(
    func.func @main(%x: tensor<4096x1024xf32>, %at: tensor<4096x1xi32>) -> {} {{
      %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [1]
        : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1024xf32>
      %3 = stablehlo.subtract %x, %2 : tensor<4096x1024xf32>
      %4 = stablehlo.exponential %3 : tensor<4096x1024xf32>
      %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<4096x1024xf32>, tensor<f32>) -> tensor<4096xf32>
      %6 = stablehlo.log %5 : tensor<4096xf32>
      %7 = stablehlo.broadcast_in_dim %6, dims = [0] : (tensor<4096xf32>) -> tensor<4096x1024xf32>
      %8 = stablehlo.subtract %3, %7 : tensor<4096x1024xf32>
      %9 = "stablehlo.gather"(%8, %at) <{{dimension_numbers = #stablehlo.gather<
        collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0],
        start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}>
        : (tensor<4096x1024xf32>, tensor<4096x1xi32>) -> tensor<4096xf32>
      return {}
    }})",
                     is_loss ? "tensor<4096xf32>" : "tensor<4096x1024xf32>",
                     is_loss ? "%9 : tensor<4096xf32>" : "%8 : tensor<4096x1024xf32>");
}

TEST(Kernels, OfALossWriteDifferencesOfRows) {
  EXPECT_GT(uses_of(marked(log_softmax(true)), "stablehlo.subtract").at(0).writes[0], 0);
  EXPECT_EQ(uses_of(marked(log_softmax(false)), "stablehlo.subtract").at(0).writes[0], 0);
}

// x - mean(x) by groups of so many channels, squared and doubled.
std::string group_norm(int channels) {
  return fmt::format(R"(
    func.func @main(%x: tensor<32x4096x32x{0}xbf16>)
        -> (tensor<32x32xf32>, tensor<32x4096x32x{0}xbf16>, tensor<32x4096x32x{0}xbf16>) {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.convert %x : (tensor<32x4096x32x{0}xbf16>) -> tensor<32x4096x32x{0}xf32>
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [1, 3]
        : (tensor<32x4096x32x{0}xf32>, tensor<f32>) -> tensor<32x32xf32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [0, 2] : (tensor<32x32xf32>) -> tensor<32x4096x32x{0}xf32>
      %3 = stablehlo.subtract %0, %2 : tensor<32x4096x32x{0}xf32>
      %4 = stablehlo.multiply %3, %3 : tensor<32x4096x32x{0}xf32>
      %5 = stablehlo.reduce(%4 init: %zero) applies stablehlo.add across dimensions = [1, 3]
        : (tensor<32x4096x32x{0}xf32>, tensor<f32>) -> tensor<32x32xf32>
      %6 = stablehlo.convert %3 : (tensor<32x4096x32x{0}xf32>) -> tensor<32x4096x32x{0}xbf16>
      %7 = stablehlo.add %6, %6 : tensor<32x4096x32x{0}xbf16>
      return %5, %6, %7 : tensor<32x32xf32>, tensor<32x4096x32x{0}xbf16>, tensor<32x4096x32x{0}xbf16>
    }})",
                     channels);
}

TEST(Kernels, WriteDifferencesOfGroupsOfFourChannels) {
  EXPECT_GT(use_of(marked(group_norm(4)), "stablehlo.subtract").writes[0], 0);
  EXPECT_EQ(use_of(marked(group_norm(8)), "stablehlo.subtract").writes[0], 0);
}

// Windows of 16 numbers, added to rows of a table at |i - j| / 8, at most `last`; or at arguments.
std::string table_gradient(std::string_view dtype, std::string_view indices, int rows,
                           bool unique = false) {
  return fmt::format(R"(
    func.func @main(%u: tensor<512x512x16x{0}>, %at: tensor<512x512x1xi32>) -> tensor<{2}x16x{0}> {{
      %zero = stablehlo.constant dense<0.0> : tensor<{0}>
      %table = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<{0}>) -> tensor<{2}x16x{0}>
      %eight = stablehlo.constant dense<8> : tensor<512x512x1xi32>
      %last = stablehlo.constant dense<31> : tensor<512x512x1xi32>
      %i = stablehlo.iota dim = 0 : tensor<512x512x1xi32>
      %j = stablehlo.iota dim = 1 : tensor<512x512x1xi32>
      %0 = stablehlo.subtract %i, %j : tensor<512x512x1xi32>
      %1 = stablehlo.abs %0 : tensor<512x512x1xi32>
      %2 = stablehlo.divide %1, %eight : tensor<512x512x1xi32>
      %known = stablehlo.minimum %2, %last : tensor<512x512x1xi32>
      %3 = "stablehlo.scatter"(%table, {1}, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
        update_window_dims = [2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
        index_vector_dim = 2>, unique_indices = {3}}}> ({{
      ^bb0(%a: tensor<{0}>, %b: tensor<{0}>):
        %s = stablehlo.add %a, %b : tensor<{0}>
        stablehlo.return %s : tensor<{0}>
      }}) : (tensor<{2}x16x{0}>, tensor<512x512x1xi32>, tensor<512x512x16x{0}>) -> tensor<{2}x16x{0}>
      return %3 : tensor<{2}x16x{0}>
    }})",
                     dtype, indices, rows, unique);
}

double most_updates(const std::string& text) {
  const Graph graph = parse_module(text);
  double most = 0;
  graph.walk(graph.find_function("main")->body, [&](NodeId id) {
    if (graph.node(id).name() == "stablehlo.scatter")
      most = updates_of_one_place(graph, graph.node(id));
  });
  return most;
}

TEST(Collisions, OfIndicesThatAreKnownAreCounted) {
  EXPECT_EQ(most_updates(table_gradient("bf16", "%known", 32)), 264 * 265);
  EXPECT_EQ(most_updates(table_gradient("bf16", "%at", 32)), 512 * 512 / 32);
  EXPECT_EQ(most_updates(table_gradient("bf16", "%at", 1000000)), 1);
  EXPECT_EQ(most_updates(table_gradient("bf16", "%known", 32, true)), 1);
}

double scatter_ms(const std::string& text) {
  const MachineProfile& profile = builtin_profile("h200");
  const Graph graph = marked(text, profile);
  double seconds = 0;
  graph.walk(graph.find_function("main")->body, [&](NodeId id) {
    if (graph.node(id).name() == "stablehlo.scatter")
      seconds = kernel_seconds(graph, graph.node(id), *kernel_use(graph.node(id)), profile);
  });
  return 1e3 * seconds;
}

// Measured with windows of 12: 660 ms in bf16, 0.18 in f32. Words that several updates change are
// exchanged until that succeeds; additions of f32 are made where the memory is.
TEST(Collisions, TakeLongInNumbersNarrowerThanAWord) {
  EXPECT_NEAR(scatter_ms(table_gradient("bf16", "%known", 32)), 660, 66);
  EXPECT_LT(scatter_ms(table_gradient("f32", "%known", 32)), 1);
  EXPECT_LT(scatter_ms(table_gradient("bf16", "%at", 1000000)), 1);
}

// Kernels of pads and strided slices count indices: a sum of two interleaved halves.
TEST(Kernels, CountIndicesOfPadsAsWork) {
  MachineProfile profile = builtin_profile("h200");
  const std::string text = R"(
    func.func @main(%x: tensor<1048576xbf16>) -> tensor<1048576xbf16> {
      %zero = stablehlo.constant dense<0.0> : tensor<bf16>
      %0 = stablehlo.slice %x [0:1048576:2] : (tensor<1048576xbf16>) -> tensor<524288xbf16>
      %1 = stablehlo.pad %0, %zero, low = [0], high = [1], interior = [1]
        : (tensor<524288xbf16>, tensor<bf16>) -> tensor<1048576xbf16>
      %2 = stablehlo.pad %0, %zero, low = [1], high = [0], interior = [1]
        : (tensor<524288xbf16>, tensor<bf16>) -> tensor<1048576xbf16>
      %3 = stablehlo.add %1, %2 : tensor<1048576xbf16>
      return %3 : tensor<1048576xbf16>
    })";
  const double work = use_of(marked(text, profile), "stablehlo.pad").works;
  EXPECT_EQ(work, profile.executor.window_work);
  profile.executor.window_work = 1;
  EXPECT_EQ(use_of(marked(text, profile), "stablehlo.pad").works, 0);  // memory limits it
}

TEST(Kernels, WriteOuterProductsAsMultiplications) {
  const Graph graph = marked(R"(
    func.func @main(%x: tensor<1024x1xf32>, %y: tensor<1x1024xf32>) -> tensor<1024x1024xf32> {
      %0 = stablehlo.dot %x, %y : (tensor<1024x1xf32>, tensor<1x1024xf32>) -> tensor<1024x1024xf32>
      %1 = stablehlo.negate %0 : tensor<1024x1024xf32>
      return %1 : tensor<1024x1024xf32>
    })");
  EXPECT_FALSE(use_of(graph, "stablehlo.dot").is_library);
  EXPECT_EQ(use_of(graph, "stablehlo.dot").writes[0], 0);
}

TEST(Kernels, ProductsAskForAWorkspace) {
  auto workspace = [](int n) {
    return use_of(marked(fmt::format(R"(
    func.func @main(%x: tensor<{0}x{0}xbf16>, %w: tensor<{0}x{0}xbf16>) -> tensor<{0}x{0}xbf16> {{
      %0 = stablehlo.dot %x, %w : (tensor<{0}x{0}xbf16>, tensor<{0}x{0}xbf16>) -> tensor<{0}x{0}xbf16>
      return %0 : tensor<{0}x{0}xbf16>
    }})",
                                     n)),
                  "stablehlo.dot")
        .workspace;
  };
  EXPECT_EQ(workspace(4096), 32 << 20);
  EXPECT_EQ(workspace(64), 3 * 64 * 64 * 2);
}

int64_t peak(const std::string& donated) {
  const Program program = partition(marked(fmt::format(R"(
    sdy.mesh @mesh = <["x"=1]>
    func.func @main(%x: tensor<1024xf32>{}) -> (tensor<1024xf32>, tensor<f32>) {{
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.tanh %x : tensor<1024xf32>
      %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<1024xf32>, tensor<f32>) -> tensor<f32>
      return %0, %1 : tensor<1024xf32>, tensor<f32>
    }})",
                                                       donated)),
                                    {.entry = "main"});
  return kernel_memory(program, instantiate_shapes(program, program.mesh->device_at(0))).peak;
}

TEST(KernelMemory, ResultsHaveTheirOwnUnlessDonated) {
  EXPECT_EQ(peak(""), 2 * 4096 + 4);
  EXPECT_EQ(peak(" {tf.aliasing_output = 0 : i32}"), 4096 + 4);
}

// A loop fills a stack of eight rows from a table that it passes on, and reads both only inside.
constexpr const char* kScan = R"(
  sdy.mesh @mesh = <["x"=1]>
  func.func @main(%t: tensor<8x1024x1024xf32>) -> tensor<8x1024x1024xf32> {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %end = stablehlo.constant dense<8> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<f32>
    %table = stablehlo.tanh %t : tensor<8x1024x1024xf32>
    %stack = stablehlo.broadcast_in_dim %none, dims = [] : (tensor<f32>) -> tensor<8x1024x1024xf32>
    %0:3 = stablehlo.while(%i = %zero, %from = %table, %to = %stack)
      : tensor<i32>, tensor<8x1024x1024xf32>, tensor<8x1024x1024xf32>
      cond {
        %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %r = stablehlo.dynamic_slice %from, %i, %zero, %zero, sizes = [1, 1024, 1024]
          : (tensor<8x1024x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1024x1024xf32>
        %s = stablehlo.negate %r : tensor<1x1024x1024xf32>
        %next = stablehlo.dynamic_update_slice %to, %s, %i, %zero, %zero
          : (tensor<8x1024x1024xf32>, tensor<1x1024x1024xf32>, tensor<i32>, tensor<i32>, tensor<i32>)
          -> tensor<8x1024x1024xf32>
        %j = stablehlo.add %i, %one : tensor<i32>
        stablehlo.return %j, %from, %next : tensor<i32>, tensor<8x1024x1024xf32>, tensor<8x1024x1024xf32>
      }
    return %0#2 : tensor<8x1024x1024xf32>
  })";

// Argument, table and stack: nothing twice.
TEST(KernelMemory, LoopsUpdateTheirCarriesInPlace) {
  const Graph graph = marked(kScan);
  const Program program = partition(graph, {.entry = "main"});
  const KernelMemory memory =
      kernel_memory(program, instantiate_shapes(program, program.mesh->device_at(0)));
  EXPECT_NEAR(static_cast<double>(memory.peak), 3 * 32e6, 5e6);
  graph.walk(graph.find_function("main")->body, [&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.name() != "stablehlo.while") return;
    EXPECT_TRUE(is_passed_on(graph, node, 1));
    EXPECT_FALSE(is_passed_on(graph, node, 2));
  });
}

}  // namespace
}  // namespace cleave::analyze
