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

TEST(Ranks, PlannedTrainStepsAreThoseOfOneDevice) {
  models::GptConfig config;
  config.layers = 1;
  config.d = 32;
  config.hidden = 48;
  config.vocab = 50;
  config.batch = 8;
  config.length = 16;
  models::Init init(1);
  models::Gpt one = models::init_gpt(config, init);
  const Tensor tokens = init.integers({8, 16}, 50);
  const auto step = [config](const models::Gpt& p, const Tensor& t) {
    auto [loss, grads] = value_and_grad([&](const models::Gpt& q) {
      return models::next_token_loss(models::gpt(config, q, t), t);
    })(p);
    return std::make_pair(loss, models::sgd(p, grads, 0.1));
  };
  const Mesh mesh{{"data", 2}, {"model", 4}};
  const auto planned = autoshard(step, mesh, {.machine = "h100", .donate = {0}});
  models::Gpt many = map_leaves([](const Tensor& p) { return p * 1.0; }, one);
  for (int i = 0; i < 10; ++i) {
    const auto [loss, next] = step(one, tokens);
    const auto [planned_loss, planned_next] = planned(place(planned, many), tokens);
    one = next;
    many = planned_next;
    ASSERT_NEAR(planned_loss.item(), loss.item(), 1e-4 * std::abs(loss.item()));
  }
}

}  // namespace
}  // namespace cleave
