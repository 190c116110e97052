// What `autoshard` costs: the first call of a train step of a GPT of 12 layers, and later calls
// beside `compile` with the same layouts.
//   bench_autoshard [LAYERS [STEPS]]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "cleave/models.h"
#include "cleave/plan.h"
#include "cleave/tensors.h"
#include "cleave/transforms.h"

namespace {

using namespace cleave;

struct Times {
  double clock = 0, processor = 0;
};
template <typename F>
Times timed(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  f();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}

using models::AdamState;
using models::Gpt;
using models::GptConfig;

const Mesh kMesh{{"data", 2}, {"model", 4}};

auto train_step(const GptConfig& config) {
  return [config](const Gpt& params, const AdamState<Gpt>& state, const Tensor& tokens) {
    auto [loss, grads] = value_and_grad([&](const Gpt& p) {
      return models::next_token_loss(models::gpt(config, p, tokens), tokens);
    })(params);
    auto [next, following] = models::adamw(params, grads, state);
    return std::make_tuple(next, following, loss);
  };
}

// A GPT of the size of GPT-2, in bf16: planned, never computed.
void first_call() {
  GptConfig config{.layers = 12,
                   .d = 768,
                   .heads = 12,
                   .kv_heads = 12,
                   .hidden = 3072,
                   .vocab = 50304,
                   .batch = 64,
                   .length = 1024};
  models::Init init(1, DType::BF16);
  const Gpt params = models::init_gpt(config, init);
  const Tensor tokens = init.integers({config.batch, config.length}, config.vocab);
  const AdamState<Gpt> state = models::init_adam(params);
  const auto step = autoshard(train_step(config), kMesh, {.machine = "h100", .donate = {0, 1}});
  const Times first = timed([&] { step.prepare(params, state, tokens); });
  fmt::print("traced, planned, compiled: {:.2f} s of processors, {:.2f} s by the clock\n",
             first.processor, first.clock);
}

// Later calls of a small one, beside compile with the same layouts of arguments.
void later_calls(int64_t layers, int steps) {
  GptConfig config{.layers = layers, .d = 64, .hidden = 128};
  models::Init init(1);
  const Gpt params = models::init_gpt(config, init);
  const Tensor tokens = init.integers({config.batch, config.length}, config.vocab);
  const auto planned = autoshard(train_step(config), kMesh, {.machine = "h100", .donate = {0, 1}});
  const auto compiled = compile(train_step(config), {.donate = {0, 1}});
  auto copy = [](const auto& tree) {
    auto made = map_leaves([](const Tensor& x) { return x * 1.0; }, tree);
    evaluate(leaves(made));
    return made;
  };
  auto p = copy(params);
  auto s = copy(models::init_adam(params));
  planned.prepare(p, s, tokens);
  p = place(planned, p);
  s = place(planned, s);
  auto q = copy(p);
  auto r = copy(s);
  auto run = [&](const auto& function, Gpt& a, AdamState<Gpt>& b) {
    auto [x, y, loss] = function(a, b, tokens);
    a = x;
    b = y;
    return loss.item();
  };
  run(planned, p, s);
  run(compiled, q, r);
  double ours = 1e9, theirs = 1e9;
  for (int i = 0; i < steps; ++i) {
    ours = std::min(ours, timed([&] { run(planned, p, s); }).processor);
    theirs = std::min(theirs, timed([&] { run(compiled, q, r); }).processor);
  }
  fmt::print("a step, fastest of {}: planned {:.2f} ms, compiled {:.2f} ms of processors, {:.2f}\n",
             steps, 1e3 * ours, 1e3 * theirs, ours / theirs);
}

}  // namespace

int main(int argc, char** argv) {
  first_call();
  later_calls(argc > 1 ? std::atoi(argv[1]) : 12, argc > 2 ? std::atoi(argv[2]) : 20);
}
