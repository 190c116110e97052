#pragma once

#include <optional>

#include "cleave/train/transformations.h"

// Optimizers as they are published, with Optax's defaults and Optax's order of operations.
namespace cleave::train {

struct SgdOptions {
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  // added to the gradient, before momentum
  Mask decay = {};
};
Optimizer sgd(Rate rate, SgdOptions options = {});

Optimizer adam(Rate rate, MomentOptions options = {});

struct AdamWOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, epsilon_root = 0;
  double weight_decay = 1e-4;
  Mask decay = {};  // parameters that decay
  bool nesterov = false;
};
//   adamw(warmup_cosine(3e-4, 100, 10000), {.weight_decay = 0.1, .decay = {.except = {"*.norm"}}})
Optimizer adamw(Rate rate, AdamWOptions options = {});

struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 1e-3;
  Mask decay = {};
};
Optimizer lion(Rate rate, LionOptions options = {});

// Second moments of a matrix are kept as one row and one column (the mean over each of the other
// dimension), if its two largest dimensions are at least `smallest_factored`.
struct AdafactorOptions {
  std::optional<Rate> rate = {};  // none: steps are relative to the parameters alone
  int64_t smallest_factored = 128;
  double decay_rate = 0.8;
  int64_t decay_offset = 0;
  bool by_parameter_scale = true;  // updates times the root mean square of the parameter
  std::optional<double> clip = 1.0;
  std::optional<double> momentum = {};
  std::optional<double> weight_decay = {};
  Mask decay = {};
  double epsilon = 1e-30;
  bool factored = true;
};
Optimizer adafactor(AdafactorOptions options = {});

// Momentum, made orthogonal by Newton-Schulz iterations, for matrices; AdamW for everything else
// and for what `adam` takes.
struct MuonOptions {
  double a = 3.4445, b = -4.7750, c = 2.0315;
  int64_t iterations = 5;
  double momentum = 0.95;
  double epsilon = 1e-8;
  bool nesterov = true;
  double weight_decay = 0;
  Mask decay = {};
  // By which an update is scaled: root of max(1, columns / rows); with a value, root of max(rows,
  // columns) times it.
  std::optional<double> consistent_rms = {};
  std::vector<std::string> adam = {};  // names of matrices that AdamW has: {"embed", "head"}
  std::optional<Rate> adam_rate = {};  // none: the rate of all
  double adam_beta1 = 0.9, adam_beta2 = 0.999, adam_epsilon_root = 0, adam_weight_decay = 0;
};
Optimizer muon(Rate rate, MuonOptions options = {});
// X (X^T X)^(-1/2), nearly: singular values come between 0.7 and 1.2.
Tensor orthogonalized(const Tensor& matrix, const MuonOptions& options = {});

}  // namespace cleave::train
