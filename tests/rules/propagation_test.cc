#include "cleave/rules/propagate/propagation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/rewrite/pass.h"
#include "cleave/rules/explain.h"
#include "random_graphs.h"

namespace cleave {
namespace {

constexpr std::string_view kMesh = "sdy.mesh @mesh = <[\"a\"=2, \"b\"=4]>\n";

std::string run_passes(const std::string& text, const std::string& pipeline) {
  Graph graph = parse_module(text);
  PassContext context;
  run_pipeline(graph, parse_pipeline(pipeline), context);
  return print_module(graph);
}

// The text of every function of a printed module, by name.
std::map<std::string, std::string> functions_of(const std::string& text) {
  std::map<std::string, std::string> functions;
  size_t begin = 0;
  while ((begin = text.find("func.func ", begin)) != std::string::npos) {
    const size_t at = text.find('@', begin), end = text.find("\n  }\n", begin);
    functions[text.substr(at, text.find('(', at) - at)] = text.substr(begin, end - begin);
    begin = end;
  }
  return functions;
}

constexpr std::string_view kMatmul = R"(
func.func @main(%x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>},
                %y: tensor<8x16xf32>, %w: tensor<16x8xf32>) -> tensor<8x8xf32> {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
)";

TEST(Propagation, SpreadsAnAnnotationOverTheModule) {
  const std::string text =
      run_passes(std::string(kMesh) + std::string(kMatmul), "sdy-propagation-pipeline");
  EXPECT_THAT(text,
              testing::HasSubstr(
                  R"(-> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {}]>}))"));
}

struct Explained {
  Graph graph;
  std::vector<std::string> names;
  std::unique_ptr<PropagationEngine> engine;
  std::unique_ptr<Explainer> explainer;

  explicit Explained(const std::string& text)
      : graph(parse_module(text)), names(value_names(graph)) {
    engine = std::make_unique<PropagationEngine>(graph, PropagationOptions{});
    engine->run();
    explainer = std::make_unique<Explainer>(*engine, names);
  }
  std::string of(const std::string& name) const {
    for (uint32_t v = 0; v < names.size(); ++v)
      if (names[v] == name) return explainer->explain(ValueId{v});
    return "no such value";
  }
};

TEST(Explain, ChainLeadsBackToTheAnnotation) {
  const Explained explained(std::string(kMesh) + std::string(kMatmul));
  EXPECT_EQ(explained.of("%1"), R"(%1: [{"a", ?}, {?}]
  dimension 0, "a"
    from %0 dimension 0 through stablehlo.dot_general (%0, %arg2) -> %1, factor i
    from %arg0 dimension 0 through stablehlo.add (%arg0, %arg1) -> %0, factor i
    %arg0 was annotated [{"a"}, {}]
)");
  EXPECT_EQ(explained.of("%arg2"), "%arg2 has no sharding: nothing reached it\n");
  EXPECT_THAT(explained.explainer->trace(),
              testing::HasSubstr("dimension 0 takes \"a\" from %arg0 dimension 0"));
  EXPECT_TRUE(explained.explainer->warnings().empty());
}

TEST(Explain, WarnsOfConflictsAndOfOpsWithoutARule) {
  const Explained explained(std::string(kMesh) + R"(
func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}]>},
                %y: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}]>}) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %y : tensor<8xf32>
  %1 = stablehlo.custom_call @nobody_knows(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.multiply %0, %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
})");
  const std::vector<std::string> warnings = explained.explainer->warnings();
  EXPECT_THAT(warnings,
              testing::Contains(testing::AllOf(
                  testing::HasSubstr("conflict along factor i"),
                  testing::HasSubstr(R"(%arg0 has {"a"} (%arg0 was annotated [{"a"}]))"),
                  testing::HasSubstr(R"(%arg1 has {"b"} (%arg1 was annotated [{"b"}]))"))));
  EXPECT_THAT(warnings,
              testing::Contains(testing::HasSubstr("stablehlo.custom_call has no sharding rule")));
}

TEST(Propagation, RefusesDynamicShapes) {
  const std::string text =
      std::string(kMesh) +
      "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {\n"
      "  %0 = stablehlo.tanh %x : tensor<?xf32>\n  return %0 : tensor<?xf32>\n}\n";
  try {
    run_passes(text, "sdy-basic-propagate");
    FAIL() << "no error";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("static shape"));
  }
}

constexpr const char* kPasses[] = {"sdy-basic-propagate", "sdy-aggressive-propagate",
                                   "sdy-op-priority-propagate", "sdy-user-priority-propagate"};

TEST(Propagation, IsIdempotentAndDeterministic) {
  EXPECT_TRUE(rc::check("a second run changes nothing, and two runs agree", [] {
    const std::string text = std::string(kMesh) + random_function("main");
    const char* const pass = kPasses[*rc::gen::inRange(0, 4)];
    const std::string once = run_passes(text, pass);
    RC_ASSERT(run_passes(text, pass) == once);
    RC_ASSERT(run_passes(once, pass) == once);
  }));
}

TEST(Propagation, DoesNotDependOnTheOrderOfFunctions) {
  EXPECT_TRUE(rc::check("functions in another order have the same shardings", [] {
    const std::string f = random_function("f"), g = random_function("g"), h = random_function("h");
    const char* const pass = kPasses[*rc::gen::inRange(0, 4)];
    RC_ASSERT(functions_of(run_passes(std::string(kMesh) + f + g + h, pass)) ==
              functions_of(run_passes(std::string(kMesh) + h + f + g, pass)));
  }));
}

}  // namespace
}  // namespace cleave
