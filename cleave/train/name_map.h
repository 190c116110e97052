#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cleave::train {

// The name of a tensor in a file and the name of a leaf in a tree. {i} is a number or a word that
// is the same on both sides.
//
//   {"model.layers.{i}.self_attn.q_proj.weight", "layers[{i}].attention.q", true}
//
// A matrix [out, in] in the file (PyTorch's Linear) is [in, out] in the tree with `transpose`. If
// the file holds several leaves side by side (GPT-2's c_attn), `part` of `parts` along the last
// dimension of the leaf is this one.
struct NameRule {
  std::string theirs, ours;
  bool transpose = false;
  int64_t part = 0, parts = 1;
};

// What the file calls a leaf.
struct ForeignName {
  std::string name;
  bool transpose = false;
  int64_t part = 0, parts = 1;
};

// By the first rule whose `ours` has the form of the name; without rules, names are the same on
// both sides. Nothing if no rule has it.
std::optional<ForeignName> foreign_name(const std::vector<NameRule>& rules,
                                        const std::string& ours);

// Hugging Face's names of the weights of a Llama (`models::Gpt`). No weights need reordering: both
// turn the pairs of features i and i + size / 2.
//
//   const models::GptConfig config = models::llama_config("Llama-3.2-1B");
//   models::Init init(0, DType::BF16);
//   const models::Gpt params = load_safetensors("Llama-3.2-1B", models::init_gpt(config, init),
//                                               {.names = llama_names(), .convert = true});
std::vector<NameRule> llama_names();

}  // namespace cleave::train
