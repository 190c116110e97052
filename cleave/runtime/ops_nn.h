#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cleave/runtime/tensor.h"

// Layers. Softmax and norms of 16-bit floats are computed in f32 and rounded once.
namespace cleave {

Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x, bool approximate = true);  // by tanh; else by erf
Tensor silu(const Tensor& x);
Tensor softplus(const Tensor& x);

Tensor softmax(const Tensor& x, int64_t dim = -1);
Tensor log_softmax(const Tensor& x, int64_t dim = -1);

// Over the last dimension; weight and bias may be left out.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5);
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double epsilon = 1e-6);

struct AttentionOptions {
  bool causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(d) if none is given
  Tensor mask = {};  // bool, broadcasts to [b, h, s, t]: true if a query may see a key
};
// softmax(q k^T scale) v for q [b, h, s, d] and k, v [b, g, t, d]; every h / g heads of q share one
// of k and v. A causal query at s - 1 sees all t keys.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options = {});

// For every row of logits [..., c], minus the log of the probability of its label; f32. The
// classes may be sharded: no device needs all of them. A label that is no class, below 0 or beyond
// the last, is a UserError if the labels are computed when this is called; in a trace, or if
// they are yet to be computed, it makes the row and its gradient NaN.
Tensor cross_entropies(const Tensor& logits, const Tensor& labels);
// The mean of them over all rows: one number, a loss.
Tensor cross_entropy(const Tensor& logits, const Tensor& labels);

enum class ImageLayout : uint8_t { ChannelsLast, ChannelsFirst };  // [b, ..., c]; [b, c, ...]
struct WindowOptions {
  std::vector<int64_t> strides = {};   // {}: ones
  std::vector<int64_t> padding = {};   // low, high of each dimension; {}: none
  std::vector<int64_t> dilation = {};  // of the window; {}: ones
  int64_t groups = 1;                  // of features; convolution only
  ImageLayout layout = ImageLayout::ChannelsLast;
};
// The kernel is [..., in / groups, out] with channels last, and [out, in / groups, ...] otherwise.
Tensor conv(const Tensor& x, const Tensor& kernel, const WindowOptions& options = {});
Tensor max_pool(const Tensor& x, const std::vector<int64_t>& window,
                const WindowOptions& options = {});
Tensor avg_pool(const Tensor& x, const std::vector<int64_t>& window,
                const WindowOptions& options = {});  // padding counts as zeros

}  // namespace cleave
