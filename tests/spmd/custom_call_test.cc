#include <gmock/gmock.h>

#include "cleave/core/error.h"
#include "cleave/graph/verify.h"
#include "cleave/spmd/random_shardings.h"
#include "sharded_run.h"

namespace cleave {
namespace {

using testing::HasSubstr;

// A call of LAPACK as JAX writes it, with a rule and shardings of operands and result.
std::string solve(const std::string& rule, const std::string& a, const std::string& b,
                  const std::string& x) {
  return R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<6x6xf32> {sdy.sharding = #sdy.sharding<@mesh, )" +
         a + R"(>}, %b: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, )" + b +
         R"(>}) -> (tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, )" + x + R"(>}) {
  %0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config = {diag = 85 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8}, sdy.sharding_rule = #sdy.op_sharding_rule<)" +
         rule + R"(, custom>} : (tensor<6x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %0 : tensor<6x4xf32>
})";
}

// What JAX writes where nothing can be split: every dimension is a factor of its own.
TEST(CustomCall, FactorsOfAResultAloneAreNotSplit) {
  const char* rule = "([i, j], [k, l])->([m, n]) {i=6, j=6, k=6, l=4, m=6, n=4}";
  for (const char* x : {"[{}, {\"x\"}]", "[{\"x\"}, {}]", "[{}, {}]"})
    for (const char* b : {"[{}, {\"x\"}]", "[{\"x\"}, {}]"})
      ShardedRun(solve(rule, "[{}, {}]", b, x));
}

TEST(CustomCall, MatricesAreSplitOnlyWhereTheRoutineAllowsIt) {
  // True of the columns k, wrong of the rows i.
  const char* rule = "([i, j], [i, k])->([i, k]) {i=6, j=6, k=4}";
  const ShardedRun columns(solve(rule, "[{}, {}]", "[{}, {\"x\"}]", "[{}, {\"x\"}]"));
  EXPECT_EQ(columns.log.count(), 0);
  ShardedRun(solve(rule, "[{\"x\"}, {}]", "[{\"x\"}, {}]", "[{\"x\"}, {}]"));
}

TEST(CustomCall, RulesOfOtherOpsDoNotSayHowTheyRun) {
  ShardedRun(R"(
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}) {
  %0 = stablehlo.tanh %a {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([j, i]) {i=4, j=4}>} : tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
})");
}

TEST(CustomCall, BatchesOfMatricesAreSplitAlsoUnevenly) {
  for (const char* call :
       {"@lapack_sgeqrf_ffi(%a) : (tensor<3x5x4xf32>) -> (tensor<3x5x4xf32>, tensor<3x4xf32>)",
        "@cusolver_geqrf_ffi(%a) : (tensor<3x5x4xf32>) -> (tensor<3x5x4xf32>, tensor<3x4xf32>)"}) {
    std::string text = R"(
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%a: tensor<3x5x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}, {}, {}]>}) -> tensor<3x4xf32> {
  %0:2 = stablehlo.custom_call )" +
                       std::string(call);
    text.insert(
        text.rfind(" : "),
        " {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k])->([i, l, m], [i, n]) {i=3, "
        "j=5, k=4, l=5, m=4, n=4}, custom>}");
    const ShardedRun run(text + "\n  return %0#1 : tensor<3x4xf32>\n}");
    EXPECT_EQ(run.log.count(), 0) << call;
  }
}

TEST(CustomCall, WrongOperandsOfLapackAreTheUsersErrors) {
  const auto error = [](const std::string& call) -> std::string {
    const std::string text =
        "func.func @main(%a: tensor<6x5xf32>, %v: tensor<5xf32>) {\n  %0 = " + call +
        "\n  return\n}";
    try {
      const Graph graph = parse_module(text);
      verify_graph(graph);
      run_function(graph, "main",
                   std::vector{Array::zeros(DType::F32, {6, 5}), Array::zeros(DType::F32, {5})});
    } catch (const UserError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error("stablehlo.custom_call @cusolver_orgqr_ffi(%v, %a) : (tensor<5xf32>, "
                    "tensor<6x5xf32>) -> tensor<6x5xf32>"),
              HasSubstr("dimensions after the batch are needed"));
  EXPECT_THAT(error("stablehlo.custom_call @lapack_sorgqr_ffi(%a) : (tensor<6x5xf32>) -> "
                    "tensor<6x5xf32>"),
              HasSubstr("takes 2 operands and gives 1 results"));
  EXPECT_THAT(error("stablehlo.custom_call @Cholesky(%a) : (tensor<6x5xf32>) -> tensor<6x5xf32>"),
              HasSubstr("square"));
  EXPECT_THAT(error("stablehlo.custom_call @lapack_sorgqr_ffi(%a, %v) : (tensor<6x5xf32>, "
                    "tensor<5xf32>) -> tensor<7x5xf32>"),
              HasSubstr("and tensor<7x5xf32> was declared"));
}

TEST(CustomCall, CallbacksAreRefusedByName) {
  const Graph graph = parse_module(R"(
func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.custom_call @xla_ffi_python_cpu_callback(%a) {mhlo.backend_config = {index = 0 : ui64}} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
})");
  try {
    run_function(graph, "main", std::vector{Array::zeros(DType::F32, {2})});
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("@xla_ffi_python_cpu_callback calls a Python function"));
  }
}

TEST(Partition, ShardingsOfAnotherMeshAreNamed) {
  const Graph graph = parse_module(R"(
sdy.mesh @old = <["data"=2, "model"=4]>
func.func @main(%a: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = sdy.sharding_constraint %a <@old, [{"data"}, {"model"}]> : tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
})");
  for (const char* mesh : {"a=2,b=2,c=2", "data=4,model=2", "x=3"}) {
    try {
      partition(graph, {.mesh = std::make_shared<const Mesh>(parse_mesh(mesh))});
      FAIL() << mesh;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), HasSubstr("sdy.sharding_constraint")) << mesh;
      EXPECT_THAT(error.what(), HasSubstr("@old = <[\"data\"=2, \"model\"=4]>")) << mesh;
    }
  }
}

// Inside a manual computation, values are constrained along the free axes only.
TEST(RandomShardings, LeaveManualAxesAlone) {
  const Graph graph = parse_module(R"(
sdy.mesh @mesh = <["x"=2, "y"=2]>
func.func @main(%arg0: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {}]>] out_shardings=[<@mesh, [{"x"}, {}]>] manual_axes={"x"} (%arg1: tensor<2x6xf32>) {
    %1 = stablehlo.tanh %arg1 : tensor<2x6xf32>
    %2 = func.call @f(%1) : (tensor<2x6xf32>) -> tensor<2x6xf32>
    %3 = stablehlo.negate %2 : tensor<2x6xf32>
    sdy.return %3 : tensor<2x6xf32>
  } : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
func.func private @f(%a: tensor<2x6xf32>) -> tensor<2x6xf32> {
  %0 = stablehlo.exponential %a : tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
})");
  const Array x = make_array(graph.functions[0].arg_types[0], "random:1");
  const Array expected = run_function(graph, "main", {&x, 1})[0];
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Graph sharded = graph;
    shard_randomly(sharded, "main", graph.meshes[0], seed);
    verify_graph(sharded);
    const Executor executor(partition(sharded, {.entry = "main"}));
    EXPECT_TRUE(compare(executor.run(std::span(&x, 1))[0], expected).same) << seed;
  }
}

}  // namespace
}  // namespace cleave
