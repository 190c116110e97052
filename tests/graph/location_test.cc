#include "cleave/graph/location.h"

#include <gtest/gtest.h>

#include "cleave/graph/text/text.h"

namespace cleave {
namespace {

TEST(Locations, TheLineOfTheSource) {
  EXPECT_EQ(source_line(R"("jit(step)/dot"("/home/me/model.py":41:8 to :20))"), "model.py:41");
  EXPECT_EQ(source_line(R"("model.py":41:8)"), "model.py:41");
  EXPECT_EQ(source_line(R"("params['w']")"), "params['w']");
  EXPECT_EQ(source_line(R"("a \"quoted\" name"("f.py":7:1))"), "f.py:7");
  EXPECT_EQ(source_line("unknown"), "");
  EXPECT_EQ(source_line(""), "");
  EXPECT_EQ(source_line("\"not closed"), "");
}

TEST(Locations, AliasesAreFollowedToTheInnermostCall) {
  LocationAliases aliases;
  aliases.define("loc1", R"("model.py":3:17 to :27)");
  aliases.define("loc2", R"("model"(#loc1))");
  aliases.define("loc9", R"("main"("train.py":90:1))");
  aliases.define("loc3", "callsite(#loc2 at #loc9)");
  aliases.define("loc4", R"("jit(step)/dot_general"(#loc3))");
  aliases.define("loc5", R"(fused<"x">[#loc4, #loc9])");
  aliases.define("loc6", "#loc7");
  aliases.define("loc7", "#loc6");
  EXPECT_EQ(aliases.shortened("#loc4"), R"("jit(step)/dot_general"("model.py":3:17 to :27))");
  EXPECT_EQ(aliases.shortened("#loc5"), R"("jit(step)/dot_general"("model.py":3:17 to :27))");
  EXPECT_EQ(aliases.shortened("#loc3"), R"("model"("model.py":3:17 to :27))");
  EXPECT_EQ(aliases.shortened("#loc6"), "");
  EXPECT_EQ(aliases.shortened("#unheard"), "");
  EXPECT_EQ(aliases.shortened("unknown"), "");
}

// A line of a library of layers says less than the line that calls it.
TEST(Locations, CallsInsideInstalledPackagesAreTheLineThatCalls) {
  LocationAliases aliases;
  aliases.define("layer", R"("Linear.__call__"("/venv/lib/site-packages/flax/linear.py":42:8))");
  aliases.define("core", R"("apply"("/usr/lib/python3/dist-packages/flax/core.py":7:1))");
  aliases.define("user", R"("forward"("/home/me/model.py":41:8 to :20))");
  aliases.define("main", R"("<module>"("/home/me/train.py":3:0))");
  aliases.define("loc1", "callsite(#user at #main)");
  aliases.define("loc2", "callsite(#core at #loc1)");
  aliases.define("loc3", "callsite(#layer at #loc2)");
  aliases.define("loc4", R"("jit(step)/dot"(#loc3))");
  aliases.define("loc5", R"("jit(step)/dot"(callsite(#layer at #core)))");
  EXPECT_EQ(aliases.shortened("#loc4"), R"("jit(step)/dot"("/home/me/model.py":41:8 to :20))");
  EXPECT_EQ(aliases.shortened("#loc5"),
            R"("jit(step)/dot"("/venv/lib/site-packages/flax/linear.py":42:8))");
}

// As JAX prints it: aliases stand after the module, and what is printed again can be read again.
TEST(Locations, AModuleKeepsThemShort) {
  const Graph graph = parse_module(R"(
#loc1 = loc("x")
module @m {
  func.func public @main(%arg0: tensor<4xf32> loc("x")) -> tensor<4xf32> {
    %0 = stablehlo.tanh %arg0 : tensor<4xf32> loc(#loc4)
    return %0 : tensor<4xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc2 = loc("a/model.py":12:3 to :9)
#loc3 = loc(callsite("f"(#loc2) at #loc1))
#loc4 = loc("jit(f)/tanh"(#loc3))
)");
  const Node& tanh = graph.node(graph.region(graph.functions[0].body).nodes[0]);
  EXPECT_EQ(tanh.location, R"("jit(f)/tanh"("a/model.py":12:3 to :9))");
  const std::string printed = print_module(graph, {.locations = true});
  EXPECT_EQ(print_module(parse_module(printed), {.locations = true}), printed);
}

}  // namespace
}  // namespace cleave
