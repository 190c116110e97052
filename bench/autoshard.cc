// What `autoshard` costs, and what it gains: the first call of a train step of a GPT of 12 layers,
// later calls beside `compile` with the same layouts, and planned steps beside layouts that
// textbooks name.
//   bench_autoshard [MACHINE [STEPS]]
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>

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

template <typename T, typename Loss>
auto train(const Loss& loss) {
  return [loss](const T& params, const AdamState<T>& state, const Tensor& batch) {
    auto [value, grads] = value_and_grad([&](const T& p) { return loss(p, batch); })(params);
    auto [next, following] = models::adamw(params, grads, state);
    return std::make_tuple(next, following, value);
  };
}

auto train_step(const GptConfig& config) {
  return train<Gpt>([config](const Gpt& p, const Tensor& tokens) {
    return models::next_token_loss(models::gpt(config, p, tokens), tokens);
  });
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

// A step in some layout, with its state.
struct Contender {
  std::string layout;
  std::function<void()> step;
  double predicted = 0, measured = 1e9;  // seconds; processors of all devices over the cores
};

template <typename T, typename Step>
Contender contender(std::string layout, const AutoshardOptions& options, const Step& step,
                    const T& params, const AdamState<T>& state, const Tensor& batch) {
  const auto f = autoshard(step, kMesh, options);
  auto copied = [](const Tensor& x) { return x * 1.0; };
  auto kept = std::make_shared<std::pair<T, AdamState<T>>>(map_leaves(copied, params),
                                                           map_leaves(copied, state));
  f.prepare(kept->first, kept->second, batch);
  // Arguments are computed and laid out before: a batch that is recorded would be drawn in every
  // step, by every device that holds a copy.
  *kept = {place(f, kept->first), place(f, kept->second)};
  const Tensor input = place(f, batch);
  evaluate({&input, 1});
  auto next = [f, kept, input] {
    auto [x, y, value] = f(kept->first, kept->second, input);
    *kept = {x, y};
    value.item();
  };
  next();
  return {std::move(layout), next, f.plan()->totals.step_seconds};
}

// Planned, and in layouts that textbooks name, which propagation spreads; all of them in turns.
template <typename T, typename Loss>
void beside_hand_made(const char* name, const T& params, const Loss& loss, const Tensor& batch,
                      const std::string& machine, int steps) {
  const auto step = train<T>(loss);
  const AdamState<T> state = models::init_adam(params);
  std::vector<Contender> all;
  auto add = [&](std::string layout, AutoshardOptions options) {
    options.machine = machine;
    options.donate = {0, 1};
    all.push_back(contender<T>(std::move(layout), options, step, params, state, batch));
  };
  add("planned", {});
  for (models::Scheme scheme : {models::Scheme::Data, models::Scheme::Megatron,
                                models::Scheme::Fsdp, models::Scheme::Mixed}) {
    AutoshardOptions options{.solver = "propagation"};
    options.in = {models::tree_spec(params, scheme, kMesh), models::tree_spec(state, scheme, kMesh),
                  models::input_spec(scheme, kMesh)};
    add(models::scheme_names()[static_cast<size_t>(scheme)], options);
  }
  AutoshardOptions both{.solver = "propagation"};
  both.in = {P(), P(), P(SpecEntry{"data", "model"})};
  add("examples over both axes", both);
  for (int i = 0; i < steps; ++i)
    for (Contender& each : all)
      each.measured = std::min(each.measured, timed(each.step).processor / 2);
  for (const Contender& each : all)
    fmt::print("| {} | {} | {:.2f} ms, x{:.3f} | {:.2f} ms, x{:.3f} |\n", name, each.layout,
               1e3 * each.predicted, each.predicted / all[0].predicted, 1e3 * each.measured,
               each.measured / all[0].measured);
}

void beside_hand_made(const std::string& machine, int steps) {
  fmt::print("| model | layout | predicted | measured |\n|---|---|---|---|\n");
  models::Init init(1);
  const GptConfig gpt{.layers = 2, .d = 128, .hidden = 512, .batch = 16, .length = 64};
  beside_hand_made(
      "GPT", models::init_gpt(gpt, init),
      [gpt](const Gpt& p, const Tensor& t) {
        return models::next_token_loss(models::gpt(gpt, p, t), t);
      },
      init.integers({gpt.batch, gpt.length}, gpt.vocab), machine, steps);
  models::MoeConfig moe;
  moe.batch = 16;
  moe.length = 64;
  beside_hand_made(
      "mixture of experts", models::init_moe(moe, init),
      [moe](const models::Moe& p, const Tensor& t) {
        const models::MoeOutput out = models::moe(moe, p, t);
        return models::next_token_loss(out.value, t) + out.balance * 0.01;
      },
      init.integers({moe.batch, moe.length}, moe.vocab), machine, steps);
  models::ResNetConfig resnet;
  resnet.batch = 16;
  resnet.size = 32;
  beside_hand_made(
      "ResNet", models::init_resnet(resnet, init),
      [resnet](const models::ResNet& p, const Tensor& x) {
        return mean(square(models::resnet(resnet, p, x)));
      },
      init.normal({resnet.batch, resnet.size, resnet.size, 3}, 1), machine, steps);
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 2 ? std::atoi(argv[2]) : 20;
  first_call();
  later_calls(12, steps);
  beside_hand_made(argc > 1 ? argv[1] : "default", steps);
}
