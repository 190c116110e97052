#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/autoshard/shard_map.h"
#include "cleave/core/error.h"
#include "cleave/models/registry.h"
#include "cleave/models/schemes.h"
#include "cleave/models/training.h"
#include "cleave/models/transformer.h"
#include "cleave/runtime/comm_log.h"
#include "tests/support/error_of.h"

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
  std::string communication;  // of one step: kind, axes, number and bytes, in order of kind
};

// One line of a textbook's account: so many collectives of a kind, and what a device receives.
struct Moves {
  int count = 0;
  int64_t bytes = 0;
};
using Account = std::map<std::string, Moves>;

std::string to_text(const Account& account) {
  std::string text;
  for (const auto& [what, moves] : account)
    if (moves.bytes > 0)
      text += (text.empty() ? "" : ", ") + what + " x" + std::to_string(moves.count) + " " +
              std::to_string(moves.bytes) + " B";
  return text;
}
std::string summary(const CommLog& log) {
  Account account;
  for (const CommEvent& event : log.events()) {
    if (event.is_local()) continue;
    Moves& moves = account[event.kind + " " + event.axes];
    ++moves.count;
    moves.bytes += event.bytes;
  }
  return to_text(account);
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

// What the textbook says that a step sends, from the sizes of the model alone. 21 weights: embed,
// norm, head and nine in each of two layers. A device receives from each other one of its group:
// all of a tensor that is reduced everywhere, a part of one that is gathered or scattered.
class Textbook {
 public:
  explicit Textbook(const Mesh& mesh)
      : data_(mesh.axes[mesh.axis_index("data")].size),
        model_(mesh.axes[mesh.axis_index("model")].size) {}

  // Every gradient is summed over data, and the loss.
  Account data(int64_t model_shards = 1) const {
    return {{R"(all_reduce "data")", {22, (data_ - 1) * (weight_bytes(model_shards) + 4)}}};
  }
  // Two sums of activations per layer forward, and two backward.
  Account megatron(int64_t data_shards = 1) const {
    const GptConfig c = small();
    const int64_t activation = 4 * c.batch / data_shards * c.length * c.d;
    return {{R"(all_reduce "model")", {8, 8 * (model_ - 1) * activation}}};
  }
  // Every weight is gathered once, and every gradient summed and scattered; the loss is summed.
  Account fsdp() const {
    const int64_t others = (data_ - 1) * weight_bytes(1) / data_;
    return {{R"(all_gather "data")", {21, others}},
            {R"(all_reduce "data")", {1, (data_ - 1) * 4}},
            {R"(reduce_scatter "data")", {21, others}}};
  }
  Account mixed() const {
    Account both = data(model_);
    both.merge(megatron(data_));
    return both;
  }
  Account of(Scheme scheme) const {
    switch (scheme) {
      case Scheme::Data:
        return data();
      case Scheme::Megatron:
        return megatron();
      case Scheme::Fsdp:
        return fsdp();
      case Scheme::Mixed:
        return mixed();
      default:
        return {};
    }
  }

 private:
  // Of one device: matrices of the layers are split over model.
  static int64_t weight_bytes(int64_t model_shards) {
    const GptConfig c = small();
    const int64_t matrices = 4 * c.d * c.d + 3 * c.d * c.hidden;
    return 4 * (2 * c.vocab * c.d + c.d + c.layers * (2 * c.d + matrices / model_shards));
  }
  int64_t data_, model_;
};

struct Case {
  const char* mesh;
  Scheme scheme;
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
  EXPECT_EQ(run.communication, to_text(Textbook(mesh).of(GetParam().scheme)));
}

INSTANTIATE_TEST_SUITE_P(
    Schemes, TenSteps,
    testing::Values(Case{"data=1,model=1", Scheme::Mixed}, Case{"data=2,model=2", Scheme::Data},
                    Case{"data=2,model=4", Scheme::Data}, Case{"data=2,model=2", Scheme::Megatron},
                    Case{"data=2,model=4", Scheme::Megatron}, Case{"data=2,model=2", Scheme::Fsdp},
                    Case{"data=2,model=4", Scheme::Fsdp}, Case{"data=2,model=2", Scheme::Mixed},
                    Case{"data=2,model=4", Scheme::Mixed}));

// Experts and examples over one axis: tokens travel to their experts and back, in every layer
// forward and backward, and nothing else moves but the sums of gradients.
TEST(Moe, ExpertsOverTheAxisOfExamplesAreReachedByAllToAll) {
  const Mesh mesh = parse_mesh("data=4");
  const BuiltModel model = build_model(
      "model:moe?layers=1&d=64&heads=4&kv_heads=4&hidden=64&vocab=48&batch=8&length=128&experts=8"
      "&step=grad&sharding=experts",
      &mesh);
  const BuiltModel whole = build_model(
      "model:moe?layers=1&d=64&heads=4&kv_heads=4&hidden=64&vocab=48&batch=8&length=128&experts=8"
      "&step=grad");
  CommLog log;
  std::vector<Tensor> actual = replay(model.graph, model.graph.functions[0], model.arguments);
  evaluate(actual);
  EXPECT_EQ(log.count("all_to_all"), 4);
  const std::vector<Tensor> expected =
      replay(whole.graph, whole.graph.functions[0], whole.arguments);
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto a = actual[i].to_vector<float>(), e = expected[i].to_vector<float>();
    for (size_t k = 0; k < e.size(); ++k) ASSERT_NEAR(a[k], e[k], 2e-4 * (1 + std::abs(e[k])));
  }
}

std::string error_of(std::string_view name) {
  return cleave::error_of([&] { build_model(name); });
}

TEST(Models, SayWhichNameOrOptionDoesNotExist) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of("model:gpd"), HasSubstr("there is no model 'gpd'; there are encoder, gpt"));
  EXPECT_THAT(error_of("model:gpt?depth=3"), HasSubstr("has no option 'depth'; it has size=none"));
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
