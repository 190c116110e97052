// Planned functions over ranks. Run by several ranks at once, as ranks_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cleave/core/mesh_text.h"
#include "cleave/models.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"
#include "tests/mpi/rank_inputs.h"
#include "tests/support/tensor_checks.h"

namespace cleave {
namespace {

using testing_ranks::meshes;

TEST(Ranks, PlannedFunctionsAreThoseOfOneDevice) {
  const Tensor x = ramp({13, 6}), w = ramp({6, 9}, 0.2), v = ramp({9, 5}, 0.4);
  const auto f = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    return matmul(gelu(matmul(a, b)), c);
  };
  const Tensor expected = f(x, w, v);
  for (const std::string& mesh : meshes())
    expect_near(autoshard(f, parse_mesh(mesh))(x, w, v), expected);
}

// Ten steps of SGD on one device and as planned over the ranks.
template <typename T, typename Loss>
void expect_same_steps(T one, const Loss& loss, const Tensor& batch) {
  const auto step = [loss](const T& p, const Tensor& x) {
    auto [value, grads] = value_and_grad([&](const T& q) { return loss(q, x); })(p);
    return std::make_pair(value, models::sgd(p, grads, 0.1));
  };
  const auto planned =
      autoshard(step, Mesh{{"data", 2}, {"model", 4}}, {.machine = "h100", .donate = {0}});
  T many = map_leaves([](const Tensor& p) { return p * 1.0; }, one);
  for (int i = 0; i < 10; ++i) {
    const auto [value, next] = step(one, batch);
    const auto [planned_value, planned_next] = planned(place(planned, many), batch);
    one = next;
    many = planned_next;
    ASSERT_NEAR(planned_value.item(), value.item(), 2e-4 * std::abs(value.item())) << i;
  }
}

TEST(Ranks, PlannedStepsOfAGptAreThoseOfOneDevice) {
  models::GptConfig config;
  config.layers = 1;
  config.d = 32;
  config.hidden = 48;
  config.vocab = 50;
  config.length = 16;
  models::Init init(1);
  const models::Gpt params = models::init_gpt(config, init);
  expect_same_steps(
      params,
      [config](const models::Gpt& p, const Tensor& t) {
        return models::next_token_loss(models::gpt(config, p, t), t);
      },
      init.integers({config.batch, config.length}, config.vocab));
}

TEST(Ranks, PlannedStepsOfExpertsAreThoseOfOneDevice) {
  models::MoeConfig config;
  config.layers = 1;
  config.d = 32;
  config.hidden = 48;
  config.vocab = 40;
  config.batch = 4;
  config.length = 16;
  models::Init init(2);
  const models::Moe params = models::init_moe(config, init);
  expect_same_steps(
      params,
      [config](const models::Moe& p, const Tensor& t) {
        const models::MoeOutput out = models::moe(config, p, t);
        return models::next_token_loss(out.value, t) + out.balance * 0.01;
      },
      init.integers({config.batch, config.length}, config.vocab));
}

TEST(Ranks, PlannedStepsOfAResNetAreThoseOfOneDevice) {
  models::ResNetConfig config;
  config.blocks = {1, 1};
  config.channels = 8;
  config.batch = 4;
  config.size = 8;
  models::Init init(3);
  const models::ResNet params = models::init_resnet(config, init);
  expect_same_steps(
      params,
      [config](const models::ResNet& p, const Tensor& x) {
        return mean(square(models::resnet(config, p, x)));
      },
      init.normal({4, 8, 8, 3}, 1));
}

}  // namespace
}  // namespace cleave
