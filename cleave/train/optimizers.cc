#include "cleave/train/optimizers.h"

namespace cleave::train {

Optimizer sgd(Rate rate, SgdOptions options) {
  std::vector<Optimizer> parts;
  if (options.weight_decay != 0)
    parts.push_back(add_decayed_weights(options.weight_decay, options.decay));
  if (options.momentum != 0) parts.push_back(momentum(options.momentum, options.nesterov));
  parts.push_back(scale_by_rate(std::move(rate)));
  return chain(parts);
}

Optimizer adam(Rate rate, MomentOptions options) {
  return chain({scale_by_adam(options), scale_by_rate(std::move(rate))});
}

Optimizer adamw(Rate rate, AdamWOptions options) {
  return chain({scale_by_adam({options.beta1, options.beta2, options.epsilon, options.epsilon_root,
                               options.nesterov}),
                add_decayed_weights(options.weight_decay, options.decay),
                scale_by_rate(std::move(rate))});
}

Optimizer lion(Rate rate, LionOptions options) {
  return chain({scale_by_lion(options.beta1, options.beta2),
                add_decayed_weights(options.weight_decay, options.decay),
                scale_by_rate(std::move(rate))});
}

}  // namespace cleave::train
