// What tests/reference compares with Optax and with the Python package safetensors:
//   train_reference optimizer CASE WAY FOLDER    p.NAME.npy and gSTEP.NAME.npy -> out.NAME.npy
//     WAY: eager, compiled, sharded, xla, xla_sharded
//   train_reference schedule CASE STEPS          one value a line
//   train_reference copy FROM TO                 every tensor of a safetensors file into another
//   train_reference save FOLDER                  checkpoints, one after another, until it is killed
//   train_reference check FOLDER                 the step of the latest, if all of it is of that
//   step
//   train_reference llama FOLDER                 Hugging Face's folder and tokens.npy -> whole.npy,
//   steps.npy: logits of whole sequences, and one token after the other
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>

#include "cleave/cleave.h"
#include "cleave/train.h"

namespace cleave::train {
namespace {

using Params = std::map<std::string, Tensor>;
namespace fs = std::filesystem;

std::map<std::string, std::function<Optimizer()>> optimizers() {
  const Mask decays{.except = {"*.norm", "*.b"}};
  const Schedule schedule = warmup_cosine(0.1, 3, 10, 0.01);
  return {
      {"sgd", [] { return sgd(0.1); }},
      {"momentum", [] { return sgd(0.1, {.momentum = 0.9}); }},
      {"nesterov", [] { return sgd(0.1, {.momentum = 0.9, .nesterov = true}); }},
      {"decayed_sgd",
       [=] { return sgd(0.1, {.momentum = 0.9, .weight_decay = 0.1, .decay = decays}); }},
      {"adam", [] { return adam(0.01); }},
      {"nadam", [] { return adam(0.01, {.epsilon_root = 1e-6, .nesterov = true}); }},
      {"adamw", [] { return adamw(0.01); }},
      {"adamw_masked",
       [=] { return adamw(schedule, {.beta2 = 0.95, .weight_decay = 0.1, .decay = decays}); }},
      {"lion", [] { return lion(0.01); }},
      {"adafactor", [] { return adafactor({.rate = 0.1, .smallest_factored = 8}); }},
      {"adafactor_relative", [] { return adafactor({.smallest_factored = 8}); }},
      {"adafactor_plain",
       [] {
         return adafactor(
             {.rate = 0.1, .by_parameter_scale = false, .clip = {}, .factored = false});
       }},
      {"adafactor_all",
       [=] {
         return adafactor({.rate = Rate(schedule),
                           .smallest_factored = 8,
                           .decay_rate = 0.7,
                           .momentum = 0.9,
                           .weight_decay = 0.01,
                           .decay = decays});
       }},
      {"muon", [] { return muon(0.1); }},
      {"muon_all",
       [=] {
         return muon(schedule, {.nesterov = false,
                                .weight_decay = 0.1,
                                .consistent_rms = 0.2,
                                .adam = {"embed"},
                                .adam_rate = 0.02,
                                .adam_weight_decay = 0.01});
       }},
      {"clip_norm",
       [] {
         return chain({clip_by_global_norm(1), adamw(0.01)});
       }},
      {"clip_value",
       [] {
         return chain({clip_by_value(0.3), sgd(0.1)});
       }},
      {"clip_block",
       [] {
         return chain({clip_by_block_rms(0.5), sgd(0.1)});
       }},
      {"scaled",
       [=] {
         return chain({scale(0.5), scale_by_schedule(schedule), scale(-1)});
       }},
      {"every_3",
       [] {
         return multi_steps(chain({clip_by_global_norm(1), adam(0.01)}), 3);
       }},
  };
}

std::map<std::string, Schedule> schedules() {
  return {
      {"constant", constant(0.3)},
      {"linear", linear(0.1, 0.5, 7)},
      {"cosine", cosine(0.2, 11, 0.02)},
      {"warmup_cosine", warmup_cosine(0.3, 4, 15, 0.01, 0.05)},
      {"exponential", exponential(0.5, 0.9, 3, {.begin = 2})},
      {"staircase", exponential(0.5, 0.5, 3, {.staircase = true, .last = 0.1})},
      {"piecewise", piecewise(0.4, {{9, 0.25}, {4, 0.5}})},
      {"polynomial", polynomial(0.3, 0.1, 2, 8, 3)},
      {"joined", join({linear(0, 1, 5), constant(0.5), cosine(0.5, 5)}, {5, 9})},
  };
}

Params read_leaves(const fs::path& folder, const std::string& prefix) {
  Params params;
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().stem().string();
    if (name.starts_with(prefix + "."))
      params[name.substr(prefix.size() + 1)] = Tensor::load(file.path());
  }
  return params;
}

Params placed(Params params, const Mesh& mesh) {
  for (auto& [name, value] : params)
    value = value.rank() >= 2 ? value.shard(mesh, P("x", "y")) : value.shard(mesh, P("y"));
  return params;
}

int run_optimizer(const std::string& name, const std::string& way, const fs::path& folder) {
  const Optimizer optimizer = optimizers().at(name)();
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const bool sharded = way == "sharded" || way == "xla_sharded";
  Params params = read_leaves(folder, "p");
  if (sharded) params = placed(params, mesh);
  OptState state = optimizer.init(params);
  auto step = [&](const Params& p, const OptState& s, const Params& g) {
    return optimizer.step(p, g, s);
  };
  const auto compiled =
      compile(step, {.donate = {0, 1}, .engine = way.starts_with("xla") ? "xla" : "cleave"});
  for (int i = 0;; ++i) {
    Params grads = read_leaves(folder, fmt::format("g{}", i));
    if (grads.empty()) break;
    if (sharded) grads = placed(grads, mesh);
    std::tie(params, state) =
        way == "eager" ? step(params, state, grads) : compiled(params, state, grads);
  }
  for (const auto& [leaf, value] : params) value.save(folder / ("out." + leaf + ".npy"));
  return 0;
}

int run_schedule(const std::string& name, int steps) {
  const Schedule schedule = schedules().at(name);
  for (int i = 0; i < steps; ++i) std::printf("%.9g\n", schedule(scalar(i, DType::F32)).item());
  return 0;
}

int copy(const fs::path& from, const fs::path& to) {
  const SafetensorsFile file(from);
  Params like;
  for (const auto& [name, tensor] : file.tensors())
    like[name] = Tensor::from(Array::zeros(tensor.dtype, tensor.shape));
  save_safetensors(to, load_safetensors(from, like), {.metadata = file.metadata()});
  return 0;
}

Params of_step(int64_t step) {
  const Mesh mesh{{"x", 2}, {"y", 2}};
  const auto value = static_cast<double>(step);
  return {{"w", full({64, 512}, value, DType::F32).shard(mesh, P("x", "y"))},
          {"b", full({512}, value, DType::F32).shard(mesh, P("y"))},
          {"step", scalar(step, DType::I64)}};
}

int save_on(const fs::path& folder) {
  const Checkpoints checkpoints(folder, {.keep = 2});
  for (int64_t step = checkpoints.latest().value_or(0) + 1;; ++step) {
    checkpoints.save(step, of_step(step), {{"step", step}});
    std::printf("%lld\n", static_cast<long long>(step));
    std::fflush(stdout);
  }
}

int check(const fs::path& folder) {
  const Checkpoints checkpoints(folder);
  const int64_t step = integer_of(checkpoints.values(), "step");
  const Params expected = of_step(step), loaded = checkpoints.load(of_step(0));
  for (const auto& [name, value] : expected)
    if (!identical(loaded.at(name).to_host(), value.to_host()))
      throw_user("'{}' is not of step {}", name, step);
  std::printf("%lld\n", static_cast<long long>(step));
  return 0;
}

int run_llama(const fs::path& folder) {
  models::Init init(0);
  const models::GptConfig config = models::llama_config(folder);
  const models::Gpt params =
      load_safetensors(folder, models::init_gpt(config, init), {.names = llama_names()});
  const Tensor tokens = Tensor::load(folder / "tokens.npy");
  models::gpt(config, params, tokens).save(folder / "whole.npy");
  models::GptCache cache = models::init_cache(
      config, params, {.batch = tokens.dim(0), .capacity = tokens.dim(1), .skip = {}});
  std::vector<Tensor> logits;
  for (int64_t i = 0; i < tokens.dim(1); ++i) {
    auto [next, after] = models::decode_step(config, params, cache, slice_dim(tokens, 1, i, i + 1));
    logits.push_back(next);
    cache = after;
  }
  concat(logits, 1).save(folder / "steps.npy");
  return 0;
}

int run(const std::vector<std::string>& args) {
  if (args.size() == 4 && args[0] == "optimizer") return run_optimizer(args[1], args[2], args[3]);
  if (args.size() == 3 && args[0] == "schedule") return run_schedule(args[1], std::stoi(args[2]));
  if (args.size() == 3 && args[0] == "copy") return copy(args[1], args[2]);
  if (args.size() == 2 && args[0] == "save") return save_on(args[1]);
  if (args.size() == 2 && args[0] == "check") return check(args[1]);
  if (args.size() == 2 && args[0] == "llama") return run_llama(args[1]);
  return 2;
}

}  // namespace
}  // namespace cleave::train

int main(int argc, char** argv) {
  try {
    return cleave::train::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << "\n";
    return 1;
  }
}
