#pragma once

#include <vector>

#include "cleave/models/init.h"

namespace cleave::models {

struct MlpConfig {
  int64_t layers = 2;  // matrices
  int64_t d = 64;      // width of input and output
  int64_t hidden = 256;
  int64_t batch = 32;
};

struct MlpLayer {
  Tensor w, b;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("w", w);
    v("b", b);
  }
};

struct Mlp {
  std::vector<MlpLayer> layers;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("layers", layers);
  }
};

Mlp init_mlp(const MlpConfig& config, Init& init);
// [b, d] -> [b, d]: gelu between the layers.
Tensor mlp(const Mlp& params, Tensor x);

}  // namespace cleave::models
