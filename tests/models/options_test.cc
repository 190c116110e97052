#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "cleave/core/error.h"
#include "cleave/kernels/elementwise.h"
#include "cleave/models/registry.h"
#include "cleave/models/sizes.h"
#include "cleave/plan/names.h"
#include "cleave/runtime/interpreter.h"

namespace cleave::models {
namespace {

std::vector<Array> results(const BuiltModel& model) {
  std::vector<Array> arguments;
  for (const Tensor& argument : model.arguments) arguments.push_back(argument.to_host());
  return run_function(model.graph, "main", arguments);
}

void expect_close(const Array& found, const Array& expected, const std::string& what) {
  const Array a = convert(found, DType::F64).contiguous();
  const Array b = convert(expected, DType::F64).contiguous();
  ASSERT_EQ(a.num_elements(), b.num_elements()) << what;
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const double x = a.data<double>()[i], y = b.data<double>()[i];
    ASSERT_NEAR(x, y, 1e-5 + 1e-4 * std::abs(y)) << what;
  }
}

int64_t parameters_of(const std::string& options) {
  int64_t count = 0;
  // A train step's arguments are weights, two moments of each, the number of steps and tokens.
  const BuiltModel built = build_model("gpt?step=loss&" + options);
  const std::vector<Type>& types = built.graph.find_function("main")->arg_types;
  for (size_t i = 0; i + 1 < types.size(); ++i) count += num_elements(types[i].shape);
  return count;
}

// As published: Meta's model cards, and the tables of llm-foundry.
TEST(Sizes, HaveThePublishedNumbersOfParameters) {
  EXPECT_EQ(parameters_of("size=llama2-7b"), 6738415616);
  EXPECT_EQ(parameters_of("size=llama2-13b"), 13015864320);
  EXPECT_EQ(parameters_of("size=llama2-70b"), 68976648192);
  EXPECT_EQ(parameters_of("size=llama3-8b"), 8030261248);
  EXPECT_EQ(parameters_of("size=llama3-70b"), 70553706496);
  EXPECT_EQ(parameters_of("size=llama3.1-405b"), 405853388800);
  EXPECT_EQ(parameters_of("size=mpt-125m&length=2048"), 125311488);
  EXPECT_EQ(parameters_of("size=mpt-7b&length=2048"), 6658859008);
  EXPECT_EQ(parameters_of("size=mpt-7b&length=65536"), 6918905856);
  EXPECT_EQ(parameters_of("size=mpt-70b&length=2048"), 64862437376);
}

TEST(Sizes, AnUnknownOneIsNamedWithThoseThatExist) {
  try {
    build_model("gpt?size=llama9");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("size=llama9 is not one of none, llama2-7b"),
              std::string::npos)
        << error.what();
  }
  EXPECT_THROW(build_model("gpt?remat=half"), UserError);
  EXPECT_THROW(build_model("gpt?remat_every=0"), UserError);
  EXPECT_THROW(build_model("gpt?tied=maybe"), UserError);
  EXPECT_THROW(build_model("moe?remat=full"), UserError);
}

// Products of a flat grad step. With a layer of seven products with weights, forward and twice
// backward, and two products of attention, forward and twice backward: 27 of each layer, and 3 of
// the head.
size_t products(const std::string& options) {
  const Graph flat = plan::flatten(build_model("gpt?step=grad&layers=4&" + options).graph, "main");
  size_t count = 0;
  flat.walk(flat.find_function("main")->body,
            [&](NodeId id) { count += flat.node(id).name() == "stablehlo.dot_general" ? 1 : 0; });
  return count;
}

TEST(Remat, ComputesAgainWhatItsModeSays) {
  constexpr size_t kPlain = 4 * 27 + 3;
  EXPECT_EQ(products("remat=none"), kPlain);
  // The product of the scores, once more.
  EXPECT_EQ(products("attention=flash"), kPlain + 4 * 1);
  // Weights are converted again, and no product is computed again.
  EXPECT_EQ(products("weights=again&compute=bf16"), kPlain);
  // All but the last product of a layer, whose result is the next layer's input.
  EXPECT_EQ(products("remat=full"), kPlain + 4 * 8);
  EXPECT_EQ(products("remat=full&remat_every=2"), kPlain + 2 * 8);
  // q, v, gate and the result of the attention are kept: k, o, up and the scores are computed.
  EXPECT_EQ(products("remat=selective"), kPlain + 4 * 4);
  // Flash attention computes the scores once more for the derivative if they were not kept.
  EXPECT_EQ(products("remat=full&attention=flash"), kPlain + 4 * 9);
  EXPECT_EQ(products("remat=selective&attention=flash"), kPlain + 4 * 4);
}

TEST(Remat, GradientsAreThoseOfEverythingKept) {
  for (const std::string& kind : std::vector<std::string>{
           "", "&norm=layer&feed_forward=gelu&positions=learned&bias=yes&tied=yes",
           "&feed_forward=relu2&norm=layer"}) {
    const std::string model =
        "gpt?step=grad&layers=3&d=16&heads=2&kv_heads=1&hidden=32&vocab=24&batch=2&length=8" + kind;
    const BuiltModel plain = build_model(model);
    const std::vector<Array> expected = results(plain);
    for (const std::string& mode : std::vector<std::string>{
             "remat=full", "remat=selective", "remat=full&remat_every=2", "attention=flash",
             "remat=selective&attention=flash", "weights=again"}) {
      const BuiltModel again = build_model(model + "&" + mode);
      const std::vector<Array> found = results(again);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) expect_close(found[i], expected[i], mode);
    }
  }
}

}  // namespace
}  // namespace cleave::models
