#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "cleave/report/model_blocks.h"
#include "report_samples.h"

namespace cleave::report {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BlockNames, ArePathsOfNames) {
  EXPECT_THAT(path_of_name("params/layers/3/attn/q"),
              ElementsAre("params", "layers", "3", "attn", "q"));
  EXPECT_THAT(path_of_name("[0].layers[3].attention.q"),
              ElementsAre("0", "layers", "3", "attention", "q"));
  EXPECT_THAT(path_of_name("params['w']"), ElementsAre("params", "w"));
  EXPECT_THAT(path_of_name(""), IsEmpty());
}

TEST(BlockNames, AreScopesOfLocations) {
  EXPECT_THAT(scopes_of("\"jit(step)/transpose(jvp(layer_3))/attn/dot_general\"(\"m.py\":3:1)"),
              ElementsAre("layer_3", "attn"));
  EXPECT_THAT(scopes_of("\"jit(step)/jit(main)/while/body/dot_general\"(\"m.py\":3:1)"), IsEmpty());
  EXPECT_THAT(scopes_of("\"jit(step)/dot_general\""), IsEmpty());
  EXPECT_THAT(scopes_of("\"model.py\":41:8"), IsEmpty());
  EXPECT_THAT(scopes_of(""), IsEmpty());
}

TEST(Repetition, IsTheMostOfAList) {
  const auto found = find_repetition({0, 1, 2, 1, 2, 1, 2, 3});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->begin, 1u);
  EXPECT_EQ(found->length, 2u);
  EXPECT_EQ(found->times, 3u);
  EXPECT_FALSE(find_repetition({0, 1, 2, 3}));
  EXPECT_FALSE(find_repetition({}));
}

// By block the number of products in it and its parts.
std::map<std::string, int> products(const json& report) {
  std::map<std::string, int> count;
  for (size_t i = 0; i < report["ops"]["name"].size(); ++i) {
    if (text_no(report, report["ops"]["kind"][i]) != "dot_general") continue;
    for (int block = report["ops"]["block"][i]; block >= 0;
         block = report["blocks"][block]["parent"])
      if (report["blocks"][block]["parent"] == 0)
        ++count[text_no(report, report["blocks"][block]["name"])];
  }
  return count;
}

const json* block_named(const json& report, const std::string& name) {
  for (const json& block : report["blocks"])
    if (text_no(report, block["name"]) == name) return &block;
  return nullptr;
}

// A layer has seven weights and two products of attention; each has two products of its gradient.
TEST(Blocks, OfAGptAreItsLayersForwardAndBackward) {
  const json report = model_sample("model:gpt?layers=3&step=train", {.mesh = "data=2"}).report();
  const std::map<std::string, int> count = products(report);
  for (const char* layer : {"layers[0]", "layers[1]", "layers[2]"}) {
    ASSERT_TRUE(count.contains(layer)) << report["blocks"];
    EXPECT_EQ(count.at(layer), 3 * 9) << layer;
  }
  const json* first = block_named(report, "layers[0]");
  const json* second = block_named(report, "layers[1]");
  EXPECT_EQ((*first)["like"], -1);
  EXPECT_EQ((*first)["count"], 3);
  EXPECT_EQ((*second)["like"], first - &report["blocks"][0]);
  EXPECT_EQ((*second)["count"], 0);
  // Arguments are where their layers are.
  for (size_t i = 0; i < report["args"]["name"].size(); ++i) {
    const std::string name = text_no(report, report["args"]["name"][i]);
    if (name.find("layers[1]") == std::string::npos) continue;
    int block = report["args"]["block"][i];
    while (report["blocks"][block]["parent"].get<int>() > 0)
      block = report["blocks"][block]["parent"];
    EXPECT_EQ(&report["blocks"][block], second) << name;
  }
}

// The same module as text has no names: its layers are what repeats itself.
TEST(Blocks, OfAModuleWithoutNamesAreWhatRepeatsItself) {
  const Graph graph = models::build_model("model:gpt?layers=3&step=train").graph;
  const json report = sample(parse_module(print_module(graph)), {.mesh = "data=2"}).report();
  const std::map<std::string, int> count = products(report);
  for (const char* layer : {"layers[0]", "layers[1]", "layers[2]"}) {
    ASSERT_TRUE(count.contains(layer)) << report["blocks"].dump();
    EXPECT_EQ(count.at(layer), 3 * 9) << layer;
  }
}

// The first layer also has the input.
TEST(Blocks, OfScopesAreTheirTree) {
  std::string text =
      "func.func @main(%x: tensor<512x512xf32>, %a: tensor<512x512xf32>, %b: tensor<512x512xf32>, "
      "%c: tensor<512x512xf32>) -> tensor<512x512xf32> {\n";
  const char* weights[] = {"a", "b", "c"};
  for (int layer = 0; layer < 3; ++layer)
    text += fmt::format(
        "  %{0} = stablehlo.dot_general %{1}, %{2}, contracting_dims = [1] x [0] : "
        "(tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32> "
        "loc(\"jit(f)/jvp(layer_{3})/mlp/dot_general\")\n"
        "  %{4} = stablehlo.tanh %{0} : tensor<512x512xf32>\n",
        2 * layer, layer == 0 ? "x" : fmt::to_string(2 * layer - 1), weights[layer], layer,
        2 * layer + 1);
  const json report =
      sample(parse_module(text + "  return %5 : tensor<512x512xf32>\n}"), {.mesh = "x=1"}).report();
  EXPECT_THAT(products(report),
              testing::ElementsAre(testing::Pair("layer_0", 1), testing::Pair("layer_1", 1),
                                   testing::Pair("layer_2", 1)));
  EXPECT_EQ((*block_named(report, "layer_0"))["count"], 1);
  EXPECT_EQ((*block_named(report, "layer_1"))["count"], 2);
  EXPECT_EQ((*block_named(report, "layer_2"))["count"], 0);
}

TEST(Blocks, OfNothingThatRepeatsItselfAreTheStep) {
  const char* text = R"(
  func.func @main(%x: tensor<64x32xf32>, %a: tensor<32x16xf32>) -> tensor<64x16xf32> {
    %0 = stablehlo.dot_general %x, %a, contracting_dims = [1] x [0] : (tensor<64x32xf32>, tensor<32x16xf32>) -> tensor<64x16xf32>
    %1 = stablehlo.tanh %0 : tensor<64x16xf32>
    return %1 : tensor<64x16xf32>
  })";
  const json report = sample(parse_module(text), {.mesh = "x=2"}).report();
  for (const json& block : report["ops"]["block"]) EXPECT_EQ(block, 0);
}

}  // namespace
}  // namespace cleave::report
