#include <fmt/core.h>

#include "tests/spmd/sharded_run.h"

// Which collectives an op takes, with bytes: no more than it needs, and the right values.
namespace cleave {
namespace {

constexpr const char* kMesh = "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n";

std::string arg(const char* name, const char* type, const char* sharding) {
  return fmt::format("%{}: tensor<{}> {{sdy.sharding = #sdy.sharding<@mesh, {}>}}", name, type,
                     sharding);
}

TEST(Collectives, matmul_over_a_sharded_contraction_is_partial_and_completed_on_use) {
  const std::string args =
      arg("a", "8x16xf32", R"([{}, {"y"}])") + ", " + arg("b", "16x12xf32", R"([{"y"}, {}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<8x12xf32> {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
      %1 = stablehlo.tanh %0 : tensor<8x12xf32>
      return %1 : tensor<8x12xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 1);
  EXPECT_EQ(run.log.count("all_reduce"), 1);
  EXPECT_EQ(run.log.events()[0].asked_by, "stablehlo.tanh");
  EXPECT_EQ(run.log.events()[0].axes, "\"y\"");
}

TEST(Collectives, megatron_mlp_takes_one_all_reduce) {
  const std::string args = arg("x", "16x32xf32", R"([{"x"}, {}])") + ", " +
                           arg("w", "32x64xf32", R"([{}, {"y"}])") + ", " +
                           arg("v", "64x32xf32", R"([{"y"}, {}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<16x32xf32> {{
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x32xf32>, tensor<32x64xf32>) -> tensor<16x64xf32>
      %1 = stablehlo.tanh %0 : tensor<16x64xf32>
      %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<16x64xf32>, tensor<64x32xf32>) -> tensor<16x32xf32>
      %3 = stablehlo.logistic %2 : tensor<16x32xf32>
      return %3 : tensor<16x32xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 1);
  EXPECT_EQ(run.log.count("all_reduce"), 1);
  EXPECT_EQ(to_string(run.results[0]), R"([{"x"}, {}])");
}

TEST(Collectives, sequence_parallel_takes_a_reduce_scatter_and_an_all_gather) {
  const std::string args = arg("x", "512x256xf32", R"([{"y"}, {}])") + ", " +
                           arg("w", "256x512xf32", R"([{}, {"y"}])") + ", " +
                           arg("v", "512x256xf32", R"([{"y"}, {}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> (tensor<512x256xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}) {{
      %g = sdy.sharding_constraint %x <@mesh, [{{}}, {{}}]> : tensor<512x256xf32>
      %0 = stablehlo.dot_general %g, %w, contracting_dims = [1] x [0] : (tensor<512x256xf32>, tensor<256x512xf32>) -> tensor<512x512xf32>
      %1 = stablehlo.tanh %0 : tensor<512x512xf32>
      %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0] : (tensor<512x512xf32>, tensor<512x256xf32>) -> tensor<512x256xf32>
      return %2 : tensor<512x256xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("all_gather"), 1);
  EXPECT_EQ(run.log.count("reduce_scatter"), 1);
  EXPECT_EQ(run.log.count(), 2);
  EXPECT_EQ(run.log.bytes("all_gather"), 512 * 256 * 4 * 3 / 4);
  EXPECT_EQ(run.log.bytes("reduce_scatter"), 512 * 256 * 4 / 4 * 3);
}

TEST(Collectives, elementwise_on_equal_specs_takes_none) {
  const std::string args =
      arg("a", "7x9xf32", R"([{"x"}, {"y"}])") + ", " + arg("b", "7x9xf32", R"([{"x"}, {"y"}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<7x9xf32> {{
      %0 = stablehlo.add %a, %b : tensor<7x9xf32>
      %1 = stablehlo.multiply %0, %b : tensor<7x9xf32>
      return %1 : tensor<7x9xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 0);
  EXPECT_EQ(to_string(run.results[0]), R"([{"x"}, {"y"}])");
}

