#include "cleave/train/name_map.h"

#include <map>

#include "cleave/core/error.h"

namespace cleave::train {
namespace {

using Words = std::map<std::string, std::string>;  // by placeholder

bool is_word(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// The words that stand for placeholders, if the name has the form of the pattern.
std::optional<Words> matched(const std::string& pattern, const std::string& name) {
  Words words;
  size_t n = 0;
  for (size_t p = 0; p < pattern.size();) {
    if (pattern[p] != '{') {
      if (n >= name.size() || pattern[p++] != name[n++]) return std::nullopt;
      continue;
    }
    const size_t close = pattern.find('}', p);
    if (close == std::string::npos) throw_user("the name '{}' has a {{ without }}", pattern);
    std::string word;
    while (n < name.size() && is_word(name[n])) word += name[n++];
    const auto [place, fresh] = words.emplace(pattern.substr(p + 1, close - p - 1), word);
    if (word.empty() || (!fresh && place->second != word)) return std::nullopt;
    p = close + 1;
  }
  if (n != name.size()) return std::nullopt;
  return words;
}

std::string filled(const std::string& pattern, const Words& words) {
  std::string name;
  for (size_t p = 0; p < pattern.size(); ++p) {
    if (pattern[p] != '{') {
      name += pattern[p];
      continue;
    }
    const size_t close = pattern.find('}', p);
    if (close == std::string::npos) throw_user("the name '{}' has a {{ without }}", pattern);
    const auto word = words.find(pattern.substr(p + 1, close - p - 1));
    if (word == words.end())
      throw_user("the name '{}' has {{{}}}, which its counterpart has not", pattern,
                 pattern.substr(p + 1, close - p - 1));
    name += word->second;
    p = close;
  }
  return name;
}

}  // namespace

std::optional<ForeignName> foreign_name(const std::vector<NameRule>& rules,
                                        const std::string& ours) {
  if (rules.empty()) return ForeignName{ours};
  for (const NameRule& rule : rules)
    if (const auto words = matched(rule.ours, ours)) {
      if (rule.parts < 1 || rule.part < 0 || rule.part >= rule.parts)
        throw_user("the rule for '{}' takes part {} of {}", rule.ours, rule.part, rule.parts);
      return ForeignName{filled(rule.theirs, *words), rule.transpose, rule.part, rule.parts};
    }
  return std::nullopt;
}

std::vector<NameRule> llama_names() {
  return {
      {"model.embed_tokens.weight", "embed"},
      {"model.layers.{i}.input_layernorm.weight", "layers[{i}].attention.norm"},
      {"model.layers.{i}.self_attn.{m}_proj.weight", "layers[{i}].attention.{m}", true},
      {"model.layers.{i}.post_attention_layernorm.weight", "layers[{i}].feed_forward.norm"},
      {"model.layers.{i}.mlp.{m}_proj.weight", "layers[{i}].feed_forward.{m}", true},
      {"model.norm.weight", "norm"},
      {"lm_head.weight", "head", true},
  };
}

}  // namespace cleave::train
