#include "cleave/models/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <functional>
#include <optional>

#include "cleave/core/error.h"
#include "cleave/models/mlp.h"
#include "cleave/models/moe.h"
#include "cleave/models/options.h"
#include "cleave/models/schemes.h"
#include "cleave/models/sizes.h"
#include "cleave/models/training.h"
#include "cleave/models/transformer.h"
#include "cleave/models/vision.h"
#include "cleave/transforms/trace.h"

namespace cleave::models {
namespace {

DType float_type(std::string_view name) {
  return name == "f32" ? DType::F32 : name == "bf16" ? DType::BF16 : DType::F16;
}

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
  // The mesh that weights are laid out over; null if no sharding is asked for.
  const Mesh* mesh_or(const Mesh* given) const {
    if (sharding == "none") return nullptr;
    if (!mesh && !given)
      throw_user("sharding={} needs a mesh; say mesh=data=2,model=4, or --mesh of cleave run",
                 sharding);
    return mesh ? &*mesh : given;
  }
  Init init() const { return Init(static_cast<uint64_t>(seed), float_type(dtype)); }
};

template <typename... Args>
BuiltModel traced(Trace trace, const Args&... args) {
  std::vector<Tensor> arguments = trace_detail::flatten(args...);
  arguments.insert(arguments.end(), trace.captures.begin(), trace.captures.end());
  return {std::move(trace.graph), std::move(arguments)};
}

// A step of training gives weights and state away and gets the new ones, of the same types and in
// the same order, after the loss.
BuiltModel donating(BuiltModel model) {
  Function& function = *model.graph.find_function("main");
  const size_t count = function.result_types.size() - 1;
  function.arg_attrs.resize(function.arg_types.size());
  for (size_t i = 0; i < count && i < function.arg_types.size(); ++i)
    if (function.arg_types[i] == function.result_types[i + 1])
      function.arg_attrs[i].set("tf.aliasing_output",
                                int_attr(static_cast<int64_t>(i + 1), DType::I32));
  return model;
}

constexpr TraceOptions kOneSize{.other_sizes = false};

// The step that was asked for. `forward(params, inputs...)` gives the model's result, and
// `loss(params, inputs...)` the number that training makes small.
template <typename T, typename Forward, typename Loss, typename... Inputs>
BuiltModel make_step(const Common& common, const Mesh* mesh, T params, const Forward& forward,
                     const Loss& loss, Inputs... inputs) {
  if (mesh) {
    const Scheme scheme = scheme_from(common.sharding);
    params = shard_weights(std::move(params), scheme, *mesh);
    ((inputs = inputs.shard(*mesh, input_spec(scheme, *mesh))), ...);
  }
  if (common.step == "forward")
    return traced(trace(forward, kOneSize)(params, inputs...), params, inputs...);
  if (common.step == "loss")
    return traced(trace(loss, kOneSize)(params, inputs...), params, inputs...);
  if (common.step == "grad")
    return traced(trace(value_and_grad(loss), kOneSize)(params, inputs...), params, inputs...);
  if (common.optimizer == "sgd") {
    auto step = [&](const T& p, const Inputs&... in) {
      auto [value, g] = value_and_grad(loss)(p, in...);
      return std::make_pair(value, sgd(p, g));
    };
    return donating(traced(trace(step, kOneSize)(params, inputs...), params, inputs...));
  }
  if (common.optimizer == "momentum") {
    auto step = [&](const T& p, const T& velocity, const Inputs&... in) {
      auto [value, g] = value_and_grad(loss)(p, in...);
      return std::make_pair(value, momentum(p, g, velocity));
    };
    const T velocity = zeros_for(params);
    return donating(
        traced(trace(step, kOneSize)(params, velocity, inputs...), params, velocity, inputs...));
  }
  auto step = [&](const T& p, const AdamState<T>& state, const Inputs&... in) {
    auto [value, g] = value_and_grad(loss)(p, in...);
    return std::make_pair(value, adamw(p, g, state));
  };
  const AdamState<T> state = init_adam(params);
  return donating(
      traced(trace(step, kOneSize)(params, state, inputs...), params, state, inputs...));
}

// What a model's name stands for: its sizes and their names, weights, inputs, result and loss.
// Everything else is the same for all models.

struct MlpModel {
  MlpConfig config;
  void read(Options& options) {
    options.read("layers", config.layers);
    options.read("d", config.d);
    options.read("hidden", config.hidden);
    options.read("batch", config.batch);
  }
  Mlp weights(Init& init) const { return init_mlp(config, init); }
  auto inputs(Init& init) const {
    const Shape shape = {config.batch, config.d};
    return std::array{init.normal(shape, 1), init.normal(shape, 1)};
  }
  Tensor forward(const Mlp& p, const Tensor& x, const Tensor&) const { return mlp(p, x); }
  Tensor loss(const Mlp& p, const Tensor& x, const Tensor& y) const {
    return mean_squared_error(mlp(p, x), y);
  }
};

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
void read_kinds(Options& options, GptConfig& config) {
  config.norm = options.choice("norm", {"rms", "layer"}, config.norm);
  config.feed_forward =
      options.choice("feed_forward", {"gated", "gelu", "relu2"}, config.feed_forward);
  config.positions = options.choice("positions", {"rotary", "learned"}, config.positions);
  options.read("bias", config.bias);
  options.read("tied", config.tied);
  const std::string compute = options.choice("compute", {"same", "f32", "bf16", "f16"});
  if (compute != "same") config.compute = float_type(compute);
}
// What a train step keeps for the derivative, and what it computes again.
void read_derivative(Options& options, GptConfig& config) {
  config.remat = options.choice("remat", {"none", "selective", "full"}, config.remat);
  options.read("remat_every", config.remat_every);
  config.flash = options.choice("attention", {"plain", "flash"}) == "flash";
  config.weights_again = options.choice("weights", {"kept", "again"}) == "again";
  options.read("borders", config.borders);
}
void read_size(Options& options, GptConfig& config) {
  std::vector<std::string> names = {"none"};
  for (const ModelSize& size : model_sizes()) names.push_back(size.name);
  const std::string name = options.choice("size", names);
  for (const ModelSize& size : model_sizes())
    if (size.name == name) config = size.config;
}
std::array<Tensor, 1> random_tokens(const GptConfig& config, Init& init) {
  return {init.integers({config.batch, config.length}, config.vocab)};
}

struct GptModel {
  GptConfig config;
  void read(Options& options) {
    read_size(options, config);
    read_transformer(options, config);
    read_kinds(options, config);
    read_derivative(options, config);
  }
  Gpt weights(Init& init) const { return init_gpt(config, init); }
  auto inputs(Init& init) const { return random_tokens(config, init); }
  Tensor forward(const Gpt& p, const Tensor& t) const { return gpt(config, p, t); }
  Tensor loss(const Gpt& p, const Tensor& t) const { return next_token_loss(gpt(config, p, t), t); }
};

struct MoeModel {
  MoeConfig config;
  void read(Options& options) {
    read_transformer(options, config);
    options.read("experts", config.experts);
    options.read("capacity_factor", config.capacity_factor);
  }
  void place(Scheme scheme, const Mesh& mesh) {
    if (scheme == Scheme::Experts) config.parallel = {mesh, data_axis(mesh)};
  }
  Moe weights(Init& init) const { return init_moe(config, init); }
  auto inputs(Init& init) const { return random_tokens(config, init); }
  Tensor forward(const Moe& p, const Tensor& t) const { return moe(config, p, t).value; }
  Tensor loss(const Moe& p, const Tensor& t) const {
    const MoeOutput out = moe(config, p, t);
    return next_token_loss(out.value, t) + out.balance * 0.01;
  }
};

struct EncoderModel {
  GptConfig config;
  void read(Options& options) {
    options.read("d", config.d);
    options.read("heads", config.heads);
    options.read("hidden", config.hidden);
    options.read("batch", config.batch);
    options.read("length", config.length);
    config.kv_heads = config.heads;
  }
  EncoderBlock weights(Init& init) const { return init_encoder(config, init); }
  auto inputs(Init& init) const {
    const Shape shape = {config.batch, config.length, config.d};
    return std::array{init.normal(shape, 1), init.normal(shape, 1)};
  }
  Tensor forward(const EncoderBlock& p, const Tensor& x, const Tensor&) const {
    return encoder(config, p, x);
  }
  Tensor loss(const EncoderBlock& p, const Tensor& x, const Tensor& y) const {
    return mean_squared_error(encoder(config, p, x), y);
  }
};

struct ResNetModel {
  ResNetConfig config;
  void read(Options& options) {
    options.read("blocks", config.blocks);
    options.read("channels", config.channels);
    options.read("classes", config.classes);
    options.read("size", config.size);
    options.read("batch", config.batch);
    options.read("groups", config.groups);
    options.read("bottleneck", config.bottleneck);
    config.large_stem = options.choice("stem", {"small", "large"}) == "large";
    config.norm = options.choice("norm", {"group", "batch"}, config.norm);
    const std::string compute = options.choice("compute", {"same", "f32", "bf16", "f16"});
    if (compute != "same") config.compute = float_type(compute);
  }
  ResNet weights(Init& init) const { return init_resnet(config, init); }
  auto inputs(Init& init) const {
    return std::array{init.normal({config.batch, config.size, config.size, 3}, 1),
                      init.integers({config.batch}, config.classes)};
  }
  Tensor forward(const ResNet& p, const Tensor& x, const Tensor&) const {
    return resnet(config, p, x);
  }
  Tensor loss(const ResNet& p, const Tensor& x, const Tensor& labels) const {
    return cross_entropy(resnet(config, p, x), labels);
  }
};

struct UNetModel {
  UNetConfig config;
  void read(Options& options) {
    options.read("channels", config.channels);
    options.read("embedding", config.embedding);
    options.read("size", config.size);
    options.read("batch", config.batch);
    options.read("groups", config.groups);
    options.read("heads", config.heads);
  }
  UNet weights(Init& init) const { return init_unet(config, init); }
  auto inputs(Init& init) const {
    const Shape shape = {config.batch, config.size, config.size, 3};
    return std::array{init.normal(shape, 1), init.integers({config.batch}, 1000),
                      init.normal(shape, 1)};
  }
  Tensor forward(const UNet& p, const Tensor& x, const Tensor& t, const Tensor&) const {
    return unet(config, p, x, t);
  }
  Tensor loss(const UNet& p, const Tensor& x, const Tensor& t, const Tensor& noise) const {
    return mean_squared_error(unet(config, p, x, t), noise);
  }
};

// Reads the options of a model; builds it if `built` is not null.
using Maker = void (*)(Options&, const Mesh*, BuiltModel* built);

template <typename Model>
void make(Options& options, const Mesh* mesh, BuiltModel* built) {
  Model model;
  model.read(options);
  const Common common(options);
  options.finish();
  if (!built) return;
  mesh = common.mesh_or(mesh);
  if constexpr (requires { model.place(Scheme::Experts, *mesh); })
    if (mesh) model.place(scheme_from(common.sharding), *mesh);
  Init init = common.init();
  const auto params = model.weights(init);
  *built = std::apply(
      [&](const auto&... inputs) {
        return make_step(
            common, mesh, params, [&](const auto&... args) { return model.forward(args...); },
            [&](const auto&... args) { return model.loss(args...); }, inputs...);
      },
      model.inputs(init));
}

const std::map<std::string, Maker, std::less<>>& makers() {
  static const std::map<std::string, Maker, std::less<>> all = {
      {"mlp", make<MlpModel>},         {"gpt", make<GptModel>},       {"moe", make<MoeModel>},
      {"encoder", make<EncoderModel>}, {"resnet", make<ResNetModel>}, {"unet", make<UNetModel>}};
  return all;
}

}  // namespace