TEST(Collectives, sharded_and_replicated_takes_none) {
  const std::string args =
      arg("a", "8x8xf32", R"([{"x"}, {}])") + ", " + arg("b", "8x8xf32", "[{}, {}]");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<8x8xf32> {{
      %0 = stablehlo.add %a, %b : tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 0);
}

TEST(Collectives, dims_on_other_axes_only_slice) {
  const std::string args =
      arg("a", "8x8xf32", R"([{"x"}, {}])") + ", " + arg("b", "8x8xf32", R"([{}, {"y"}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<8x8xf32> {{
      %0 = stablehlo.add %a, %b : tensor<8x8xf32>
      return %0 : tensor<8x8xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 0);
  EXPECT_EQ(to_string(run.results[0]), R"([{"x"}, {"y"}])");
}

TEST(Collectives, partials_add_before_one_all_reduce) {
  const std::string args =
      arg("a", "8x16xf32", R"([{}, {"y"}])") + ", " + arg("b", "16x12xf32", R"([{"y"}, {}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<8x12xf32> {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
      %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
      %2 = stablehlo.add %0, %1 : tensor<8x12xf32>
      %3 = stablehlo.negate %2 : tensor<8x12xf32>
      %4 = stablehlo.exponential %3 : tensor<8x12xf32>
      return %4 : tensor<8x12xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 1);
  EXPECT_EQ(run.log.events()[0].asked_by, "stablehlo.exponential");
}

TEST(Collectives, a_partial_with_several_users_is_completed_once) {
  const std::string args =
      arg("a", "8x16xf32", R"([{}, {"y"}])") + ", " + arg("b", "16x12xf32", R"([{"y"}, {}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> (tensor<8x12xf32>, tensor<8x12xf32>) {{
      %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
      %1 = stablehlo.negate %0 : tensor<8x12xf32>
      %2 = stablehlo.multiply %0, %0 : tensor<8x12xf32>
      return %1, %2 : tensor<8x12xf32>, tensor<8x12xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 1);
}

TEST(Collectives, max_over_a_sharded_dimension_completes_with_max) {
  const std::string args = arg("a", "7x12xf32", R"([{"x"}, {"y"}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<7xf32> {{
      %c = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %0 = stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [1] : (tensor<7x12xf32>, tensor<f32>) -> tensor<7xf32>
      return %0 : tensor<7xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("all_reduce"), 1);
  EXPECT_EQ(run.log.count(), 1);
}

TEST(Collectives, the_initial_value_of_a_sum_counts_once) {
  const std::string args =
      arg("a", "9x5xi32", R"([{"y"}, {"x"}])") + ", " + arg("init", "i32", "[]");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<i32> {{
      %0 = stablehlo.reduce(%a init: %init) applies stablehlo.add across dimensions = [0, 1] : (tensor<9x5xi32>, tensor<i32>) -> tensor<i32>
      return %0 : tensor<i32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("all_reduce"), 1);
}

TEST(Collectives, an_embedding_with_a_sharded_table_is_a_masked_sum) {
  const std::string args =
      arg("table", "10x6xf32", R"([{"y"}, {}])") + ", " + arg("ids", "5x1xi32", "[{}, {}]");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<5x6xf32> {{
      %0 = "stablehlo.gather"(%table, %ids) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 6>}}> : (tensor<10x6xf32>, tensor<5x1xi32>) -> tensor<5x6xf32>
      return %0 : tensor<5x6xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("all_reduce"), 1);
  EXPECT_EQ(run.log.count(), 1);
}

TEST(Collectives, a_convolution_exchanges_borders_only) {
  const std::string args = arg("a", "1x32x8x3xf32", R"([{}, {"y"}, {}, {}])") + ", " +
                           arg("k", "3x3x3x4xf32", "[{}, {}, {}, {}]");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<1x32x8x4xf32> {{
      %0 = stablehlo.convolution(%a, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{pad = [[1, 1], [1, 1]]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x32x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x32x8x4xf32>
      return %0 : tensor<1x32x8x4xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("halo"), 1);
  EXPECT_EQ(run.log.count(), 1);
  EXPECT_EQ(run.log.bytes(), 2 * 8 * 3 * 4) << "a row from each neighbour";
}

// Maxima and sums of rows are completed while they are one number each, not when they have been
// spread over the row.
TEST(Collectives, a_softmax_over_a_cut_dimension_takes_two_small_all_reduces) {
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> (tensor<6x800xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"y"}}]>}}) {{
      %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.reduce(%x init: %lowest) applies stablehlo.maximum across dimensions = [1] : (tensor<6x800xf32>, tensor<f32>) -> tensor<6xf32>
      %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<6xf32>) -> tensor<6x800xf32>
      %2 = stablehlo.subtract %x, %1 : tensor<6x800xf32>
      %3 = stablehlo.exponential %2 : tensor<6x800xf32>
      %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x800xf32>, tensor<f32>) -> tensor<6xf32>
      %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<6xf32>) -> tensor<6x800xf32>
      %6 = stablehlo.divide %3, %5 : tensor<6x800xf32>
      return %6 : tensor<6x800xf32>
    }})",
                                   kMesh, arg("x", "6x800xf32", R"([{}, {"y"}])")));
  EXPECT_EQ(run.log.count("all_reduce"), 2);
  EXPECT_EQ(run.log.count(), 2);
  EXPECT_EQ(run.log.bytes(), 2 * 3 * 6 * 4);
}

