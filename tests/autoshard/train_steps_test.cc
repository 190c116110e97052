#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/models.h"
#include "cleave/plan.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

// Train steps by `autoshard` are those of one device, step after step.
namespace cleave {
namespace {

using models::AdamState;

template <typename T>
struct TrainState {
  T params;
  AdamState<T> adam;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("params", params);
    v("adam", adam);
  }
};

// A step of AdamW of any loss: (state, batch) -> (state, loss).
template <typename T, typename Loss>
auto train_step(Loss loss) {
  return [loss](const TrainState<T>& state, const Tensor& batch) {
    auto [value, grads] = value_and_grad([&](const T& p) { return loss(p, batch); })(state.params);
    auto [params, adam] = models::adamw(state.params, grads, state.adam, {.rate = 1e-2});
    return std::make_tuple(TrainState<T>{params, adam}, value);
  };
}

double farthest(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto x = a[i].to_vector<float>(), y = b[i].to_vector<float>();
    for (size_t k = 0; k < x.size(); ++k)
      most = std::max(most, static_cast<double>(std::abs(x[k] - y[k])));
  }
  return most;
}

// Ten steps on one device and by plan, within the roundings of sums in another order.
template <typename T, typename Loss>
void expect_same_training(const T& params, const Loss& loss, const Tensor& batch, const Mesh& mesh,
                          AutoshardOptions options) {
  const auto f = train_step<T>(loss);
  const auto alone = compile(f);
  options.donate = {0};
  const auto step = autoshard(f, mesh, options);
  TrainState<T> one{params, models::init_adam(params)};
  TrainState<T> many = map_leaves([](const Tensor& x) { return x * 1.0; }, one);
  for (int i = 0; i < 10; ++i) {
    auto [next, loss_of_one] = alone(one, batch);
    one = next;
    auto [following, loss_of_many] = step(place(step, many), batch);
    many = following;
    ASSERT_NEAR(loss_of_many.item(), loss_of_one.item(), 2e-4 * std::abs(loss_of_one.item()))
        << "step " << i;
  }
  EXPECT_EQ(step.num_plans(), 1u);
  EXPECT_LT(farthest(leaves(many.params), leaves(one.params)), 5e-3);
  EXPECT_THAT(step.verify(), testing::HasSubstr("verified"));
  for (const plan::PlannedOp& op : step.plan()->ops)
    for (const ShardingSpec& spec : op.results) EXPECT_TRUE(spec.mesh || op.results.empty());
}

const std::vector<Mesh> kMeshes = {Mesh{{"data", 2}, {"model", 4}}, Mesh{{"x", 3}}};

TEST(AutoshardTraining, Gpt) {
  models::GptConfig config;
  config.d = 64;
  config.hidden = 96;
  config.vocab = 50;  // uneven over four and three
  config.batch = 6;
  config.length = 16;
  models::Init init(1);
  const models::Gpt params = models::init_gpt(config, init);
  const Tensor tokens = init.integers({6, 16}, 50);
  const auto loss = [config](const models::Gpt& p, const Tensor& t) {
    return models::next_token_loss(models::gpt(config, p, t), t);
  };
  for (const Mesh& mesh : kMeshes) expect_same_training(params, loss, tokens, mesh, {});
}

TEST(AutoshardTraining, MixtureOfExperts) {
  models::MoeConfig config;
  config.layers = 1;
  config.d = 32;
  config.hidden = 48;
  config.vocab = 40;
  config.batch = 4;
  config.length = 16;
  models::Init init(2);
  const models::Moe params = models::init_moe(config, init);
  const Tensor tokens = init.integers({4, 16}, 40);
  const auto loss = [config](const models::Moe& p, const Tensor& t) {
    const models::MoeOutput out = models::moe(config, p, t);
    return models::next_token_loss(out.value, t) + out.balance * 0.01;
  };
  for (const Mesh& mesh : kMeshes) expect_same_training(params, loss, tokens, mesh, {});
}

TEST(AutoshardTraining, ResNet) {
  models::ResNetConfig config;
  config.blocks = {1, 1};
  config.channels = 8;
  config.batch = 4;
  config.size = 8;
  models::Init init(3);
  const models::ResNet params = models::init_resnet(config, init);
  const Tensor images = init.normal({4, 8, 8, 3}, 1);
  const auto loss = [config](const models::ResNet& p, const Tensor& x) {
    return mean(square(models::resnet(config, p, x)));
  };
  for (const Mesh& mesh : kMeshes) expect_same_training(params, loss, images, mesh, {});
}

}  // namespace
}  // namespace cleave
