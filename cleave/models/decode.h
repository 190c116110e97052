#pragma once

#include <utility>
#include <vector>

#include "cleave/models/transformer.h"

// A language model one token after the other: keys and values of earlier tokens are kept, so that a
// step computes its own tokens only.
//
//   GptCache cache = init_cache(config, params, {.batch = 2, .capacity = 96});
//   auto [logits, filled] = decode_step(config, params, cache, prompts);       // [2, 32]
//   auto [more, next] = decode_step(config, params, filled, one_each);         // [2, 1]
//
// Prompts of different lengths end at the same place: shorter ones have padding on the left, which
// `skip` counts. Nothing sees it, and positions count from behind it.
namespace cleave::models {

struct GptCache {
  std::vector<Tensor> keys, values;  // by layer: [b, kv_heads, capacity, size]
  Tensor used;                       // i32, a number: slots that are filled
  Tensor skip;                       // i32, [b]: slots at the beginning that are padding
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("keys", keys);
    v("values", values);
    v("used", used);
    v("skip", skip);
  }
};

struct CacheOptions {
  int64_t batch = 1;
  int64_t capacity = 0;  // tokens of a row at most, padding included
  Tensor skip = {};      // none: there is no padding
};

// Of zeros, in the type that the model computes in, on one device.
GptCache init_cache(const GptConfig& config, const Gpt& params, const CacheOptions& options);

// The tokens [b, s] after those in the cache -> their logits [b, s, vocab], and the cache with
// them. Logits of padding mean nothing. A cache that is full keeps its size: the caller stops
// before. With learned positions, tokens beyond `config.length` have the last one's.
std::pair<Tensor, GptCache> decode_step(const GptConfig& config, const Gpt& params,
                                        const GptCache& cache, const Tensor& tokens);

}  // namespace cleave::models
