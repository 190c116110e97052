#include "cleave/models/transformer.h"

#include <cmath>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_linalg.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_shape.h"

namespace cleave::models {
namespace {

// [b, s, heads * size] -> [b, heads, s, size]
Tensor split_heads(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}
Tensor merge_heads(const Tensor& x) {
  return reshape(transpose(x, {0, 2, 1, 3}), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

}  // namespace

void GptConfig::check() const {
  for (int64_t size : {layers, d, heads, kv_heads, hidden, vocab, batch, length})
    if (size < 1) throw_user("gpt: sizes must be at least 1, got {}", size);
  if (d % heads != 0) throw_user("gpt: {} heads do not divide the width d={}", heads, d);
  if (heads % kv_heads != 0)
    throw_user("gpt: kv_heads={} does not divide heads={}", kv_heads, heads);
  if (head_size() % 2 != 0)
    throw_user("gpt: heads of size {} can not be turned in pairs; make d / heads even",
               head_size());
}

AttentionWeights init_attention(const GptConfig& config, Init& init) {
  const int64_t keys = config.kv_heads * config.head_size();
  return {init.ones({config.d}), init.linear(config.d, config.d), init.linear(config.d, keys),
          init.linear(config.d, keys), init.linear(config.d, config.d)};
}

FeedForwardWeights init_feed_forward(const GptConfig& config, Init& init) {
  return {init.ones({config.d}), init.linear(config.d, config.hidden),
          init.linear(config.d, config.hidden), init.linear(config.hidden, config.d)};
}

Gpt init_gpt(const GptConfig& config, Init& init) {
  config.check();
  Gpt params;
  params.embed = init.normal({config.vocab, config.d}, 1);
  for (int64_t i = 0; i < config.layers; ++i) {
    AttentionWeights attention = init_attention(config, init);
    params.layers.push_back({std::move(attention), init_feed_forward(config, init)});
  }
  params.norm = init.ones({config.d});
  params.head = init.linear(config.d, config.vocab);
  return params;
}

Tensor rotate_by_position(const Tensor& x, double base) {
  const int64_t length = x.dim(2), half = x.dim(3) / 2;
  const Tensor exponent = iota({length, half}, 1, DType::F32) * (-std::log(base) / half);
  const Tensor angle = iota({length, half}, 0, DType::F32) * exp(exponent);
  const Tensor c = cast(cos(angle), x.dtype()), s = cast(sin(angle), x.dtype());
  const Tensor a = slice_dim(x, 3, 0, half), b = slice_dim(x, 3, half);
  return concat({a * c - b * s, b * c + a * s}, 3);
}

Tensor self_attention(const GptConfig& config, const AttentionWeights& w, const Tensor& x) {
  const Tensor h = rms_norm(x, w.norm);
  const Tensor q = rotate_by_position(split_heads(matmul(h, w.q), config.heads));
  const Tensor k = rotate_by_position(split_heads(matmul(h, w.k), config.kv_heads));
  const Tensor v = split_heads(matmul(h, w.v), config.kv_heads);
  AttentionOptions options;
  options.causal = true;
  return matmul(merge_heads(attention(q, k, v, options)), w.o);
}

Tensor feed_forward(const FeedForwardWeights& w, const Tensor& x) {
  const Tensor h = rms_norm(x, w.norm);
  return matmul(silu(matmul(h, w.gate)) * matmul(h, w.up), w.down);
}

Tensor gpt(const GptConfig& config, const Gpt& params, const Tensor& tokens) {
  Tensor x = embedding(params.embed, tokens);
  for (const GptLayer& layer : params.layers) {
    x = x + self_attention(config, layer.attention, x);
    x = x + feed_forward(layer.feed_forward, x);
  }
  return matmul(rms_norm(x, params.norm), params.head);
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
