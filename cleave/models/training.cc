#include "cleave/models/training.h"

#include "cleave/runtime/ops_shape.h"

namespace cleave::models {

Tensor mean_squared_error(const Tensor& value, const Tensor& target) {
  return mean(square(value - target));
}

Tensor shift(const Tensor& tokens) { return roll(tokens, -1, 1); }

Tensor next_token_loss(const Tensor& logits, const Tensor& tokens) {
  const int64_t length = tokens.dim(1);
  const Tensor labels = shift(tokens);
  // The last position has nothing to predict.
  const Tensor counts = less(iota(tokens.shape(), 1), length - 1);
  const Tensor losses = where(counts, cross_entropies(logits, labels), 0.0);
  return mean(sum(losses, {1}) / static_cast<double>(length - 1));
}

}  // namespace cleave::models
