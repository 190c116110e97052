#include <fmt/core.h>

#include "tests/spmd/sharded_run.h"

// Ops that are done twice along a cut dimension: candidates move, not the dimension.
namespace cleave {
namespace {

std::string top_k(const char* mesh, const char* dtype, int64_t rows, int64_t n, int64_t k,
                  const char* sharding) {
  return fmt::format(
      R"(sdy.mesh @mesh = <{}>
func.func @main(%x: tensor<{}x{}x{}> {{sdy.sharding = #sdy.sharding<@mesh, {}>}}) -> (tensor<{}x{}x{}>, tensor<{}x{}xi32>) {{
  %values, %indices = chlo.top_k(%x, k = {}) : tensor<{}x{}x{}> -> (tensor<{}x{}x{}>, tensor<{}x{}xi32>)
  return %values, %indices : tensor<{}x{}x{}>, tensor<{}x{}xi32>
}})",
      mesh, rows, n, dtype, sharding, rows, k, dtype, rows, k, k, rows, n, dtype, rows, k, dtype,
      rows, k, rows, k, dtype, rows, k);
}

// Larger, or equal and earlier; NaN before all: as JAX writes it.
std::string argmax(const char* mesh, const char* dtype, int64_t rows, int64_t n,
                   const char* sharding) {
  const std::string type = fmt::format("tensor<{}x{}x{}>", rows, n, dtype);
  const std::string places = fmt::format("tensor<{}x{}xi32>", rows, n);
  const std::string found = fmt::format("tensor<{0}x{1}>, tensor<{0}xi32>", rows, dtype);
  const std::string lowest = dtype[0] == 'i' ? "-128" : "0xFF800000";
  return fmt::format(
      R"(sdy.mesh @mesh = <{0}>
func.func @main(%x: {1} {{sdy.sharding = #sdy.sharding<@mesh, {2}>}}) -> ({3}) {{
  %i = stablehlo.iota dim = 1 : {4}
  %lowest = stablehlo.constant dense<{5}> : tensor<{6}>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %lowest), (%i init: %zero) across dimensions = [1] : ({1}, {4}, tensor<{6}>, tensor<i32>) -> ({3})
   reducer(%a: tensor<{6}>, %c: tensor<{6}>) (%b: tensor<i32>, %d: tensor<i32>) {{
    %1 = stablehlo.compare GT, %a, %c : (tensor<{6}>, tensor<{6}>) -> tensor<i1>
    %2 = stablehlo.compare NE, %a, %a : (tensor<{6}>, tensor<{6}>) -> tensor<i1>
    %3 = stablehlo.or %1, %2 : tensor<i1>
    %4 = stablehlo.compare EQ, %a, %c : (tensor<{6}>, tensor<{6}>) -> tensor<i1>
    %5 = stablehlo.compare LT, %b, %d : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %6 = stablehlo.and %4, %5 : tensor<i1>
    %7 = stablehlo.or %3, %6 : tensor<i1>
    %8 = stablehlo.select %3, %a, %c : tensor<i1>, tensor<{6}>
    %9 = stablehlo.select %7, %b, %d : tensor<i1>, tensor<i32>
    stablehlo.return %8, %9 : tensor<{6}>, tensor<i32>
  }}
  return %r#0, %r#1 : {3}
}})",
      mesh, type, sharding, found, places, lowest, dtype);
}

constexpr const char* kFour = R"(["x"=4])";
constexpr const char* kTwo = R"(["x"=2, "y"=4])";

TEST(Rounds, top_k_along_a_cut_dimension_gathers_k_of_each_device) {
  const ShardedRun run(top_k(kFour, "f32", 8, 1000, 5, R"([{}, {"x"}])"));
  EXPECT_EQ(run.log.count("all_gather"), 2) << "values and places";
  EXPECT_EQ(run.log.count(), 2);
  EXPECT_EQ(run.log.bytes(), 3 * 8 * 5 * (4 + 4)) << "of three others";
}

TEST(Rounds, rows_stay_cut) {
  const ShardedRun run(top_k(kTwo, "f32", 8, 1000, 5, R"([{"x"}, {"y"}])"));
  EXPECT_EQ(run.log.bytes(), 3 * 4 * 5 * (4 + 4));
  EXPECT_EQ(to_string(run.results[0]), R"([{"x"}, {}])");
  EXPECT_EQ(to_string(run.results[1]), R"([{"x"}, {}])");
}

TEST(Rounds, a_row_of_few_more_than_k_is_gathered) {
  const ShardedRun run(top_k(kFour, "f32", 8, 20, 5, R"([{}, {"x"}])"));
  EXPECT_EQ(run.log.count("all_gather"), 1);
  EXPECT_EQ(run.log.bytes(), 8 * 15 * 4);
}

// Parts that are shorter than k, or empty; and many equal values, of which the first are taken.
TEST(Rounds, top_k_of_uneven_parts_takes_the_first_of_equals) {
  for (int64_t n : {33, 41, 50, 97, 101, 300})
    for (const char* dtype : {"i8", "ui8", "f32", "bf16"})
      for (const char* sharding :
           {R"([{}, {"x", "y"}])", R"([{"y"}, {"x"}])", R"([{}, {"y":(2)2}])"}) {
        const ShardedRun run(top_k(kTwo, dtype, 3, n, 2, sharding), static_cast<uint64_t>(n));
        if (HasFailure()) return;
      }
}

TEST(Rounds, argmax_along_a_cut_dimension_gathers_one_of_each_device) {
  const ShardedRun run(argmax(kFour, "f32", 8, 1000, R"([{}, {"x"}])"));
  EXPECT_EQ(run.log.count("all_gather"), 2) << "values and places";
  EXPECT_EQ(run.log.count(), 2);
  EXPECT_EQ(run.log.bytes(), 3 * 8 * (4 + 4));
}

TEST(Rounds, argmax_of_uneven_parts_takes_the_first_of_equals) {
  for (int64_t n : {9, 10, 17, 100, 501})
    for (const char* dtype : {"i8", "f32"})
      for (const char* sharding : {R"([{}, {"x", "y"}])", R"([{"x"}, {"y"}])", R"([{}, {"x"}])"}) {
        const ShardedRun run(argmax(kTwo, dtype, 5, n, sharding), static_cast<uint64_t>(n));
        EXPECT_LE(run.log.bytes(), 7 * 5 * (4 + 4));
        if (HasFailure()) return;
      }
}

std::string running(const char* mesh, const char* op, const char* init, const char* dtype,
                    int64_t rows, int64_t n, bool reverse, const char* sharding) {
  return fmt::format(
      R"(sdy.mesh @mesh = <{0}>
func.func @main(%x: tensor<{1}x{2}x{3}> {{sdy.sharding = #sdy.sharding<@mesh, {4}>}}) -> (tensor<{1}x{2}x{3}> {{sdy.sharding = #sdy.sharding<@mesh, {4}>}}) {{
  %init = stablehlo.constant dense<{5}> : tensor<{3}>
  %r = "stablehlo.reduce_window"(%x, %init) <{{window_dimensions = array<i64: 1, {2}>, padding = dense<[[0, 0], [{6}, {7}]]> : tensor<2x2xi64>}}> ({{
   ^bb0(%a: tensor<{3}>, %b: tensor<{3}>):
    %0 = {8} %a, %b : tensor<{3}>
    stablehlo.return %0 : tensor<{3}>
  }}) : (tensor<{1}x{2}x{3}>, tensor<{3}>) -> tensor<{1}x{2}x{3}>
  return %r : tensor<{1}x{2}x{3}>
}})",
      mesh, rows, n, dtype, sharding, init, reverse ? 0 : n - 1, reverse ? n - 1 : 0, op);
}

TEST(Rounds, cumsum_along_a_cut_dimension_moves_one_total_of_each_device) {
  const ShardedRun run(
      running(kFour, "stablehlo.add", "0.0", "f32", 8, 1000, false, R"([{}, {"x"}])"));
  EXPECT_EQ(run.log.count("all_gather"), 1);
  EXPECT_EQ(run.log.count(), 1);
  EXPECT_EQ(run.log.bytes(), 3 * 8 * 4);
}

TEST(Rounds, running_reductions_of_uneven_parts) {
  for (int64_t n : {9, 10, 17, 33, 100})
    for (bool reverse : {false, true})
      for (const char* sharding : {R"([{}, {"x", "y"}])", R"([{"x"}, {"y"}])", R"([{}, {"x"}])"}) {
        ShardedRun(running(kTwo, "stablehlo.add", "0", "i32", 5, n, reverse, sharding));
        ShardedRun(running(kTwo, "stablehlo.maximum", "-128", "i8", 5, n, reverse, sharding));
        ShardedRun(running(kTwo, "stablehlo.add", "0.0", "f64", 5, n, reverse, sharding));
        ShardedRun(running(kTwo, "stablehlo.add", "0.0", "bf16", 5, n, reverse, sharding));
        // What fills the padding counts: every element has its own share of it.
        ShardedRun(running(kTwo, "stablehlo.add", "1", "i32", 5, n, reverse, sharding));
        if (HasFailure()) return;
      }
}

// A body that is no selection runs on whole rows, as its initial value may count only once.
TEST(Rounds, reductions_that_mix_their_values_run_whole) {
  const ShardedRun run(R"(sdy.mesh @mesh = <["x"=4]>
func.func @main(%x: tensor<8x100xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) -> tensor<8xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<f32>
  %r = stablehlo.reduce(%x init: %one) across dimensions = [1] : (tensor<8x100xf32>, tensor<f32>) -> tensor<8xf32>
   reducer(%a: tensor<f32>, %b: tensor<f32>) {
    %0 = stablehlo.add %a, %b : tensor<f32>
    %1 = stablehlo.abs %0 : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }
  return %r : tensor<8xf32>
})");
  EXPECT_EQ(run.log.count("all_gather"), 1);
}

}  // namespace
}  // namespace cleave
