#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "cleave/models/decode.h"
#include "cleave/models/transformer.h"

// Text from a language model, token by token.
//
//   Generator generate(config, params);                  // weights on one device, or over a mesh
//   auto rows = generate({{72, 105}, {79}}, {.tokens = 50, .temperature = 0.8, .top_p = 0.95});
namespace cleave::train {

struct SamplingOptions {
  double temperature = 1;  // 0: always the most likely token
  int64_t top_k = 0;       // of the k most likely ones only; 0: of all
  double top_p = 1;        // of the most likely ones that have this probability together
  bool operator==(const SamplingOptions&) const = default;
};

struct GenerateOptions {
  int64_t tokens = 100;  // new ones, of a row at most
  double temperature = 1;
  int64_t top_k = 0;
  double top_p = 1;
  std::optional<int32_t> stop = {};  // a row ends with this token
  uint64_t seed = 0;

  SamplingOptions sampling() const { return {temperature, top_k, top_p}; }
};

// Logits [b, vocab] with -infinity in the place of tokens that the options leave out. Of tokens
// that are as likely as the last one, all stay.
Tensor limited_logits(const Tensor& logits, const SamplingOptions& options);
// A token for each row, i32 [b]. What is drawn depends on the key, the row and the token's number
// alone, not on how the logits are sharded.
Tensor sample_tokens(const Tensor& logits, const Tensor& key, const SamplingOptions& options);

// Hears of every step: the tokens of all rows; -1 for rows that have ended.
using TokenListener = std::function<void(std::span<const int32_t>)>;

class Generator {
 public:
  Generator(const models::GptConfig& config, models::Gpt params);

  // The new tokens of each row, the stop token included. Prompts may be of different lengths; none
  // is empty. Throws UserError if a token is not of the vocabulary, or if the model has learned
  // fewer positions than are needed.
  std::vector<std::vector<int32_t>> operator()(const std::vector<std::vector<int32_t>>& prompts,
                                               const GenerateOptions& options,
                                               const TokenListener& listener = {}) const;

 private:
  // (params, cache, tokens, key, sampling) -> (tokens, cache): the cache is donated. One program
  // for prompts and one for single tokens.
  using Step = std::function<std::pair<Tensor, models::GptCache>(
      const models::Gpt&, const models::GptCache&, const Tensor&, const Tensor&,
      const SamplingOptions&)>;

  models::GptConfig config_;
  models::Gpt params_;
  Step step_;
};

}  // namespace cleave::train
