#include <fmt/ranges.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cleave/core/error.h"
#include "cleave/models/transformer.h"

namespace cleave::models {
namespace {

using Json = nlohmann::json;

// The fields of one JSON object.
class Fields {
 public:
  Fields(const Json& json, const std::string& path) : json_(json), path_(path) {}

  bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  Fields at(const char* name) const {
    if (!json_[name].is_object()) throw_user("{}: '{}' is not an object", path_, name);
    return {json_[name], path_};
  }

  int64_t size(const char* name) const {
    if (!has(name)) throw_user("{}: there is no '{}'", path_, name);
    const Json& value = json_[name];
    if (!value.is_number_integer() || value.get<int64_t>() < 1)
      throw_user("{}: '{}' is {}; a positive integer was expected", path_, name, value.dump());
    return value.get<int64_t>();
  }
  int64_t size_or(const char* name, int64_t other) const { return has(name) ? size(name) : other; }
  double number_or(const char* name, double other) const {
    if (!has(name)) return other;
    if (!json_[name].is_number())
      throw_user("{}: '{}' is {}; a number was expected", path_, name, json_[name].dump());
    return json_[name].get<double>();
  }
  bool flag(const char* name) const {
    if (!has(name)) return false;
    if (!json_[name].is_boolean())
      throw_user("{}: '{}' is {}; true or false was expected", path_, name, json_[name].dump());
    return json_[name].get<bool>();
  }
  // One of the values that are known.
  std::string word(const char* name, const std::vector<std::string>& known) const {
    if (!has(name)) return known[0];
    for (const std::string& each : known)
      if (json_[name] == each) return each;
    throw_user("{}: '{}' is {}, which models::gpt does not compute; it knows {}", path_, name,
               json_[name].dump(), fmt::format("{}", fmt::join(known, ", ")));
  }
  void refuse(const char* name) const {
    throw_user("{}: '{}' is {}, which models::gpt does not compute", path_, name,
               json_[name].dump());
  }

 private:
  const Json& json_;
  const std::string& path_;
};

// Older files have rope_theta and rope_scaling, newer ones both in rope_parameters.
void read_positions(const Fields& all, GptConfig& config) {
  const bool is_new = all.has("rope_parameters");
  config.rotary_base = is_new ? all.at("rope_parameters").number_or("rope_theta", 10000)
                              : all.number_or("rope_theta", 10000);
  const char* place = is_new ? "rope_parameters" : "rope_scaling";
  if (!all.has(place)) return;
  const Fields scaling = all.at(place);
  const char* kind = scaling.has("rope_type") ? "rope_type" : "type";
  if (scaling.word(kind, {"default", "llama3"}) == "default") return;
  RotaryScaling& to = config.rotary_scaling.emplace();
  to.factor = scaling.number_or("factor", to.factor);
  to.low = scaling.number_or("low_freq_factor", to.low);
  to.high = scaling.number_or("high_freq_factor", to.high);
  to.length = scaling.size_or("original_max_position_embeddings", to.length);
}

}  // namespace

GptConfig llama_config_from_json(const std::string& text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw_user("{}: no JSON object; a model's config was expected", path);
  const Fields fields(json, path);
  fields.word("model_type", {"llama", "mistral"});
  fields.word("hidden_act", {"silu"});
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (fields.flag(bias)) fields.refuse(bias);
  if (fields.has("sliding_window")) fields.refuse("sliding_window");
  GptConfig config;
  config.layers = fields.size("num_hidden_layers");
  config.d = fields.size("hidden_size");
  config.heads = fields.size("num_attention_heads");
  config.kv_heads = fields.size_or("num_key_value_heads", config.heads);
  config.hidden = fields.size("intermediate_size");
  config.vocab = fields.size("vocab_size");
  config.batch = 1;
  config.length = fields.size_or("max_position_embeddings", 2048);
  config.norm_epsilon = fields.number_or("rms_norm_eps", 1e-6);
  config.tied = fields.flag("tie_word_embeddings");
  read_positions(fields, config);
  if (fields.size_or("head_dim", config.head_size()) != config.head_size())
    fields.refuse("head_dim");
  config.check();
  return config;
}

GptConfig llama_config(const std::filesystem::path& path) {
  const auto file = std::filesystem::is_directory(path) ? path / "config.json" : path;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) throw_user("{} cannot be read", file.string());
  return llama_config_from_json(text.str(), file.string());
}

}  // namespace cleave::models
