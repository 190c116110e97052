#include "cleave/models/sizes.h"

namespace cleave::models {
namespace {

struct Row {
  const char* name;
  int64_t layers, d, heads, kv_heads, hidden, vocab;
};

// Touvron et al. 2023 (Llama 2), Grattafiori et al. 2024 (Llama 3).
constexpr Row kLlama[] = {{"llama2-7b", 32, 4096, 32, 32, 11008, 32000},
                          {"llama2-13b", 40, 5120, 40, 40, 13824, 32000},
                          {"llama2-34b", 48, 8192, 64, 8, 22016, 32000},
                          {"llama2-70b", 80, 8192, 64, 8, 28672, 32000},
                          {"llama3-8b", 32, 4096, 32, 8, 14336, 128256},
                          {"llama3-70b", 80, 8192, 64, 8, 28672, 128256},
                          {"llama3.1-405b", 126, 16384, 128, 8, 53248, 128256}};
// MosaicML's llm-foundry, the models of its throughput tables.
constexpr Row kMpt[] = {
    {"mpt-125m", 12, 768, 12, 12, 3072, 50368},  {"mpt-350m", 24, 1024, 16, 16, 4096, 50368},
    {"mpt-760m", 24, 1536, 12, 12, 6144, 50368}, {"mpt-1b", 24, 2048, 16, 16, 8192, 50368},
    {"mpt-3b", 32, 2560, 20, 20, 10240, 50368},  {"mpt-7b", 32, 4096, 32, 32, 16384, 50368},
    {"mpt-13b", 40, 5120, 40, 40, 20480, 50368}, {"mpt-30b", 48, 7168, 56, 56, 28672, 50368},
    {"mpt-70b", 80, 8192, 64, 64, 32768, 50368}};
// Brown et al. 2020 and Narayanan et al. 2021, with Megatron's padded vocabulary.
constexpr Row kGpt[] = {{"gpt2", 12, 768, 12, 12, 3072, 50304},
                        {"gpt3-5b", 24, 4096, 32, 32, 16384, 51200},
                        {"gpt3-20b", 44, 6144, 48, 48, 24576, 51200},
                        {"gpt3-175b", 96, 12288, 96, 96, 49152, 51200}};

GptConfig config_of(const Row& row) {
  GptConfig config;
  config.layers = row.layers;
  config.d = row.d;
  config.heads = row.heads;
  config.kv_heads = row.kv_heads;
  config.hidden = row.hidden;
  config.vocab = row.vocab;
  return config;
}

GptConfig as_gpt(GptConfig config) {
  config.norm = NormKind::Layer;
  config.feed_forward = FeedForwardKind::Gelu;
  config.positions = Positions::Learned;
  config.bias = true;
  config.tied = true;
  return config;
}

}  // namespace

const std::vector<ModelSize>& model_sizes() {
  static const std::vector<ModelSize> all = [] {
    std::vector<ModelSize> sizes;
    for (const Row& row : kLlama) sizes.push_back({row.name, config_of(row)});
    for (const Row& row : kMpt) sizes.push_back({row.name, as_gpt(config_of(row))});
    for (const Row& row : kGpt) sizes.push_back({row.name, as_gpt(config_of(row))});
    return sizes;
  }();
  return all;
}

}  // namespace cleave::models
