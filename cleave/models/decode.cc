#include "cleave/models/decode.h"

#include "cleave/core/error.h"
#include "cleave/models/transformer_parts.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_indexing.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_shape.h"

namespace cleave::models {
namespace {

// What the tokens of one step have in common in all layers.
struct DecodeStep {
  Tensor positions;  // i32, [b, s]: how many tokens of the row are before it
  Tensor visible;    // bool, [b, 1, s, capacity]
  Tensor used;       // i32, a number
};

DecodeStep step_of(const GptCache& cache, int64_t batch, int64_t length) {
  const int64_t capacity = cache.keys[0].dim(2);
  DecodeStep step{.positions = {}, .visible = {}, .used = cache.used};
  const Tensor slot = iota({batch, length}, 1) + cache.used;  // of the query
  const Tensor skip = broadcast_to(expand_dims(cache.skip, 1), {batch, length});
  step.positions = maximum(slot - skip, 0);
  const Shape pairs{batch, 1, length, capacity};
  const auto over_keys = [&](const Tensor& x) {
    return broadcast_to(reshape(x, {batch, 1, length, 1}), pairs);
  };
  const Tensor key = iota(pairs, 3), query = over_keys(slot), first = over_keys(skip);
  // Padding sees padding, so that it has numbers, which nothing else sees.
  const Tensor real = logical_or(greater_equal(key, first), less(query, first));
  step.visible = logical_and(less_equal(key, query), real);
  return step;
}

Tensor put(const Tensor& cache, const Tensor& fresh, const Tensor& used) {
  const Tensor zero = full({}, 0, DType::I32);
  const std::vector<Tensor> starts{zero, zero, used, zero};
  return dynamic_update_slice(cache, cast(fresh, cache.dtype()), starts);
}

Tensor attention_step(const GptConfig& config, const AttentionWeights& w, const Tensor& x,
                      const DecodeStep& step, Tensor& keys, Tensor& values) {
  using namespace parts;
  const auto turned = [&](const Tensor& heads) {
    if (config.positions != Positions::Rotary) return heads;
    const Shape shape{x.dim(0), 1, x.dim(1), config.head_size() / 2};
    const Tensor at = reshape(cast(step.positions, DType::F32), {x.dim(0), 1, x.dim(1), 1});
    return rotated(heads, rotary_angle(config, broadcast_to(at, shape), shape));
  };
  const Tensor h = normed(config, x, w.norm, w.norm_bias);
  const Tensor queries = turned(split_heads(linear(config, h, w.q, w.b_q), config.heads));
  keys = put(keys, turned(split_heads(linear(config, h, w.k, w.b_k), config.kv_heads)), step.used);
  values = put(values, split_heads(linear(config, h, w.v, w.b_v), config.kv_heads), step.used);
  AttentionOptions options;
  options.mask = step.visible;
  const Tensor mixed = attention(queries, keys, values, options);
  return linear(config, merge_heads(mixed), w.o, w.b_o, /*by_rows=*/true);
}

}  // namespace

GptCache init_cache(const GptConfig& config, const Gpt& params, const CacheOptions& options) {
  if (options.batch < 1 || options.capacity < 1)
    throw_user("a cache for {} rows of {} tokens: both must be at least 1", options.batch,
               options.capacity);
  if (config.positions == Positions::Learned && options.capacity > config.length)
    throw_user("a cache for {} tokens: the model has learned {} positions", options.capacity,
               config.length);
  const Shape shape{options.batch, config.kv_heads, options.capacity, config.head_size()};
  const DType dtype = config.compute.value_or(params.embed.dtype());
  GptCache cache;
  for (size_t i = 0; i < params.layers.size(); ++i) {
    cache.keys.push_back(zeros(shape, dtype));
    cache.values.push_back(zeros(shape, dtype));
  }
  cache.used = zeros({}, DType::I32);
  cache.skip = options.skip.valid() ? options.skip : zeros({options.batch}, DType::I32);
  return cache;
}

std::pair<Tensor, GptCache> decode_step(const GptConfig& config, const Gpt& params,
                                        const GptCache& cache, const Tensor& tokens) {
  using namespace parts;
  if (tokens.rank() != 2 || cache.keys.size() != params.layers.size() ||
      tokens.dim(0) != cache.skip.dim(0) || tokens.dim(1) > cache.keys[0].dim(2))
    throw_user(
        "decode_step: tokens <{}> must be [b, s] for a cache of {} rows, {} slots, {} layers",
        to_string(tokens.shape()), cache.skip.dim(0), cache.keys[0].dim(2), cache.keys.size());
  const int64_t length = tokens.dim(1);
  const DecodeStep step = step_of(cache, tokens.dim(0), length);
  GptCache next = cache;
  Tensor x = embedding(in_type(config, params.embed), tokens);
  if (params.positions) x = x + take(in_type(config, *params.positions), step.positions, 0);
  for (size_t i = 0; i < params.layers.size(); ++i) {
    const GptLayer& layer = params.layers[i];
    x = x + attention_step(config, layer.attention, x, step, next.keys[i], next.values[i]);
    x = x + feed_forward(config, layer.feed_forward, x);
  }
  next.used = cache.used + full({}, length, DType::I32);
  return {logits_of(config, params, x), std::move(next)};
}

}  // namespace cleave::models
