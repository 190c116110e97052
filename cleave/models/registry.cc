#include "cleave/models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <functional>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/models/mlp.h"
#include "cleave/models/moe.h"
#include "cleave/models/schemes.h"
#include "cleave/models/training.h"
#include "cleave/models/transformer.h"
#include "cleave/models/vision.h"
#include "cleave/transforms/trace.h"

namespace cleave::models {
namespace {

// The options of a model's name. Every one must be asked for; `finish` names those that were not.
class Options {
 public:
  Options(std::string model, std::string_view text) : model_(std::move(model)) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('&'), text.size());
      const std::string_view item = text.substr(0, end);
      text.remove_prefix(std::min(text.size(), end + 1));
      const size_t equals = item.find('=');
      if (equals == std::string_view::npos || equals == 0)
        throw_user("model:{}: '{}' is not option=value", model_, item);
      if (!values_.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
        throw_user("model:{}: '{}' is given twice", model_, item.substr(0, equals));
    }
  }

  void read(const char* name, int64_t& value) {
    known_.push_back(fmt::format("{}={}", name, value));
    const auto it = take(name);
    if (!it) return;
    const auto [end, error] = std::from_chars(it->data(), it->data() + it->size(), value);
    if (error != std::errc() || end != it->data() + it->size())
      throw_user("model:{}: {}='{}' is not an integer", model_, name, *it);
    if (value < 1 && std::string_view(name) != "seed")
      throw_user("model:{}: {}={} must be at least 1", model_, name, value);
  }
  void read(const char* name, double& value) {
    known_.push_back(fmt::format("{}={}", name, value));
    const auto it = take(name);
    if (!it) return;
    try {
      size_t used = 0;
      value = std::stod(*it, &used);
      if (used == it->size() && value > 0) return;
    } catch (const std::exception&) {
    }
    throw_user("model:{}: {}='{}' is not a positive number", model_, name, *it);
  }
  void read(const char* name, std::vector<int64_t>& values) {
    known_.push_back(fmt::format("{}={}", name, fmt::join(values, ",")));
    const auto it = take(name);
    if (!it) return;
    values.clear();
    for (size_t at = 0; at <= it->size();) {
      const size_t end = std::min(it->find(',', at), it->size());
      int64_t value = 0;
      const auto [stop, error] = std::from_chars(it->data() + at, it->data() + end, value);
      if (error != std::errc() || stop != it->data() + end || value < 1)
        throw_user("model:{}: {}='{}' is not a list of positive integers", model_, name, *it);
      values.push_back(value);
      at = end + 1;
    }
  }
  std::string choice(const char* name, const std::vector<std::string>& choices) {
    known_.push_back(fmt::format("{}={}", name, fmt::join(choices, "|")));
    const auto it = take(name);
    if (!it) return choices.front();
    for (const std::string& each : choices)
      if (each == *it) return each;
    throw_user("model:{}: {}={} is not one of {}", model_, name, *it, fmt::join(choices, ", "));
  }

  std::optional<std::string> text(const char* name) {
    known_.push_back(fmt::format("{}=...", name));
    return take(name);
  }

  void finish() const {
    for (const auto& [name, value] : values_)
      throw_user("model:{} has no option '{}'; it has {}", model_, name, fmt::join(known_, " "));
  }
  std::string describe() const { return fmt::format("{}", fmt::join(known_, " ")); }

 private:
  std::optional<std::string> take(const char* name) {
    const auto it = values_.find(name);
    if (it == values_.end()) return std::nullopt;
    std::string value = it->second;
    values_.erase(it);
    return value;
  }

  std::string model_;
  std::map<std::string, std::string, std::less<>> values_;
  std::vector<std::string> known_;
};

// What every model's name may say beside its sizes.
struct Common {
  std::string step, optimizer, dtype, sharding;
  std::optional<Mesh> mesh;
  int64_t seed = 0;

  explicit Common(Options& options) {
    step = options.choice("step", {"loss", "forward", "grad", "train"});
    optimizer = options.choice("optimizer", {"adamw", "momentum", "sgd"});
    dtype = options.choice("dtype", {"f32", "bf16", "f16"});
    std::vector<std::string> schemes = {"none"};
    schemes.insert(schemes.end(), scheme_names().begin(), scheme_names().end());
    sharding = options.choice("sharding", schemes);
    options.read("seed", seed);
    if (const auto text = options.text("mesh")) mesh = parse_mesh(*text);
  }
  Init init() const {
    const DType type = dtype == "f32" ? DType::F32 : dtype == "bf16" ? DType::BF16 : DType::F16;
    return Init(static_cast<uint64_t>(seed), type);
  }
};

