#include "cleave/train/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cleave/models/schemes.h"
#include "cleave/runtime/ops_creation.h"
#include "cleave/runtime/ops_random.h"
#include "cleave/runtime/ops_reduction.h"
#include "cleave/runtime/ops_shape.h"
#include "cleave/transforms/compile.h"
#include "tests/support/error_of.h"

// Generation: the cache against the whole sequence, greedy text against the naive loop, samples
// against the probabilities that they should have, and all of it over a mesh.
namespace cleave::train {
namespace {

using models::decode_step;
using models::Gpt;
using models::GptCache;
using models::GptConfig;
using ::testing::HasSubstr;
using Rows = std::vector<std::vector<int32_t>>;

GptConfig llama() {
  return {.layers = 2, .d = 32, .heads = 4, .kv_heads = 2, .hidden = 48, .vocab = 40, .length = 24};
}
GptConfig gpt2() {
  GptConfig config = llama();
  config.kv_heads = 4;
  config.norm = models::NormKind::Layer;
  config.feed_forward = models::FeedForwardKind::Gelu;
  config.positions = models::Positions::Learned;
  config.bias = config.tied = true;
  return config;
}

Gpt weights_of(const GptConfig& config) {
  models::Init init(5);
  Gpt params = models::init_gpt(config, init);
  return params;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto x = a.to_vector<float>(), y = b.to_vector<float>();
  EXPECT_EQ(x.size(), y.size());
  double largest = 0;
  for (size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, static_cast<double>(std::abs(x[i] - y[i])));
  return largest;
}

class Cache : public testing::TestWithParam<GptConfig> {};

// A prompt at once and then one token after the other: at every position the logits of the whole
// sequence.
TEST_P(Cache, GivesTheLogitsOfTheWholeSequence) {
  const GptConfig config = GetParam();
  const Gpt params = weights_of(config);
  models::Init init(6);
  const Tensor tokens = init.integers({3, config.length}, config.vocab);
  const Tensor whole = models::gpt(config, params, tokens);
  GptCache cache = models::init_cache(config, params, {.batch = 3, .capacity = config.length});
  const int64_t prompt = 7;
  auto [logits, next] = decode_step(config, params, cache, slice_dim(tokens, 1, 0, prompt));
  EXPECT_LT(largest_difference(logits, slice_dim(whole, 1, 0, prompt)), 2e-5);
  cache = next;
  const auto step = compile([&](const Gpt& p, const GptCache& c, const Tensor& t) {
    return decode_step(config, p, c, t);
  });
  for (int64_t i = prompt; i < config.length; ++i) {
    auto [one, after] = step(params, cache, slice_dim(tokens, 1, i, i + 1));
    ASSERT_LT(largest_difference(one, slice_dim(whole, 1, i, i + 1)), 2e-5) << "position " << i;
    cache = after;
  }
  EXPECT_EQ(step.stats().traces, 1);
}

INSTANTIATE_TEST_SUITE_P(Models, Cache, testing::Values(llama(), gpt2()));

// The most likely token of the whole sequence, again and again, row by row.
Rows naive(const GptConfig& config, const Gpt& params, const Rows& prompts, int64_t count) {
  Rows results;
  for (std::vector<int32_t> row : prompts) {
    auto& result = results.emplace_back();
    for (int64_t n = 0; n < count; ++n) {
      GptConfig sized = config;
      Gpt sized_params = params;
      const auto length = static_cast<int64_t>(row.size());
      if (params.positions) sized_params.positions = slice_dim(*params.positions, 0, 0, length);
      const Tensor logits =
          models::gpt(sized, sized_params, Tensor::from(DType::I32, {1, length}, row));
      const Tensor next = argmax(slice_dim(logits, 1, length - 1), 2);
      row.push_back(next.to_vector<int32_t>()[0]);
      result.push_back(row.back());
    }
  }
  return results;
}

const Rows kPrompts{{3, 1, 4, 1, 5, 9, 2}, {7}, {6, 5, 3}};

class Greedy : public testing::TestWithParam<GptConfig> {};

TEST_P(Greedy, IsTheNaiveLoopForPromptsOfAnyLength) {
  const GptConfig config = GetParam();
  const Gpt params = weights_of(config);
  const Rows expected = naive(config, params, kPrompts, 12);
  EXPECT_EQ(Generator(config, params)(kPrompts, {.tokens = 12, .temperature = 0}), expected);
  const Mesh mesh{{"data", 2}, {"model", 2}};
  for (models::Scheme scheme : {models::Scheme::Megatron, models::Scheme::Fsdp}) {
    const Gpt sharded = models::shard_weights(params, scheme, mesh);
    EXPECT_EQ(Generator(config, sharded)(kPrompts, {.tokens = 12, .temperature = 0}), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Greedy, testing::Values(llama(), gpt2()));

TEST(Sampling, DoesNotDependOnTheMesh) {
  const GptConfig config = llama();
  const Gpt params = weights_of(config);
  const GenerateOptions options{
      .tokens = 12, .temperature = 0.9, .top_k = 12, .top_p = 0.9, .seed = 3};
  const Rows whole = Generator(config, params)(kPrompts, options);
  const Gpt sharded =
      models::shard_weights(params, models::Scheme::Megatron, Mesh{{"data", 2}, {"model", 4}});
  EXPECT_EQ(Generator(config, sharded)(kPrompts, options), whole);
  GenerateOptions other = options;
  other.seed = 4;
  EXPECT_NE(Generator(config, params)(kPrompts, other), whole);
}

TEST(Sampling, ARowEndsWithTheStopToken) {
  const GptConfig config = llama();
  const Gpt params = weights_of(config);
  const Rows all = Generator(config, params)(kPrompts, {.tokens = 12, .temperature = 0});
  const int32_t stop = all[0][4];
  std::vector<int32_t> steps;
  const Rows rows = Generator(config, params)(
      kPrompts, {.tokens = 12, .temperature = 0, .stop = stop},
      [&](std::span<const int32_t> tokens) { steps.push_back(tokens[0]); });
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto end = std::find(all[i].begin(), all[i].end(), stop);
    const std::vector<int32_t> expected(all[i].begin(), end + (end != all[i].end()));
    EXPECT_EQ(rows[i], expected);
  }
  const auto first_end = std::find(steps.begin(), steps.end(), stop);
  for (auto it = first_end == steps.end() ? first_end : first_end + 1; it != steps.end(); ++it)
    EXPECT_EQ(*it, -1);
}

// Probabilities of a row, computed in doubles by the definitions.
std::vector<double> expected_probabilities(std::vector<float> logits, double temperature,
                                           size_t top_k, double top_p) {
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> p(logits.size());
  const size_t most = top_k > 0 ? std::min(top_k, p.size()) : p.size();
  for (size_t i = 0; i < most; ++i)
    p[order[i]] = std::exp((logits[order[i]] - logits[order[0]]) / temperature);
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  double before = 0;
  for (size_t i : order) {
    const double each = p[i] / sum;
    if (before >= top_p) p[i] = 0;
    before += each;
  }
  const double kept = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& each : p) each /= kept;
  return p;
}

TEST(Sampling, HasTheProbabilitiesOfItsDefinition) {
  constexpr int64_t kRows = 20000, kVocab = 9;
  const std::vector<float> logits{0.3f, 2.1f, -1.0f, 1.4f, 0.9f, -0.2f, 2.0f, -3.0f, 0.1f};
  const Tensor row = Tensor::from(DType::F32, {1, kVocab}, logits);
  const Tensor rows = broadcast_to(row, {kRows, kVocab});
  for (const SamplingOptions& options :
       {SamplingOptions{1, 0, 1}, SamplingOptions{0.5, 0, 1}, SamplingOptions{1, 3, 1},
        SamplingOptions{1.5, 0, 0.7}, SamplingOptions{0.8, 5, 0.9}, SamplingOptions{1, 0, 0.01}}) {
    const std::vector<double> expected = expected_probabilities(
        logits, options.temperature, static_cast<size_t>(options.top_k), options.top_p);
    // What is left of the logits is exact.
    const std::vector<float> left = limited_logits(row, options).to_vector<float>();
    std::vector<double> counts(kVocab);
    for (int32_t token : sample_tokens(rows, random_key(11), options).to_vector<int32_t>())
      counts[static_cast<size_t>(token)] += 1.0 / kRows;
    for (size_t i = 0; i < kVocab; ++i) {
      EXPECT_EQ(std::isinf(left[i]), expected[i] == 0) << i;
      // Five standard deviations.
      const double deviation = std::sqrt(expected[i] * (1 - expected[i]) / kRows);
      EXPECT_NEAR(counts[i], expected[i], 5 * deviation + 1e-12) << "token " << i;
    }
  }
}

TEST(Sampling, WrongOptionsAreNamed) {
  const GptConfig config = gpt2();
  const Generator generate(config, weights_of(config));
  EXPECT_THAT(error_of([&] { generate({}, {}); }), HasSubstr("there is no prompt"));
  EXPECT_THAT(error_of([&] { generate({{}}, {}); }), HasSubstr("prompt 0 is empty"));
  EXPECT_THAT(error_of([&] { generate({{40}}, {}); }),
              HasSubstr("token 40 is not one of the model's vocabulary of 40"));
  EXPECT_THAT(error_of([&] { generate({{1}}, {.top_p = 0}); }), HasSubstr("above 0 and at most 1"));
  EXPECT_THAT(error_of([&] { generate({{1}}, {.tokens = 24}); }),
              HasSubstr("a cache for 25 tokens: the model has learned 24 positions"));
}

}  // namespace
}  // namespace cleave::train
