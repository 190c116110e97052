#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cleave/models/init.h"

// Transformers as plain functions over trees of weights: a causal language model, the same with a
// mixture of experts in the place of its feed-forward layers (moe.h), and an encoder block.
//
// The language model is Llama's by default: rotary positions, grouped-query attention, gated
// feed-forward layers, RMS norms, no biases, a head of its own. Its config also makes GPT and MPT
// of it (learned positions, layer norms, gelu, biases, the embedding as head), and says what a
// train step keeps for the derivative.
namespace cleave::models {

enum class NormKind : uint8_t { Rms, Layer };
// down(silu(x gate) * (x up)), down(gelu(x up)), down(relu(x up)^2)
enum class FeedForwardKind : uint8_t { Gated, Gelu, Relu2 };
enum class Positions : uint8_t { Rotary, Learned };
// What is computed again for the derivative of a layer, in the place of being kept:
//   None        nothing
//   Selective   all but the results of every second product (q, v, and gate, or up if there is no
//               gate) and of the attention, as torchtitan's selective checkpointing by op has it
//   Full        the whole layer; its input is kept
enum class Remat : uint8_t { None, Selective, Full };

// Longer contexts than a model was first trained for, as Llama 3.1 has it: pairs of features that
// turn less than `low` times in `length` tokens turn `factor` times as slowly, those that turn more
// than `high` times are left, and what is between goes over from one to the other.
struct RotaryScaling {
  double factor = 8, low = 1, high = 4;
  int64_t length = 8192;
};

struct GptConfig {
  int64_t layers = 2;
  int64_t d = 128;       // width
  int64_t heads = 8;     // of queries
  int64_t kv_heads = 4;  // of keys and values; divides heads
  int64_t hidden = 512;  // of the feed-forward layers
  int64_t vocab = 256;
  int64_t batch = 8;
  int64_t length = 32;  // tokens in a sequence

  NormKind norm = NormKind::Rms;
  FeedForwardKind feed_forward = FeedForwardKind::Gated;
  Positions positions = Positions::Rotary;
  double rotary_base = 10000;
  std::optional<RotaryScaling> rotary_scaling = std::nullopt;
  std::optional<double> norm_epsilon = std::nullopt;  // 1e-6 of RMS norms, 1e-5 of layer norms
  bool bias = false;                                  // of products; layer norms have one too
  bool tied = false;                                  // the head is the embedding
  std::optional<DType> compute = std::nullopt;        // weights are converted to it before use
  Remat remat = Remat::None;
  int64_t remat_every = 1;  // of so many layers the first is subject to `remat`
  // Scores and probabilities of the attention are computed again for the derivative, as flash
  // attention does it.
  bool flash = false;
  // The derivative converts weights again, in the place of keeping the converted ones. If weights
  // are sharded and gathered for use, they are gathered again: FSDP frees them after the layer.
  bool weights_again = false;
  // Where tensor parallelism changes layouts there are values of their own (barriers), which a pin
  // can name: what enters products that are split by columns, what leaves those that are split by
  // rows, both also on the way back, and every gradient after its conversion.
  bool borders = false;

  int64_t head_size() const { return d / heads; }
  bool is_again(size_t layer) const {
    return remat != Remat::None && layer % static_cast<size_t>(remat_every) == 0;
  }
  void check() const;  // throws UserError that names the sizes that do not fit
};

// A model of Llama's family by its config.json, or by Hugging Face's folder that has it; the batch
// is 1. Throws UserError, one line with the path and the field, for what `gpt` does not compute:
// other models, biases, other activations, windows, heads of another size than d / heads, other
// scalings of positions. `train::llama_names` has the names of the weights.
GptConfig llama_config(const std::filesystem::path& path);
GptConfig llama_config_from_json(const std::string& text, const std::string& path);

struct AttentionWeights {
  Tensor norm;                           // [d]
  Tensor q, k, v, o;                     // [d, heads * size], [d, kv_heads * size] twice,
                                         // [heads * size, d]
  std::optional<Tensor> norm_bias = {};  // [d]
  std::optional<Tensor> b_q = {}, b_k = {}, b_v = {}, b_o = {};  // of the columns of q, k, v, o
  template <typename Visitor>
  void visit(Visitor&& v_) {
    v_("norm", norm);
    v_("q", q);
    v_("k", k);
    v_("v", v);
    v_("o", o);
    v_("norm_bias", norm_bias);
    v_("b_q", b_q);
    v_("b_k", b_k);
    v_("b_v", b_v);
    v_("b_o", b_o);
  }
};

struct FeedForwardWeights {
  Tensor norm;                                   // [d]
  std::optional<Tensor> gate;                    // [d, hidden], of a gated one
  Tensor up, down;                               // [d, hidden], [hidden, d]
  std::optional<Tensor> norm_bias = {};          // [d]
  std::optional<Tensor> b_up = {}, b_down = {};  // [hidden], [d]
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("norm", norm);
    v("gate", gate);
    v("up", up);
    v("down", down);
    v("norm_bias", norm_bias);
    v("b_up", b_up);
    v("b_down", b_down);
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
  Tensor embed;                          // [vocab, d]
  std::optional<Tensor> positions = {};  // [length, d]
  std::vector<GptLayer> layers;
  Tensor norm;                           // [d]
  std::optional<Tensor> norm_bias = {};  // [d]
  std::optional<Tensor> head;            // [d, vocab]; the embedding if there is none
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("embed", embed);
    v("positions", positions);
    v("layers", layers);
    v("norm", norm);
    v("norm_bias", norm_bias);
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
Tensor feed_forward(const GptConfig& config, const FeedForwardWeights& w, const Tensor& x);

// Turns pairs of features of x [b, h, s, size], i and i + size / 2, by an angle that grows with the
// position.
Tensor rotate_by_position(const GptConfig& config, const Tensor& x);

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
