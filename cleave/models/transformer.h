#pragma once

#include <vector>

#include "cleave/models/init.h"

// Transformers as plain functions over trees of weights: a causal language model with rotary
// positions and grouped-query attention, the same with a mixture of experts in the place of its
// feed-forward layers (moe.h), and an encoder block.
namespace cleave::models {

struct GptConfig {
  int64_t layers = 2;
  int64_t d = 128;       // width
  int64_t heads = 8;     // of queries
  int64_t kv_heads = 4;  // of keys and values; divides heads
  int64_t hidden = 512;  // of the feed-forward layers
  int64_t vocab = 256;
  int64_t batch = 8;
  int64_t length = 32;  // tokens in a sequence

  int64_t head_size() const { return d / heads; }
  void check() const;  // throws UserError that names the sizes that do not fit
};

struct AttentionWeights {
  Tensor norm;        // [d]
  Tensor q, k, v, o;  // [d, heads * size], [d, kv_heads * size] twice, [heads * size, d]
  template <typename Visitor>
  void visit(Visitor&& v_) {
    v_("norm", norm);
    v_("q", q);
    v_("k", k);
    v_("v", v);
    v_("o", o);
  }
};

// Gated: down(silu(x gate) * (x up)).
struct FeedForwardWeights {
  Tensor norm;            // [d]
  Tensor gate, up, down;  // [d, hidden] twice, [hidden, d]
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("norm", norm);
    v("gate", gate);
    v("up", up);
    v("down", down);
  }
};

struct GptLayer {
  AttentionWeights attention;
  FeedForwardWeights feed_forward;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("attention", attention);
    v("feed_forward", feed_forward);
  }
};

struct Gpt {
  Tensor embed;  // [vocab, d]
  std::vector<GptLayer> layers;
  Tensor norm;  // [d]
  Tensor head;  // [d, vocab]
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("embed", embed);
    v("layers", layers);
    v("norm", norm);
    v("head", head);
  }
};

Gpt init_gpt(const GptConfig& config, Init& init);
// Tokens [b, s] -> logits [b, s, vocab].
Tensor gpt(const GptConfig& config, const Gpt& params, const Tensor& tokens);

AttentionWeights init_attention(const GptConfig& config, Init& init);
FeedForwardWeights init_feed_forward(const GptConfig& config, Init& init);
// [b, s, d] -> [b, s, d], norms included, without the residual.
Tensor self_attention(const GptConfig& config, const AttentionWeights& w, const Tensor& x);
Tensor feed_forward(const FeedForwardWeights& w, const Tensor& x);

// Turns pairs of features of x [b, h, s, size] by an angle that grows with the position.
Tensor rotate_by_position(const Tensor& x, double base = 10000);

struct EncoderBlock {
  Tensor norm1, bias1, qkv, out;  // [d], [d], [d, 3 d], [d, d]
  Tensor norm2, bias2, up, b_up, down, b_down;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("norm1", norm1);
    v("bias1", bias1);
    v("qkv", qkv);
    v("out", out);
    v("norm2", norm2);
    v("bias2", bias2);
    v("up", up);
    v("b_up", b_up);
    v("down", down);
    v("b_down", b_down);
  }
};

EncoderBlock init_encoder(const GptConfig& config, Init& init);
// [b, s, d] -> [b, s, d]: every position sees all others.
Tensor encoder(const GptConfig& config, const EncoderBlock& w, const Tensor& x);

}  // namespace cleave::models