bool is_model_name(std::string_view text) { return text.starts_with("model:"); }

namespace {

// "model:gpt?layers=2" -> "gpt", "layers=2"
std::pair<std::string, std::string_view> name_and_options(std::string_view text) {
  if (is_model_name(text)) text.remove_prefix(6);
  const size_t question = std::min(text.find('?'), text.size());
  return {std::string(text.substr(0, question)), text.substr(std::min(text.size(), question + 1))};
}

template <typename Tree>
Weights by_name(const Tree& tree) {
  Weights weights;
  for_each_leaf(tree,
                [&](const std::string& name, const Tensor& leaf) { weights.emplace(name, leaf); });
  return weights;
}

template <typename Model>
LanguageModel make_language_model(Options& options) {
  Model model;
  model.read(options);
  const std::string dtype = options.choice("dtype", {"f32", "bf16", "f16"});
  int64_t seed = 0;
  options.read("seed", seed);
  options.finish();
  Init init(static_cast<uint64_t>(seed), float_type(dtype));
  const auto first = model.weights(init);
  const auto tree = [first](const Weights& weights) {
    auto filled = first;
    for_each_leaf(filled, [&](const std::string& name, Tensor& leaf) {
      const auto it = weights.find(name);
      if (it == weights.end()) throw_user("the weights of the model have no '{}'", name);
      leaf = it->second;
    });
    return filled;
  };
  LanguageModel result;
  result.config = model.config;
  result.weights = by_name(first);
  result.forward = [=](const Weights& w, const Tensor& t) { return model.forward(tree(w), t); };
  result.loss = [=](const Weights& w, const Tensor& t) { return model.loss(tree(w), t); };
  if constexpr (std::is_same_v<Model, GptModel>) result.gpt = tree;
  return result;
}

}  // namespace

BuiltModel build_model(std::string_view text, const Mesh* mesh) {
  const auto [name, rest] = name_and_options(text);
  const auto it = makers().find(name);
  if (it == makers().end()) {
    std::vector<std::string> names;
    for (const auto& [each, maker] : makers()) names.push_back(each);
    throw_user("there is no model '{}'; there are {}", name, fmt::join(names, ", "));
  }
  Options options(name, rest);
  BuiltModel built;
  it->second(options, mesh, &built);
  return built;
}

LanguageModel language_model(std::string_view text) {
  const auto [name, rest] = name_and_options(text);
  Options options(name, rest);
  if (name == "gpt") return make_language_model<GptModel>(options);
  if (name == "moe") return make_language_model<MoeModel>(options);
  throw_user("'{}' is no language model by name; there are model:gpt and model:moe", text);
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