template <typename... Args>
BuiltModel traced(Trace trace, const Args&... args) {
  std::vector<Tensor> arguments = trace_detail::flatten(args...);
  arguments.insert(arguments.end(), trace.captures.begin(), trace.captures.end());
  return {std::move(trace.graph), std::move(arguments)};
}

// The step that was asked for. `forward(params, inputs...)` gives the model's result, and
// `loss(params, inputs...)` the number that training makes small.
template <typename T, typename Forward, typename Loss, typename... Inputs>
BuiltModel make_step(const Common& common, const Mesh* mesh, T params, const Forward& forward,
                     const Loss& loss, Inputs... inputs) {
  if (common.sharding != "none") {
    if (common.mesh) mesh = &*common.mesh;
    if (!mesh)
      throw_user("sharding={} needs a mesh; say mesh=data=2,model=4, or --mesh of cleave run",
                 common.sharding);
    const Scheme scheme = scheme_from(common.sharding);
    params = shard_weights(std::move(params), scheme, *mesh);
    ((inputs = inputs.shard(*mesh, input_spec(scheme, *mesh))), ...);
  }
  if (common.step == "forward") return traced(trace(forward)(params, inputs...), params, inputs...);
  if (common.step == "loss") return traced(trace(loss)(params, inputs...), params, inputs...);
  if (common.step == "grad")
    return traced(trace(value_and_grad(loss))(params, inputs...), params, inputs...);
  if (common.optimizer == "sgd") {
    auto step = [&](const T& p, const Inputs&... in) {
      auto [value, g] = value_and_grad(loss)(p, in...);
      return std::make_pair(value, sgd(p, g));
    };
    return traced(trace(step)(params, inputs...), params, inputs...);
  }
  if (common.optimizer == "momentum") {
    auto step = [&](const T& p, const T& velocity, const Inputs&... in) {
      auto [value, g] = value_and_grad(loss)(p, in...);
      return std::make_pair(value, momentum(p, g, velocity));
    };
    const T velocity = zeros_for(params);
    return traced(trace(step)(params, velocity, inputs...), params, velocity, inputs...);
  }
  auto step = [&](const T& p, const AdamState<T>& state, const Inputs&... in) {
    auto [value, g] = value_and_grad(loss)(p, in...);
    return std::make_pair(value, adamw(p, g, state));
  };
  const AdamState<T> state = init_adam(params);
  return traced(trace(step)(params, state, inputs...), params, state, inputs...);
}

void read_transformer(Options& options, GptConfig& config) {
  options.read("layers", config.layers);
  options.read("d", config.d);
  options.read("heads", config.heads);
  options.read("kv_heads", config.kv_heads);
  options.read("hidden", config.hidden);
  options.read("vocab", config.vocab);
  options.read("batch", config.batch);
  options.read("length", config.length);
}

// Builds a model, or where `built` is null only reads its options.
using Maker = void (*)(Options&, const Mesh*, BuiltModel* built);

void make_mlp(Options& options, const Mesh* mesh, BuiltModel* built) {
  MlpConfig config;
  options.read("layers", config.layers);
  options.read("d", config.d);
  options.read("hidden", config.hidden);
  options.read("batch", config.batch);
  const Common common(options);
  options.finish();
  if (!built) return;
  Init init = common.init();
  const Mlp params = init_mlp(config, init);
  *built = make_step(
      common, mesh, params, [](const Mlp& p, const Tensor& x, const Tensor&) { return mlp(p, x); },
      [](const Mlp& p, const Tensor& x, const Tensor& y) {
        return mean_squared_error(mlp(p, x), y);
      },
      init.normal({config.batch, config.d}, 1), init.normal({config.batch, config.d}, 1));
}

void make_gpt(Options& options, const Mesh* mesh, BuiltModel* built) {
  GptConfig config;
  read_transformer(options, config);
  const Common common(options);
  options.finish();
  if (!built) return;
  Init init = common.init();
  const Gpt params = init_gpt(config, init);
  *built = make_step(
      common, mesh, params, [&](const Gpt& p, const Tensor& t) { return gpt(config, p, t); },
      [&](const Gpt& p, const Tensor& t) { return next_token_loss(gpt(config, p, t), t); },
      init.integers({config.batch, config.length}, config.vocab));
}

