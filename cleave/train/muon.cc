#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/train/optimizers.h"

namespace cleave::train {
namespace {

class Muon : public Transformation {
 public:
  explicit Muon(MuonOptions options) : options_(std::move(options)) {}
  std::vector<std::string> slots() const override { return {"m", "step"}; }
  void init(const NamedLeaves& params, StateSlots& state) const override {
    for (size_t i = 0; i < params.size(); ++i)
      state.set("m", params.names[i], wide_zeros(params.values[i]));
    state.set("step", zero_step(params));
  }

  std::vector<Tensor> update(std::vector<Tensor> grads, const NamedLeaves& params,
                             StateSlots& state) const override {
    const double beta = options_.momentum;
    const Tensor count = state.get("step") + 1;
    const Tensor step = cast(count, DType::F32);
    const Tensor now = 1.0 - pow(beta, step), ahead = 1.0 - pow(beta, step + 1.0);
    for (size_t i = 0; i < grads.size(); ++i) {
      const Tensor g = grads[i];
      const Tensor m = g * (1 - beta) + state.get("m", params.names[i]) * beta;
      const Tensor direction = options_.nesterov ? m / cast(ahead, g.dtype()) * beta +
                                                       g / cast(now, g.dtype()) * (1 - beta)
                                                 : m / cast(now, g.dtype());
      grads[i] = orthogonalized(direction, options_) * scale_of(g.shape());
      state.set("m", params.names[i], m);
    }
    state.set("step", count);
    return grads;
  }

 private:
  double scale_of(const Shape& shape) const {
    const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
    if (options_.consistent_rms)
      return std::sqrt(std::max(rows, columns)) * *options_.consistent_rms;
    return std::sqrt(std::max(1.0, columns / rows));
  }

  MuonOptions options_;
};

}  // namespace

Tensor orthogonalized(const Tensor& matrix, const MuonOptions& options) {
  if (matrix.rank() != 2) throw_user("muon: tensor<{}> is not a matrix", to_string(matrix.shape()));
  const bool tall = matrix.dim(0) > matrix.dim(1);
  Tensor x = tall ? transpose(matrix) : matrix;
  x = x / (sqrt(sum(square(x))) + options.epsilon);
  for (int64_t i = 0; i < options.iterations; ++i) {
    const Tensor a = matmul(x, transpose(x));
    const Tensor b = a * options.b + matmul(a * options.c, a);
    x = x * options.a + matmul(b, x);
  }
  return tall ? transpose(x) : x;
}

Optimizer muon(Rate rate, MuonOptions options) {
  const Rate adam_rate = options.adam_rate.value_or(rate);
  const Optimizer rest = adamw(adam_rate, {.beta1 = options.adam_beta1,
                                           .beta2 = options.adam_beta2,
                                           .epsilon = options.epsilon,
                                           .epsilon_root = options.adam_epsilon_root,
                                           .weight_decay = options.adam_weight_decay,
                                           .nesterov = options.nesterov});
  const Optimizer matrices =
      chain({Optimizer(std::make_shared<Muon>(options)),
             add_decayed_weights(options.weight_decay, options.decay), scale_by_rate(rate)});
  return partition({{"muon", {.except = options.adam, .min_rank = 2, .max_rank = 2}, matrices},
                    {"adam", {}, rest}});
}

}  // namespace cleave::train
