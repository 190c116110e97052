#pragma once

#include <limits>
#include <optional>
#include <string>

#include "cleave/train/optimizer.h"
#include "cleave/train/schedule.h"

// Parts to chain. Optimizers that are made of them: optimizers.h.
namespace cleave::train {

// The same times a number, a schedule of the step, or a Tensor.
Optimizer scale(double factor);
Optimizer scale_by_schedule(Schedule schedule);
// The last part of an optimizer: times minus the rate.
Optimizer scale_by_rate(Rate rate);

struct MomentOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double epsilon_root = 0;  // under the root
  bool nesterov = false;
};
// Adam's direction: m / (sqrt(v) + epsilon), both corrected for their beginning at zero.
Optimizer scale_by_adam(MomentOptions options = {});
// Momentum: v = decay v + g; nesterov: g + decay v.
Optimizer momentum(double decay, bool nesterov = false);
// Lion's direction: the sign of beta1 m + (1 - beta1) g; then m = beta2 m + (1 - beta2) g.
Optimizer scale_by_lion(double beta1 = 0.9, double beta2 = 0.99);

// Adds decay times the parameter, for those that the mask takes.
//   add_decayed_weights(0.1, {.except = {"*.norm", "*.b"}})
Optimizer add_decayed_weights(Rate decay, Mask mask = {});

// Gradients whose norm, over all parameters together, is above the limit are scaled down to it. The
// squares are summed on every device as far as that goes, and reduced over the mesh once.
Optimizer clip_by_global_norm(double limit);
// Each element into [-limit, limit].
Optimizer clip_by_value(double limit);
// Each parameter's update by the root of the mean of its squares, if that is above the limit.
Optimizer clip_by_block_rms(double limit);

// `inner` for the parameters that the mask takes; the others' gradients pass unchanged.
Optimizer masked(Optimizer inner, Mask mask);
// The first part whose mask takes a parameter has it; it is a UserError if none does. Names of
// slots begin with the part's: "muon.m.layers[0].w".
struct Part {
  std::string name;
  Mask mask;
  Optimizer optimizer;
};
Optimizer partition(const std::vector<Part>& parts);

// Gradient accumulation: the mean of `every` gradients goes to `inner`; on the steps between,
// updates are zero and the state of `inner` stays.
Optimizer multi_steps(Optimizer inner, int64_t every);

// The moving average of the parameters after each step. The last part of a chain: it passes
// updates on as they are.
//   auto smooth = averaged_weights(state, params);        // for evaluation
struct AverageOptions {
  // The average begins at zero, and averaged_weights divides it by 1 - decay^steps. Otherwise it
  // begins at the parameters.
  bool debias = false;
  std::string name = "ema";  // of the slot
};
Optimizer average_weights(double decay, AverageOptions options = {});
NamedLeaves averaged_leaves(const OptState& state, const NamedLeaves& params,
                            const std::string& name);
template <typename T>
T averaged_weights(const OptState& state, const T& params, const std::string& name = "ema") {
  return with_leaves(params, averaged_leaves(state, named_leaves(params), name).values);
}

// Loss scaling for f16. The loss is multiplied by a number so that small gradients are not lost;
// gradients are divided by it before `inner` sees them. If one is not finite, the step is dropped
// (updates are zero, the state of `inner` stays) and the number shrinks; after `period` good steps
// in a row it grows.
//
//   Optimizer opt = loss_scaled(adamw(1e-3));
//   auto [loss, grads] = value_and_grad([&](const Model& p) { return scale_loss(f(p), s); })(p);
struct LossScaleOptions {
  double initial = 32768, growth = 2, shrink = 0.5;
  int64_t period = 2000;
  double smallest = 1, largest = std::numeric_limits<float>::max();
  bool dynamic = true;  // false: the number stays, and steps are still dropped
};
Optimizer loss_scaled(Optimizer inner, LossScaleOptions options = {});
Tensor scale_loss(const Tensor& loss, const OptState& state);
// The loss itself, for logs.
Tensor unscale_loss(const Tensor& loss, const OptState& state);

// The sum of numbers. If some of them are pending sums, even over different axes, all of them are
// completed by one collective.
Tensor sum_at_once(std::vector<Tensor> numbers);
// The root of the sum of squares over all leaves: a number of f32, by one collective.
Tensor global_norm(const std::vector<Tensor>& leaves);
template <typename T>
Tensor global_norm(const T& tree) {
  return global_norm(leaves(tree));
}

}  // namespace cleave::train
