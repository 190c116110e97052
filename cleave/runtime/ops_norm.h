#pragma once

#include <cstdint>
#include <optional>

#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/tensor.h"

// Normalisation of images and other data with channels, and losses with options. 16-bit floats are
// computed in f32 and rounded once.
namespace cleave {

struct BatchNormOptions {
  bool training = true;   // false: the running statistics normalise, and stay as they are
  double momentum = 0.1;  // how far running statistics move towards those of a batch
  double epsilon = 1e-5;
  ImageLayout layout = ImageLayout::ChannelsLast;
};
struct BatchNorm {
  Tensor y;
  Tensor mean, variance;  // the running statistics afterwards (f32, by channel), without gradients
};
// Each channel of x [b, ..., c] (or [b, c, ...]) to mean 0 and variance 1 over all else, then times
// weight plus bias, [c]; both may be left out. Over a mesh the statistics are those of the whole
// batch. The running variance takes the one with n - 1 in the denominator, as PyTorch's does.
//   auto [y, mean, variance] = batch_norm(x, weight, bias, state.mean, state.variance);
BatchNorm batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& running_mean, const Tensor& running_variance,
                     const BatchNormOptions& options = {});

// Each example's channels, in `groups` groups of neighbours, to mean 0 and variance 1.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {},
                  const Tensor& bias = {}, double epsilon = 1e-5,
                  ImageLayout layout = ImageLayout::ChannelsLast);

struct CrossEntropyOptions {
  std::optional<int64_t> ignore_index = {};  // rows with this label do not count
  double label_smoothing = 0;                // this part of the weight goes to all classes alike
};
// As in ops_nn.h. Rows that are left out are 0; the mean is over those that count, and NaN if none
// does.
Tensor cross_entropies(const Tensor& logits, const Tensor& labels,
                       const CrossEntropyOptions& options);
Tensor cross_entropy(const Tensor& logits, const Tensor& labels,
                     const CrossEntropyOptions& options);

}  // namespace cleave
