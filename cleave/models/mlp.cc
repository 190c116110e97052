#include "cleave/models/mlp.h"

#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_nn.h"

namespace cleave::models {

Mlp init_mlp(const MlpConfig& config, Init& init) {
  Mlp params;
  for (int64_t i = 0; i < config.layers; ++i) {
    const int64_t in = i == 0 ? config.d : config.hidden;
    const int64_t out = i + 1 == config.layers ? config.d : config.hidden;
    params.layers.push_back({init.linear(in, out), init.zeros({out})});
  }
  return params;
}

Tensor mlp(const Mlp& params, Tensor x) {
  for (size_t i = 0; i < params.layers.size(); ++i) {
    x = matmul(x, params.layers[i].w) + params.layers[i].b;
    if (i + 1 < params.layers.size()) x = gelu(x);
  }
  return x;
}

}  // namespace cleave::models
