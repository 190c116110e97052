// A GPT trained on the bytes of a file over a mesh of four virtual devices, in planned layouts; it
// is saved, goes on when it is started again, and writes some text at the end.
//   example_train_gpt docs/guide/planning.md
#include "cleave/cleave.h"
#include "cleave/models.h"
#include "cleave/train.h"
using namespace cleave;
using namespace cleave::train;

const models::GptConfig config{.d = 64, .heads = 4, .kv_heads = 4, .hidden = 128, .length = 64};

struct State {
  models::Gpt params;
  OptState opt;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("params", params), v("opt", opt);
  }
};

struct Printer : LoopObserver {
  void on_step(const StepRecord& r) override {
    if (r.step % 20 == 0) print("step {}: loss {:.4f}\n", r.step, r.loss);
  }
};

int main(int argc, char** argv) {
  if (argc < 2) return print("which file?\n"), 2;
  const Optimizer optimizer = chain({clip_by_global_norm(1), adamw(warmup_cosine(5e-3, 10, 200))});
  auto loss = [](const models::Gpt& p, const Tensor& tokens) {
    return models::next_token_loss(models::gpt(config, p, tokens), tokens);
  };
  auto train_step = [&](const State& s, const Tensor& tokens) {
    auto [value, grads] = value_and_grad(loss)(s.params, tokens);
    auto [params, opt] = optimizer.step(s.params, grads, s.opt);
    return std::make_pair(Metrics{{"loss", value}}, State{params, opt});
  };
  const Mesh mesh{{"data", 2}, {"model", 2}};
  auto step = autoshard(train_step, mesh, {.donate = {0}});

  const Batches batches(open_dataset({argv[1]}, {.length = config.length}), {.batch = 16});
  models::Init init(1);
  State state{models::init_gpt(config, init), {}};
  state.opt = optimizer.init(state.params);
  step.prepare(state, batches.tensor(0));
  state = place(step, state);
  const ShardingSpec rows = place(step, batches.tensor(0)).sharding();

  const Checkpoints checkpoints("train_gpt_run", {.keep = 1});
  const int64_t first = checkpoints.latest().value_or(0);
  if (first > 0) state = checkpoints.load(state);
  TrainLoop<State> loop{.step = step, .batch = [&](int64_t n) { return batches.tensor(n, rows); }};
  loop.save = [&](const State& s, int64_t n) { checkpoints.save(n, s); };
  Printer printer;
  run_loop(state, loop, {.first = first, .steps = 200, .save_every = 50}, printer);

  const Generator generate(config, state.params);
  std::string text = "The ";
  const std::vector<int32_t> prompt(text.begin(), text.end());
  const auto rows_of_text = generate({prompt}, {.tokens = 80, .temperature = 0.7});
  for (int32_t byte : rows_of_text[0]) text += static_cast<char>(byte);
  print("{}\n", text);
}
