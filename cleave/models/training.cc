#include "cleave/models/training.h"

#include "cleave/runtime/ops_shape.h"

namespace cleave::models {

Tensor mean_squared_error(const Tensor& value, const Tensor& target) {
  return mean(square(value - target));
}

Tensor next_token_loss(const Tensor& logits, const Tensor& tokens) {
  const int64_t length = tokens.dim(1);
  const Tensor labels = roll(tokens, -1, 1);
  // The last position has nothing to predict.
  const Tensor counts = less(iota(tokens.shape(), 1), length - 1);
  const Tensor losses = where(counts, cross_entropy(logits, labels), 0.0);
  return sum(losses) / static_cast<double>(tokens.dim(0) * (length - 1));
}

}  // namespace cleave::models
