#include <fmt/core.h>

#include <random>

#include "tests/spmd/sharded_run.h"

// Convolutions along cut spatial dimensions: windows move over neighbours' borders, and the
// gradient of a kernel is a sum that stays pending over the devices.
namespace cleave {
namespace {

// One spatial dimension of a convolution.
struct Along {
  int64_t input, kernel, stride = 1, low = 0, high = 0, lhs_dilation = 1, rhs_dilation = 1;
  bool reversed = false;
  int64_t windows() const {
    const int64_t size = (input - 1) * lhs_dilation + 1 + low + high;
    const int64_t window = (kernel - 1) * rhs_dilation + 1;
    return size < window ? 0 : (size - window) / stride + 1;
  }
};

std::string dims_text(const std::string& axes) { return axes.empty() ? "{}" : "{" + axes + "}"; }

// [b, 0, f]x[0, i, o]->[b, 0, f], with the axes of the spatial dimension of input, kernel, result.
std::string convolution(const char* mesh, const Along& d, const std::string& input,
                        const std::string& kernel, const std::string& result = "") {
  const std::string types =
      fmt::format("(tensor<2x{}x3xf32>, tensor<{}x3x4xf32>)", d.input, d.kernel);
  return fmt::format(
      R"(sdy.mesh @mesh = <{}>
func.func @main(%a: tensor<2x{}x3xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {}, {{}}]>}}, %k: tensor<{}x3x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{}, {{}}, {{}}]>}}) -> (tensor<2x{}x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {}, {{}}]>}}) {{
  %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{stride = [{}], pad = [[{}, {}]], lhs_dilate = [{}], rhs_dilate = [{}], reverse = [{}]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : {} -> tensor<2x{}x4xf32>
  return %0 : tensor<2x{}x4xf32>
}})",
      mesh, d.input, dims_text(input), d.kernel, dims_text(kernel), d.windows(), dims_text(result),
      d.stride, d.low, d.high, d.lhs_dilation, d.rhs_dilation, d.reversed, types, d.windows(),
      d.windows());
}

// 3 x 3 kernels over images of 32 rows of 8, as reverse mode writes them.
std::string kernel_gradient(int64_t rows, int64_t stride, int64_t low, int64_t high) {
  return fmt::format(
      R"(sdy.mesh @mesh = <["y"=4]>
func.func @main(%a: tensor<1x{0}x8x3xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"y"}}, {{}}, {{}}]>}}, %g: tensor<1x{1}x8x4xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"y"}}, {{}}, {{}}]>}}) -> tensor<3x3x3x4xf32> {{
  %0 = stablehlo.convolution(%a, %g) dim_numbers = [f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f], window = {{pad = [[{3}, {4}], [1, 1]], rhs_dilate = [{2}, 1]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x{0}x8x3xf32>, tensor<1x{1}x8x4xf32>) -> tensor<3x3x3x4xf32>
  return %0 : tensor<3x3x3x4xf32>
}})",
      rows, rows / stride, stride, low, high);
}

constexpr int64_t kRow = 8 * 3 * 4, kGradient = 3 * 3 * 3 * 4 * 4;

void expect_borders_and_one_sum(const ShardedRun& run, int64_t rows) {
  EXPECT_EQ(run.log.count("halo"), 1);
  EXPECT_EQ(run.log.count("all_reduce"), 1);
  EXPECT_EQ(run.log.count(), 2);
  EXPECT_EQ(run.log.bytes("halo"), rows * kRow);
  EXPECT_EQ(run.log.bytes("all_reduce"), 3 * kGradient) << "few bytes: each gets all parts";
}

TEST(Convolution, the_gradient_of_a_kernel_borrows_a_row_from_each_neighbour_and_is_a_sum) {
  expect_borders_and_one_sum(ShardedRun(kernel_gradient(32, 1, 1, 1)), 2);
}

TEST(Convolution, that_of_a_strided_one_borrows_from_one_side) {
  expect_borders_and_one_sum(ShardedRun(kernel_gradient(32, 2, 0, 1)), 1);
}

// 10 rows over four devices are 3, 3, 3, 1; 5 are 2, 2, 1 and none.
TEST(Convolution, uneven_and_empty_parts_of_a_gradient_add_up) {
  for (int64_t rows : {4, 5, 6, 9, 10}) {
    const ShardedRun run(kernel_gradient(rows, 1, 1, 1));
    EXPECT_EQ(run.log.count("all_gather"), 0) << rows;
    EXPECT_EQ(run.log.count("all_reduce"), 1) << rows;
  }
}

TEST(Convolution, patches_are_cut_along_windows_and_their_kernels_along_the_gradient) {
  // 8 patches of 4: nothing moves.
  const Along patches{.input = 32, .kernel = 4, .stride = 4};
  const ShardedRun forward(convolution(R"(["y"=4])", patches, R"("y")", "", R"("y")"));
  EXPECT_EQ(forward.log.count(), 0);
  const Along gradient{.input = 32, .kernel = 8, .rhs_dilation = 4};
  ASSERT_EQ(gradient.windows(), 4);
  const ShardedRun backward(convolution(R"(["y"=4])", gradient, R"("y")", R"("y")"));
  EXPECT_EQ(backward.log.count("all_reduce"), 1);
  EXPECT_EQ(backward.log.count(), 1);
}

TEST(Convolution, any_window_over_any_cut_gives_the_same_numbers) {
  std::mt19937 random(5);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const std::vector<std::string> cuts{
      "", R"("x")", R"("y")", R"("x", "y")", R"("y", "x")", R"("y":(1)2)"};
  auto cut = [&] { return cuts[static_cast<size_t>(pick(0, 5))]; };
  int run = 0;
  while (run < 250) {
    const Along along{pick(1, 14), pick(1, 12), pick(1, 3), pick(-2, 4),
                      pick(-2, 4), pick(1, 3),  pick(1, 3), pick(0, 1) == 1};
    if (along.windows() < 1) continue;
    const ShardedRun tried(convolution(R"(["x"=3, "y"=4])", along, cut(), cut(), cut()),
                           static_cast<uint64_t>(++run));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace cleave
