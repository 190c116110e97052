#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/core/error.h"
#include "cleave/models/registry.h"
#include "cleave/models/schemes.h"
#include "cleave/models/training.h"
#include "cleave/models/transformer.h"
#include "cleave/runtime/comm_log.h"

// A GPT trained for ten steps on one device and over meshes: the losses are the same, and a step
// makes the collectives of the textbook.
namespace cleave::models {
namespace {

GptConfig small() {
  GptConfig config;
  config.layers = 2;
  config.d = 32;
  config.heads = 4;
  config.kv_heads = 4;
  config.hidden = 64;
  config.vocab = 48;
  config.batch = 8;
  config.length = 32;
  return config;
}

struct Training {
  std::vector<double> losses;
  std::string communication;  // of one step: kind, axes and number, in order of kind
};

std::string summary(const CommLog& log) {
  std::map<std::string, int> counts;
  for (const CommEvent& event : log.events())
    if (!event.is_local()) ++counts[event.kind + " " + event.axes];
  std::string text;
  for (const auto& [what, count] : counts)
    text += (text.empty() ? "" : ", ") + what + " x" + std::to_string(count);
  return text;
}

Training train(int steps, const Mesh* mesh = nullptr, Scheme scheme = Scheme::Replicated) {
  const GptConfig config = small();
  Init init(1);
  Gpt params = init_gpt(config, init);
  const Tensor tokens = init.integers({config.batch, config.length}, config.vocab);
  auto loss = [&](const Gpt& p, const Tensor& t) { return next_token_loss(gpt(config, p, t), t); };
  auto step = [&](const Gpt& p, const AdamState<Gpt>& state, const Tensor& t) {
    auto [value, gradients] = value_and_grad(loss)(p, t);
    auto [next, next_state] = adamw(p, gradients, state, {.rate = 1e-2});
    return std::make_tuple(value, next, next_state);
  };
  AdamState<Gpt> state = init_adam(params);
  Training run;
  for (int i = 0; i < steps; ++i) {
    CommLog log;
    auto [value, next, next_state] = [&] {
      if (!mesh) return step(params, state, tokens);
      const TreeSpec weights = tree_spec(params, scheme, *mesh);
      const TreeSpec kept = tree_spec(state, scheme, *mesh);
      return shard_map(step, *mesh,
                       {.in = {weights, kept, input_spec(scheme, *mesh)},
                        .out = {P(), weights, kept}})(params, state, tokens);
    }();
    std::vector<Tensor> all = leaves(next);
    for (const Tensor& leaf : leaves(next_state)) all.push_back(leaf);
    all.push_back(value);
    evaluate(all);
    params = std::move(next);
    state = std::move(next_state);
    run.losses.push_back(value.item());
    run.communication = summary(log);
  }
  return run;
}

// 21 weights: embed, norm, head and nine in each of two layers.
constexpr const char* kDataParallel = R"(all_reduce "data" x22)";  // each gradient, and the loss
constexpr const char* kMegatron = R"(all_reduce "model" x8)";      // two per layer, there and back

struct Case {
  const char* mesh;
  Scheme scheme;
  std::string communication;
};

class TenSteps : public testing::TestWithParam<Case> {};

TEST_P(TenSteps, GiveTheLossesOfOneDevice) {
  static const Training alone = train(10);
  const Mesh mesh = parse_mesh(GetParam().mesh);
  const Training run = train(10, &mesh, GetParam().scheme);
  ASSERT_EQ(run.losses.size(), alone.losses.size());
  for (size_t i = 0; i < alone.losses.size(); ++i)
    EXPECT_NEAR(run.losses[i], alone.losses[i], 2e-3 * alone.losses[i]) << "step " << i;
  EXPECT_LT(alone.losses.back(), 0.8 * alone.losses.front());
  EXPECT_EQ(run.communication, GetParam().communication);
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, TenSteps,
    testing::Values(
        Case{"data=2,model=2", Scheme::Data, kDataParallel},
        Case{"data=2,model=4", Scheme::Data, kDataParallel},
        Case{"data=2,model=2", Scheme::Megatron, kMegatron},
        Case{"data=2,model=4", Scheme::Megatron, kMegatron},
        Case{"data=2,model=2", Scheme::Fsdp,
             R"(all_gather "data" x21, all_reduce "data" x1, reduce_scatter "data" x21)"},
        Case{"data=2,model=4", Scheme::Fsdp,
             R"(all_gather "data" x21, all_reduce "data" x1, reduce_scatter "data" x21)"},
        Case{"data=2,model=2", Scheme::Mixed, std::string(kDataParallel) + ", " + kMegatron},
        Case{"data=2,model=4", Scheme::Mixed, std::string(kDataParallel) + ", " + kMegatron}));

std::string error_of(std::string_view name) {
  try {
    build_model(name);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Models, SayWhichNameOrOptionDoesNotExist) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("model:gpd"), HasSubstr("there is no model 'gpd'; there are encoder, gpt"));
  EXPECT_THAT(error_of("model:gpt?depth=3"), HasSubstr("has no option 'depth'; it has layers=2"));
  EXPECT_THAT(error_of("model:gpt?layers=x"), HasSubstr("layers='x' is not an integer"));
  EXPECT_THAT(error_of("model:gpt?layers"), HasSubstr("'layers' is not option=value"));
  EXPECT_THAT(error_of("model:gpt?heads=3"), HasSubstr("3 heads do not divide the width d=128"));
  EXPECT_THAT(error_of("model:gpt?step=run"), HasSubstr("step=run is not one of loss, forward"));
  EXPECT_THAT(error_of("model:gpt?sharding=data"), HasSubstr("needs a mesh"));
  EXPECT_THAT(error_of("model:moe?experts=1"), HasSubstr("goes to two experts"));
}

// Every model: what the gradient says of a small move is what the loss does.
TEST(Models, GradientsAreSlopes) {
  for (const char* name : {"mlp", "gpt", "moe", "encoder", "resnet", "unet"}) {
    SCOPED_TRACE(name);
    const BuiltModel model =
        build_model(std::string("model:") + name + "?step=grad&batch=2&seed=3");
    const std::vector<Tensor> out = replay(model.graph, model.graph.functions[0], model.arguments);
    const BuiltModel loss = build_model(std::string("model:") + name + "?step=loss&batch=2&seed=3");
    double slope = 0;
    const double h = 2e-3;
    std::vector<Tensor> ahead = model.arguments, behind = model.arguments;
    // Along the gradient, scaled to a length of one.
    for (size_t i = 1; i < out.size(); ++i) slope += sum(square(out[i])).item();
    const double length = std::sqrt(slope);
    for (size_t i = 1; i < out.size(); ++i) {
      ahead[i - 1] = ahead[i - 1] + out[i] * (h / length);
      behind[i - 1] = behind[i - 1] - out[i] * (h / length);
    }
    auto value = [&](const std::vector<Tensor>& args) {
      return replay(loss.graph, loss.graph.functions[0], args)[0].item();
    };
    EXPECT_NEAR((value(ahead) - value(behind)) / (2 * h), length, 0.02 * length);
  }
}

}  // namespace
}  // namespace cleave::models
