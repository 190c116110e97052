// A GPT trained on eight virtual devices: the gradient of a plain function, over a mesh, compiled.
#include "cleave/cleave.h"
#include "cleave/models.h"
using namespace cleave;
using models::shift;

using Params = models::Gpt;
const models::GptConfig config{.d = 64, .heads = 4, .kv_heads = 4, .hidden = 128, .vocab = 64};
Tensor gpt(const Params& p, const Tensor& tokens) { return models::gpt(config, p, tokens); }

int main() {
  Mesh mesh{{"data", 2}, {"model", 4}};
  models::Init init(1);
  Params params = models::init_gpt(config, init);
  Tensor tokens = init.integers({config.batch, config.length}, config.vocab);
  TreeSpec specs = models::tree_spec(params, models::Scheme::Mixed, mesh);

  auto loss = [](const Params& p, Tensor tokens) {
    return cross_entropy(gpt(p, tokens), shift(tokens));
  };
  auto step = compile(shard_map(value_and_grad(loss), mesh, {.in = {specs, P("data", {})}}));
  for (int i = 0; i < 10; ++i) {
    CommLog log;
    auto [value, grads] = step(params, tokens);
    params = models::sgd(params, grads, 0.3);
    print("step {}: loss {:.4f}\n", i, value.item());
    if (i == 9) print("{}\n", log);
  }
}
