#include "cleave/train/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cleave/core/error.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/ops_nn.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/transforms/compile.h"

namespace cleave::train {
namespace {

using models::Gpt;
using models::GptCache;
using Rows = std::vector<std::vector<int32_t>>;

void check(const SamplingOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    throw_user("a temperature of {}: it must be 0 or above", options.temperature);
  if (options.top_k < 0)
    throw_user("the {} most likely tokens: it must be 0 or more", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw_user("a probability of {} together: it must be above 0 and at most 1", options.top_p);
}

void check_prompts(const Rows& prompts, const models::GptConfig& config) {
  if (prompts.empty()) throw_user("nothing to go on from: there is no prompt");
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty()) throw_user("prompt {} is empty; it needs at least one token", i);
    for (int32_t token : prompts[i])
      if (token < 0 || token >= config.vocab)
        throw_user("prompt {}: token {} is not one of the model's vocabulary of {}", i, token,
                   config.vocab);
  }
}

// Prompts with padding on the left, and how much of it each row has.
struct Padded {
  Tensor tokens, skip;
  int64_t length = 0;
};
Padded padded(const Rows& prompts) {
  size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  std::vector<int32_t> tokens, skip;
  for (const auto& prompt : prompts) {
    skip.push_back(static_cast<int32_t>(longest - prompt.size()));
    tokens.insert(tokens.end(), longest - prompt.size(), 0);
    tokens.insert(tokens.end(), prompt.begin(), prompt.end());
  }
  const auto rows = static_cast<int64_t>(prompts.size()), length = static_cast<int64_t>(longest);
  return {Tensor::from(DType::I32, {rows, length}, tokens), Tensor::from(DType::I32, {rows}, skip),
          length};
}

// A cache that lies over a mesh keeps lying as it does, so that one program serves all tokens.
GptCache cache_laid_out_as(GptCache next, const GptCache& before) {
  const auto lie = [](const Tensor& now, const Tensor& then) {
    return then.mesh() ? now.with_sharding(then.sharding()) : now;
  };
  return map_leaves(lie, std::move(next), before);
}

// The smallest logit of the most likely tokens that have the probability together.
Tensor nucleus_limit(const Tensor& logits, double probability) {
  const Tensor sorted = sort(logits, 1, /*descending=*/true);
  const Tensor each = softmax(sorted, 1);
  // The first one is always in: nothing is before it.
  const Tensor inside = less(cumsum(each, 1) - each, probability);
  const double infinity = std::numeric_limits<double>::infinity();
  return min(where(inside, sorted, infinity), {1}, /*keep=*/true);
}

}  // namespace

Tensor limited_logits(const Tensor& logits, const SamplingOptions& options) {
  check(options);
  if (logits.rank() != 2)
    throw_user("logits <{}> must be [rows, vocabulary]", to_string(logits.shape()));
  const double infinity = std::numeric_limits<double>::infinity();
  Tensor result = cast(logits, DType::F32);
  if (options.temperature > 0) result = result / options.temperature;
  if (options.top_k > 0 && options.top_k < logits.dim(1)) {
    const Tensor limit = slice_dim(top_k(result, options.top_k).values, 1, options.top_k - 1);
    result = where(less(result, limit), -infinity, result);
  }
  if (options.top_p < 1)
    result = where(less(result, nucleus_limit(result, options.top_p)), -infinity, result);
  return result;
}

Tensor sample_tokens(const Tensor& logits, const Tensor& key, const SamplingOptions& options) {
  if (options.temperature == 0) return argmax(cast(logits, DType::F32), 1);
  // The largest of logits with Gumbel's noise is drawn by their softmax.
  const double tiny = std::numeric_limits<float>::min();
  const Tensor noise = -log(-log(uniform(key, logits.shape(), tiny, 1)));
  return argmax(limited_logits(logits, options) + noise, 1);
}

Generator::Generator(const models::GptConfig& config, Gpt params)
    : config_(config), params_(std::move(params)) {
  const auto step = [config](const Gpt& p, const GptCache& cache, const Tensor& tokens,
                             const Tensor& key, const SamplingOptions& sampling) {
    auto [logits, next] = models::decode_step(config, p, cache, tokens);
    const Tensor last = squeeze(slice_dim(logits, 1, tokens.dim(1) - 1), {1});
    return std::make_pair(sample_tokens(last, key, sampling),
                          cache_laid_out_as(std::move(next), cache));
  };
  step_ = compile(step, {.donate = {1}});
}

Rows Generator::operator()(const Rows& prompts, const GenerateOptions& options,
                           const TokenListener& listener) const {
  check(options.sampling());
  check_prompts(prompts, config_);
  if (options.tokens < 0) throw_user("{} new tokens: there must be 0 or more", options.tokens);
  const Padded input = padded(prompts);
  const auto rows = static_cast<int64_t>(prompts.size());
  GptCache cache = models::init_cache(
      config_, params_,
      {.batch = rows, .capacity = input.length + options.tokens, .skip = input.skip});
  Rows results(prompts.size());
  std::vector<bool> ended(prompts.size());
  Tensor tokens = input.tokens;
  for (int64_t n = 0; n < options.tokens; ++n) {
    const Tensor key = random_key(options.seed * 0x9e3779b97f4a7c15 + static_cast<uint64_t>(n));
    auto [chosen, next] = step_(params_, cache, tokens, key, options.sampling());
    cache = std::move(next);
    std::vector<int32_t> now = chosen.to_vector<int32_t>();
    tokens = reshape(chosen, {rows, 1});
    for (size_t i = 0; i < now.size(); ++i) {
      if (ended[i]) {
        now[i] = -1;
        continue;
      }
      results[i].push_back(now[i]);
      ended[i] = options.stop && now[i] == *options.stop;
    }
    if (listener) listener(now);
    if (std::all_of(ended.begin(), ended.end(), [](bool end) { return end; })) break;
  }
  return results;
}

}  // namespace cleave::train
