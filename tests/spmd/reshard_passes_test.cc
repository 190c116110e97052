#include "cleave/spmd/reshard_passes.h"

#include <gtest/gtest.h>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

constexpr std::string_view kMatmul = R"(
sdy.mesh @mesh = <["x"=4, "y"=2]>
func.func @f(%arg0: tensor<8x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %arg1: tensor<32x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {"x"}]>}) -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
  %0 = stablehlo.dot %arg0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>} : (tensor<8x32xf32>, tensor<32x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
)";

// The lines of the body, without types.
std::string body(const Graph& graph) {
  const std::string text = print_module(graph);
  std::string result;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    if (line.rfind("    %", 0) == 0) result += line.substr(4, line.rfind(" : ") - 4) + "\n";
    begin = end + 1;
  }
  return result;
}

TEST(ReshardPasses, MakeOperandsResultsAndReductionsExplicit) {
  Graph graph = parse_module(kMatmul, "test");
  insert_explicit_reshards(graph, /*full=*/true);
  EXPECT_EQ(body(graph),
            R"(%0 = sdy.reshard %arg0 <@mesh, [{}, {"y"}]>
%1 = stablehlo.dot %0, %arg1 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{}, {"x"}]>]>}
%2 = sdy.all_reduce {"y"} %1 out_sharding=<@mesh, [{}, {"x"}]>
%3 = sdy.reshard %2 <@mesh, [{"x"}, {}]>
)");
}

TEST(ReshardPasses, ReshardsBecomeCollectives) {
  Graph graph = parse_module(kMatmul, "test");
  insert_explicit_reshards(graph, /*full=*/true);
  convert_reshards_to_collectives(graph, default_profile(), /*keep_redundant=*/false);
  const std::string text = print_module(graph);
  EXPECT_EQ(text.find("sdy.reshard"), std::string::npos);
  EXPECT_NE(text.find(R"(sdy.all_gather [{"x"}, {}] %arg0 out_sharding=<@mesh, [{}, {"y"}]>)"),
            std::string::npos);
  EXPECT_EQ(print_module(parse_module(text, "again")), text);
}

TEST(ReshardPasses, RefuseSingleDevicesAtTheBorder) {
  Graph graph = parse_module(R"(
sdy.mesh @one = <[], device_ids=[0]>
func.func @f(%arg0: tensor<8xf32> {sdy.sharding = #sdy.sharding<@one, []>}) -> tensor<8xf32> {
  return %arg0 : tensor<8xf32>
}
)",
                             "test");
  EXPECT_THROW(insert_explicit_reshards(graph, true), UserError);
}

}  // namespace
}  // namespace cleave
