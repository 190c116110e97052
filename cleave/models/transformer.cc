#include "cleave/models/transformer.h"

#include <cmath>
#include <numbers>

#include "cleave/core/error.h"
#include "cleave/models/transformer_parts.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/runtime/ops_stablehlo.h"
#include "cleave/transforms/flow.h"

namespace cleave::models {
namespace parts {

Tensor split_heads(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}
Tensor merge_heads(const Tensor& x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

Tensor in_type(const GptConfig& config, const Tensor& w) {
  return config.compute ? cast(w, *config.compute) : w;
}

}  // namespace parts

namespace {

using namespace parts;

Tensor border(const GptConfig& config, const Tensor& x) {
  return config.borders ? stablehlo::optimization_barrier(x) : x;
}

// x w for weights that are converted again for the derivative. They wait for nothing that is
// computed, so that they can be gathered ahead.
Tensor product_again(const GptConfig& config, const Tensor& x, const Tensor& w) {
  using Pair = std::pair<Tensor, Tensor>;
  const auto product = [&config](const Tensor& x_, const Tensor& w_) {
    return matmul(x_, in_type(config, border(config, w_)));
  };
  const auto forward = [&product](const Tensor& x_, const Tensor& w_) {
    return std::make_pair(product(x_, w_), Pair(x_, w_));
  };
  const auto backward = [&config](const Pair& kept, const Tensor& back) {
    const Tensor again = in_type(config, stablehlo::optimization_barrier(kept.second));
    const Tensor gradient = einsum("bsd,bsf->df", {kept.first, back});
    return std::make_tuple(einsum("bsf,df->bsd", {back, again}),
                           border(config, cast(gradient, kept.second.dtype())));
  };
  return custom_vjp(product, forward, backward)(x, w);
}

}  // namespace

Tensor parts::linear(const GptConfig& config, const Tensor& x, const Tensor& w,
                     const std::optional<Tensor>& bias, bool by_rows) {
  Tensor y = config.weights_again ? product_again(config, x, w)
                                  : matmul(x, in_type(config, border(config, w)));
  if (by_rows) y = border(config, y);
  return bias ? y + in_type(config, *bias) : y;
}

Tensor parts::normed(const GptConfig& config, const Tensor& x, const Tensor& w,
                     const std::optional<Tensor>& bias) {
  const Tensor weight = in_type(config, w);
  if (config.norm == NormKind::Rms) return rms_norm(x, weight, config.norm_epsilon.value_or(1e-6));
  return layer_norm(x, weight, in_type(config, *bias), config.norm_epsilon.value_or(1e-5));
}

Tensor parts::logits_of(const GptConfig& config, const Gpt& params, const Tensor& x) {
  const Tensor h = border(config, normed(config, x, params.norm, params.norm_bias));
  const Tensor head = border(config, params.head ? *params.head : transpose(params.embed, {1, 0}));
  return matmul(h, in_type(config, head));
}

Tensor parts::rotary_angle(const GptConfig& config, const Tensor& position, const Shape& shape) {
  const auto dim = static_cast<int64_t>(shape.size()) - 1;
  const double fall = -std::log(config.rotary_base) / static_cast<double>(shape.back());
  const Tensor rate = exp(iota(shape, dim, DType::F32) * fall);
  if (!config.rotary_scaling) return position * rate;
  const auto [factor, low, high, length] = *config.rotary_scaling;
  const Tensor turns = rate * (static_cast<double>(length) / (2 * std::numbers::pi));
  const Tensor left = clip((turns - low) / (high - low), 0, 1);
  return position * rate * ((1 - left) / factor + left);
}

Tensor parts::rotated(const Tensor& x, const Tensor& angle) {
  const int64_t half = x.dim(3) / 2;
  const Tensor c = cast(cos(angle), x.dtype()), s = cast(sin(angle), x.dtype());
  const Tensor a = slice_dim(x, 3, 0, half), b = slice_dim(x, 3, half);
  return concat({a * c - b * s, b * c + a * s}, 3);
}

namespace {

// A result that selective checkpointing keeps.
Tensor kept(const GptConfig& config, const Tensor& x) {
  return config.remat == Remat::Selective ? keep(x) : x;
}

std::optional<Tensor> optional_zeros(bool there, int64_t size, Init& init) {
  if (!there) return std::nullopt;
  return init.zeros({size});
}

Tensor gpt_layer(const GptConfig& config, const GptLayer& layer, const Tensor& x) {
  const Tensor y = x + self_attention(config, layer.attention, x);
  return y + feed_forward(config, layer.feed_forward, y);
}

}  // namespace

void GptConfig::check() const {
  for (int64_t size : {layers, d, heads, kv_heads, hidden, vocab, batch, length, remat_every})
    if (size < 1) throw_user("gpt: sizes must be at least 1, got {}", size);
  if (d % heads != 0) throw_user("gpt: {} heads do not divide the width d={}", heads, d);
  if (heads % kv_heads != 0)
    throw_user("gpt: kv_heads={} does not divide heads={}", kv_heads, heads);
  if (positions == Positions::Rotary && head_size() % 2 != 0)
    throw_user("gpt: heads of size {} can not be turned in pairs; make d / heads even",
               head_size());
  if (!(rotary_base > 0) || (norm_epsilon && !(*norm_epsilon >= 0)))
    throw_user("gpt: the base of rotary positions must be positive, and epsilon not negative");
  if (rotary_scaling && !(rotary_scaling->factor > 0 && rotary_scaling->length > 0 &&
                          rotary_scaling->low < rotary_scaling->high))
    throw_user("gpt: rotary scaling takes a positive factor and length, and low below high");
}

AttentionWeights init_attention(const GptConfig& config, Init& init) {
  const int64_t d = config.d, keys = config.kv_heads * config.head_size();
  const bool bias = config.bias;
  AttentionWeights w{init.ones({d}), init.linear(d, d), init.linear(d, keys), init.linear(d, keys),
                     init.linear(d, d)};
  w.norm_bias = optional_zeros(config.norm == NormKind::Layer, d, init);
  w.b_q = optional_zeros(bias, d, init);
  w.b_k = optional_zeros(bias, keys, init);
  w.b_v = optional_zeros(bias, keys, init);
  w.b_o = optional_zeros(bias, d, init);
  return w;
}

FeedForwardWeights init_feed_forward(const GptConfig& config, Init& init) {
  const int64_t d = config.d, hidden = config.hidden;
  FeedForwardWeights w;
  w.norm = init.ones({d});
  if (config.feed_forward == FeedForwardKind::Gated) w.gate = init.linear(d, hidden);
  w.up = init.linear(d, hidden);
  w.down = init.linear(hidden, d);
  w.norm_bias = optional_zeros(config.norm == NormKind::Layer, d, init);
  w.b_up = optional_zeros(config.bias, hidden, init);
  w.b_down = optional_zeros(config.bias, d, init);
  return w;
}

Gpt init_gpt(const GptConfig& config, Init& init) {
  config.check();
  Gpt params;
  params.embed = init.normal({config.vocab, config.d}, 1);
  if (config.positions == Positions::Learned)
    params.positions = init.normal({config.length, config.d}, 0.02);
  for (int64_t i = 0; i < config.layers; ++i) {
    AttentionWeights attention = init_attention(config, init);
    params.layers.push_back({std::move(attention), init_feed_forward(config, init)});
  }
  params.norm = init.ones({config.d});
  params.norm_bias = optional_zeros(config.norm == NormKind::Layer, config.d, init);
  if (!config.tied) params.head = init.linear(config.d, config.vocab);
  return params;
}

Tensor rotate_by_position(const GptConfig& config, const Tensor& x) {
  const Shape shape{x.dim(2), x.dim(3) / 2};
  return rotated(x, rotary_angle(config, iota(shape, 0, DType::F32), shape));
}

Tensor self_attention(const GptConfig& config, const AttentionWeights& w, const Tensor& x) {
  const auto turned = [&](const Tensor& heads) {
    return config.positions == Positions::Rotary ? rotate_by_position(config, heads) : heads;
  };
  const auto mix = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    AttentionOptions options;
    options.causal = true;
    return attention(q, k, v, options);
  };
  const Tensor h = border(config, normed(config, x, w.norm, w.norm_bias));
  const Tensor q = kept(config, linear(config, h, w.q, w.b_q));
  const Tensor k = linear(config, h, w.k, w.b_k);
  const Tensor v = kept(config, linear(config, h, w.v, w.b_v));
  const Tensor queries = turned(split_heads(q, config.heads));
  const Tensor keys = turned(split_heads(k, config.kv_heads));
  const Tensor values = split_heads(v, config.kv_heads);
  const Tensor mixed =
      config.flash ? checkpoint(mix)(queries, keys, values) : mix(queries, keys, values);
  return linear(config, kept(config, merge_heads(mixed)), w.o, w.b_o, /*by_rows=*/true);
}

Tensor feed_forward(const GptConfig& config, const FeedForwardWeights& w, const Tensor& x) {
  const Tensor h = border(config, normed(config, x, w.norm, w.norm_bias));
  Tensor inner;
  if (w.gate) {
    const Tensor gate = kept(config, linear(config, h, *w.gate, {}));
    inner = silu(gate) * linear(config, h, w.up, w.b_up);
  } else {
    const Tensor up = kept(config, linear(config, h, w.up, w.b_up));
    inner = config.feed_forward == FeedForwardKind::Gelu ? gelu(up) : square(relu(up));
  }
  return linear(config, inner, w.down, w.b_down, /*by_rows=*/true);
}

Tensor gpt(const GptConfig& config, const Gpt& params, const Tensor& tokens) {
  Tensor x = embedding(in_type(config, params.embed), tokens);
  if (params.positions) x = x + in_type(config, *params.positions);
  GptConfig once = config;  // a layer that is computed again converts its weights again anyway
  once.weights_again = false;
  GptConfig plain = config;
  plain.remat = Remat::None;
  for (size_t i = 0; i < params.layers.size(); ++i) {
    if (!config.is_again(i)) {
      x = gpt_layer(plain, params.layers[i], x);
      continue;
    }
    x = checkpoint([&once](const GptLayer& layer, const Tensor& y) {
      return gpt_layer(once, layer, y);
    })(params.layers[i], x);
  }
  return logits_of(config, params, x);
}

EncoderBlock init_encoder(const GptConfig& config, Init& init) {
  config.check();
  const int64_t d = config.d, hidden = config.hidden;
  return {init.ones({d}),         init.zeros({d}), init.linear(d, 3 * d),  init.linear(d, d),
          init.ones({d}),         init.zeros({d}), init.linear(d, hidden), init.zeros({hidden}),
          init.linear(hidden, d), init.zeros({d})};
}

Tensor encoder(const GptConfig& config, const EncoderBlock& w, const Tensor& x) {
  const std::vector<Tensor> qkv = split(matmul(layer_norm(x, w.norm1, w.bias1), w.qkv), 3, -1);
  const Tensor mixed =
      attention(split_heads(qkv[0], config.heads), split_heads(qkv[1], config.heads),
                split_heads(qkv[2], config.heads));
  const Tensor y = x + matmul(merge_heads(mixed), w.out);
  const Tensor h = gelu(matmul(layer_norm(y, w.norm2, w.bias2), w.up) + w.b_up);
  return y + (matmul(h, w.down) + w.b_down);
}

}  // namespace cleave::models