void make_moe(Options& options, const Mesh* mesh, BuiltModel* built) {
  MoeConfig config;
  read_transformer(options, config);
  options.read("experts", config.experts);
  options.read("capacity_factor", config.capacity_factor);
  const Common common(options);
  options.finish();
  if (!built) return;
  Init init = common.init();
  const Moe params = init_moe(config, init);
  *built = make_step(
      common, mesh, params, [&](const Moe& p, const Tensor& t) { return moe(config, p, t).value; },
      [&](const Moe& p, const Tensor& t) {
        const MoeOutput out = moe(config, p, t);
        return next_token_loss(out.value, t) + out.balance * 0.01;
      },
      init.integers({config.batch, config.length}, config.vocab));
}

void make_encoder(Options& options, const Mesh* mesh, BuiltModel* built) {
  GptConfig config;
  options.read("d", config.d);
  options.read("heads", config.heads);
  options.read("hidden", config.hidden);
  options.read("batch", config.batch);
  options.read("length", config.length);
  config.kv_heads = config.heads;
  const Common common(options);
  options.finish();
  if (!built) return;
  Init init = common.init();
  const EncoderBlock params = init_encoder(config, init);
  const Shape shape = {config.batch, config.length, config.d};
  *built = make_step(
      common, mesh, params,
      [&](const EncoderBlock& p, const Tensor& x, const Tensor&) { return encoder(config, p, x); },
      [&](const EncoderBlock& p, const Tensor& x, const Tensor& y) {
        return mean_squared_error(encoder(config, p, x), y);
      },
      init.normal(shape, 1), init.normal(shape, 1));
}

void make_resnet(Options& options, const Mesh* mesh, BuiltModel* built) {
  ResNetConfig config;
  options.read("blocks", config.blocks);
  options.read("channels", config.channels);
  options.read("classes", config.classes);
  options.read("size", config.size);
  options.read("batch", config.batch);
  options.read("groups", config.groups);
  const Common common(options);
  options.finish();
  if (!built) return;
  Init init = common.init();
  const ResNet params = init_resnet(config, init);
  *built = make_step(
      common, mesh, params,
      [&](const ResNet& p, const Tensor& x, const Tensor&) { return resnet(config, p, x); },
      [&](const ResNet& p, const Tensor& x, const Tensor& labels) {
        return mean(cross_entropy(resnet(config, p, x), labels));
      },
      init.normal({config.batch, config.size, config.size, 3}, 1),
      init.integers({config.batch}, config.classes));
}

void make_unet(Options& options, const Mesh* mesh, BuiltModel* built) {
  UNetConfig config;
  options.read("channels", config.channels);
  options.read("embedding", config.embedding);
  options.read("size", config.size);
  options.read("batch", config.batch);
  options.read("groups", config.groups);
  options.read("heads", config.heads);
  const Common common(options);
  options.finish();
  if (!built) return;
  Init init = common.init();
  const UNet params = init_unet(config, init);
  const Shape shape = {config.batch, config.size, config.size, 3};
  *built = make_step(
      common, mesh, params,
      [&](const UNet& p, const Tensor& x, const Tensor& t, const Tensor&) {
        return unet(config, p, x, t);
      },
      [&](const UNet& p, const Tensor& x, const Tensor& t, const Tensor& noise) {
        return mean_squared_error(unet(config, p, x, t), noise);
      },
      init.normal(shape, 1), init.integers({config.batch}, 1000), init.normal(shape, 1));
}

const std::map<std::string, Maker, std::less<>>& makers() {
  static const std::map<std::string, Maker, std::less<>> all = {
      {"mlp", make_mlp},         {"gpt", make_gpt},       {"moe", make_moe},
      {"encoder", make_encoder}, {"resnet", make_resnet}, {"unet", make_unet}};
  return all;
}

}  // namespace

bool is_model_name(std::string_view text) { return text.starts_with("model:"); }

BuiltModel build_model(std::string_view text, const Mesh* mesh) {
  if (is_model_name(text)) text.remove_prefix(6);
  const size_t question = std::min(text.find('?'), text.size());
  const std::string name(text.substr(0, question));
  const auto it = makers().find(name);
  if (it == makers().end()) {
    std::vector<std::string> names;
    for (const auto& [each, maker] : makers()) names.push_back(each);
    throw_user("there is no model '{}'; there are {}", name, fmt::join(names, ", "));
  }
  Options options(name, text.substr(std::min(text.size(), question + 1)));
  BuiltModel built;
  it->second(options, mesh, &built);
  return built;
}

std::string describe_models() {
  std::string text;
  for (const auto& [name, maker] : makers()) {
    Options options(name, "");
    maker(options, nullptr, nullptr);
    text += fmt::format("model:{:<8} {}\n", name, options.describe());
  }
  return text;
}

}  // namespace cleave::models
