#include <fmt/core.h>

#include "cleave/rules/pipelines.h"
#include "tests/spmd/sharded_run.h"

namespace cleave {
namespace {

// Every device draws its own part of one stream, whatever the layout: no communication, and the
// same numbers as on one device.
TEST(RandomNumbers, RandomBitsAreDrawnByTheDeviceThatHoldsThem) {
  for (const char* algorithm : {"THREE_FRY", "PHILOX"})
    for (const char* dtype : {"ui8", "ui32", "ui64"})
      for (const char* sharding : {R"([{"x"}, {"y"}])", R"([{"y", "x"}, {}])", R"([{}, {"x"}])"})
        for (const bool uneven : {false, true}) {
          const char* size = uneven ? "7x10" : "6x12";
          const std::string text = fmt::format(R"(
          sdy.mesh @mesh = <["x"=2, "y"=3]>
          func.func @main(%state: tensor<2xui64>) -> (tensor<2xui64>, tensor<{3}x{1}> {{sdy.sharding = #sdy.sharding<@mesh, {2}>}}) {{
            %0:2 = stablehlo.rng_bit_generator %state, algorithm = {0} : (tensor<2xui64>) -> (tensor<2xui64>, tensor<{3}x{1}>)
            return %0#0, %0#1 : tensor<2xui64>, tensor<{3}x{1}>
          }})",
                                               algorithm, dtype, sharding, size);
          Graph graph = parse_module(text);
          run_propagation_pipeline(graph, {});
          const Program program = partition(graph, {.entry = "main"});
          const Graph local = instantiate(program, 0).graph;
          local.walk([&](NodeId id) {
            const Node& node = local.node(id);
            if (node.name() != "stablehlo.rng_bit_generator") return;
            EXPECT_LT(num_elements(local.result_type(node, 1).shape), uneven ? 70 : 72) << text;
          });
          CommLog log;
          const std::vector<Array> args{make_array(Type::tensor(DType::U64, {2}), "random:7")};
          const std::vector<Array> actual = Executor(program).run(args, {.log = &log});
          const std::vector<Array> expected = run_function(parse_module(text), "main", args);
          for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(identical(actual[i], expected[i])) << text;
          EXPECT_EQ(log.count(), uneven ? log.count("all_gather") : 0) << text;
        }
}

TEST(RandomNumbers, RngIsDrawnByTheDeviceThatHoldsIt) {
  const ShardedRun run(R"(
    sdy.mesh @mesh = <["x"=2, "y"=3]>
    func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<7x10xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, tensor<9xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}]>}) {
      %shape = stablehlo.constant dense<[7, 10]> : tensor<2xi64>
      %length = stablehlo.constant dense<9> : tensor<1xi64>
      %0 = stablehlo.rng %a, %b, %shape, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<7x10xf32>
      %1 = stablehlo.rng %a, %b, %length, distribution = NORMAL : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<9xf32>
      return %0, %1 : tensor<7x10xf32>, tensor<9xf32>
    })");
  EXPECT_EQ(run.log.count(), 0);
}

}  // namespace
}  // namespace cleave