// Every device has what its windows see already.
TEST(Collectives, borders_of_a_whole_tensor_are_not_exchanged) {
  const std::string args = "%a: tensor<10x6xf32>, " + arg("b", "7x6xf32", R"([{"y"}, {}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> (tensor<10x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}, tensor<17x6xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"y"}}, {{}}]>}}) {{
      %0 = stablehlo.reverse %a, dims = [0] {{sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{{"y"}}, {{}}]>]>}} : tensor<10x6xf32>
      %1 = stablehlo.concatenate %a, %b, dim = 0 : (tensor<10x6xf32>, tensor<7x6xf32>) -> tensor<17x6xf32>
      return %0, %1 : tensor<10x6xf32>, tensor<17x6xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("halo"), 1) << "of b";
  EXPECT_EQ(run.log.count(), 1);
}

// A cache of keys whose sequence is cut: the new entry goes to the device that has its place, and a
// read of some entries moves these, not the cache.
TEST(Collectives, a_cache_that_is_cut_along_its_sequence_is_updated_in_place) {
  const std::string args = arg("cache", "2x64x8xf32", R"([{"x"}, {"y"}, {}])") + ", " +
                           arg("new", "2x1x8xf32", R"([{"x"}, {}, {}])") + ", " +
                           "%at: tensor<i32>";
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> (tensor<2x64x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{"y"}}, {{}}]>}}) {{
      %z = stablehlo.constant dense<0> : tensor<i32>
      %0 = stablehlo.dynamic_update_slice %cache, %new, %z, %at, %z : (tensor<2x64x8xf32>, tensor<2x1x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x64x8xf32>
      return %0 : tensor<2x64x8xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count(), 0);
}

TEST(Collectives, a_dynamic_slice_along_a_cut_dimension_moves_the_slice) {
  const std::string args =
      arg("a", "64x8xf32", R"([{"y"}, {}])") + ", %at: tensor<i32>, %z: tensor<i32>";
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> tensor<6x8xf32> {{
      %0 = stablehlo.dynamic_slice %a, %at, %z, sizes = [6, 8] : (tensor<64x8xf32>, tensor<i32>, tensor<i32>) -> tensor<6x8xf32>
      return %0 : tensor<6x8xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("all_reduce"), 1);
  EXPECT_EQ(run.log.count(), 1);
  EXPECT_EQ(run.log.bytes(), 3 * 6 * 8 * 4) << "the slice, not the 64 rows that it comes from";
}

TEST(Collectives, the_derivative_of_max_pooling_exchanges_borders_only) {
  const std::string args = arg("a", "1x64x8xf32", R"([{}, {"y"}, {}])") + ", " +
                           arg("g", "1x32x8xf32", R"([{}, {"y"}, {}])");
  const ShardedRun run(fmt::format(R"({}
    func.func @main({}) -> (tensor<1x64x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"y"}}, {{}}]>}}) {{
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = "stablehlo.select_and_scatter"(%a, %g, %z) <{{padding = dense<[[0, 0], [1, 0], [0, 0]]> : tensor<3x2xi64>, window_dimensions = array<i64: 1, 3, 1>, window_strides = array<i64: 1, 2, 1>}}> ({{
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.compare GE, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %s : tensor<i1>
      }}, {{
        ^bb0(%x: tensor<f32>, %y: tensor<f32>):
          %s = stablehlo.add %x, %y : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }}) : (tensor<1x64x8xf32>, tensor<1x32x8xf32>, tensor<f32>) -> tensor<1x64x8xf32>
      return %0 : tensor<1x64x8xf32>
    }})",
                                   kMesh, args));
  EXPECT_EQ(run.log.count("halo"), 2) << "of the operand and of the gradient";
  EXPECT_EQ(run.log.count(), 2);
  EXPECT_LE(run.log.bytes(), 4 * 8 * 4) << "a few rows of neighbours";
}

}  // namespace
}  // namespace cleave
