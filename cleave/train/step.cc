#include "cleave/train/step.h"

#include <algorithm>

#include "cleave/autoshard/autoshard.h"
#include "cleave/core/error.h"
#include "cleave/machine/host_profile.h"
#include "cleave/models/schemes.h"
#include "cleave/plan/figures.h"
#include "cleave/plan/heuristic.h"
#include "cleave/runtime/ops_elementwise.h"
#include "cleave/runtime/world.h"
#include "cleave/train/optimizers.h"
#include "cleave/transforms/flow.h"
#include "cleave/transforms/grad.h"

namespace cleave::train {
namespace {

using models::Weights;

constexpr const char* kOptimizers = "adamw, adam, lion, adafactor, muon, sgd and momentum";
constexpr const char* kSchedules = "constant, cosine and linear";

// `name=value` at the end of a model's name, unless it says it already.
void add_option(std::string& model, const std::string& name, const std::string& value) {
  const size_t question = model.find('?');
  const std::string options = question == std::string::npos ? "" : "&" + model.substr(question + 1);
  if (options.find("&" + name + "=") != std::string::npos) return;
  model += (question == std::string::npos ? "?" : "&") + name + "=" + value;
}

bool is_loss_scaled(const RunConfig& config) { return config.dtype == "f16"; }

using LossAndGrads = std::pair<Tensor, Weights>;

// Of the parts [parts, b, s] of a batch: the mean of their losses and gradients.
template <typename Loss>
LossAndGrads accumulated(const Loss& loss, const Weights& params, const Tensor& tokens) {
  const auto parts = static_cast<double>(tokens.dim(0));
  const auto zero = [](const Tensor& p) { return wide_zeros(p); };
  const LossAndGrads start{zeros({}), map_leaves(zero, params)};
  const auto body = [&](const LossAndGrads& sums, const Tensor& part) {
    const auto [value, grads] = value_and_grad(loss)(params, part);
    const auto add = [](const Tensor& sum, const Tensor& g) { return sum + to_wide(g); };
    LossAndGrads next{sums.first + value, map_leaves(add, sums.second, grads)};
    return std::make_pair(next, value);
  };
  const LossAndGrads sums = scan(body, start, tokens).first;
  const auto mean_of = [&](const Tensor& sum) { return sum / parts; };
  return {mean_of(sums.first), map_leaves(mean_of, sums.second)};
}

// What follows from a state that lies over a mesh lies as it does, so that one program serves all
// steps.
TrainState laid_out_as(TrainState next, const TrainState& before) {
  const auto lie = [](const Tensor& now, const Tensor& then) {
    return then.mesh() ? now.with_sharding(then.sharding()) : now;
  };
  return map_leaves(lie, std::move(next), before);
}

// How many updates the optimizer has made, by which it finds its rate.
Tensor updates_made(const OptState& state) {
  for (const auto& [name, value] : state)
    if (name.ends_with("step") && value.rank() == 0) return value;
  return {};
}

std::string machine_of(const RunConfig& config) {
  if (!config.machine.empty()) return config.machine;
  std::error_code error;
  return std::filesystem::exists(host_profile_path(), error) ? "host" : "default";
}

// The most that all devices do in a second in products of a type: by the data sheet, or as
// measured. Virtual devices of a host share its cores.
double peak_of(const MachineProfile& profile, const plan::PlanFigures& figures, int64_t devices) {
  if (figures.peak_flops > 0) return figures.peak_flops;
  const auto rate = profile.matmul.find(DType::F32);
  if (rate == profile.matmul.end()) return 0;
  const auto count = static_cast<double>(devices);
  const double busy =
      profile.concurrent_devices > 0 ? std::min(count, profile.concurrent_devices) : count;
  return rate->second.tflops * 1e12 * busy;
}

// FLOP of a step on whole tensors, whatever runs it.
void count_flops(ReadyStep& ready, const models::LanguageModel& model, const RunConfig& config) {
  // Without a measured profile of this host there is nothing to compare with.
  const std::string machine = machine_of(config);
  if (machine == "default") return;
  const MachineProfile profile = load_profile(machine);
  const Shape rows{config.batch / config.accumulate, model.config.length};
  const Trace traced = trace(value_and_grad(model.loss), TraceOptions{.other_sizes = false})(
      model.weights, zeros(rows, DType::I32));
  plan::PlannerOptions options;
  options.mesh = shared_mesh(Mesh{{"one", 1}});
  options.profile = &profile;
  const plan::PlannerResult one = plan::plan_by_propagation(traced.graph, options);
  if (!one.plan) return;
  const plan::PlanFigures figures = plan::plan_figures(*one.plan, traced.graph, profile);
  ready.flops = figures.model_flops * static_cast<double>(config.accumulate);
  const int64_t all = ready.num_devices;
  ready.peak_flops = figures.peak_flops > 0 ? figures.peak_flops * static_cast<double>(all)
                                            : peak_of(profile, figures, all);
}

Shape batch_shape(const RunConfig& config, int64_t length) {
  if (config.accumulate == 1) return {config.batch, length};
  return {config.accumulate, config.batch / config.accumulate, length};
}

void run_on_one(ReadyStep& ready, const StepFunction& step, const RunConfig& config) {
  if (!config.mesh.empty() || config.devices > 1)
    throw_user("--plan none: one device; say --plan auto, or leave out --mesh and --devices");
  ready.step = compile(step, {.donate = {0}, .engine = config.engine});
  ready.description = "on one device";
}

void run_by_scheme(ReadyStep& ready, const StepFunction& step, const RunConfig& config,
                   const Shape& batch) {
  if (config.mesh.empty()) throw_user("--plan {} needs a mesh: --mesh data=2,model=2", config.plan);
  const models::Scheme scheme = models::scheme_from(config.plan);
  const Mesh mesh = parse_mesh(config.mesh);
  ready.state = models::shard_weights(std::move(ready.state), scheme, mesh);
  PartitionSpec rows = models::input_spec(scheme, mesh);
  if (config.accumulate > 1) rows.entries.insert(rows.entries.begin(), SpecEntry{});
  ready.batch = to_sharding(rows, shared_mesh(mesh), batch);
  ready.num_devices = mesh.num_devices();
  const auto same_layout = [step](const TrainState& state, const Tensor& tokens) {
    auto [metrics, next] = step(state, tokens);
    for (auto& [name, value] : metrics) value = value.with_sharding(P());
    return std::make_pair(std::move(metrics), laid_out_as(std::move(next), state));
  };
  ready.step = compile(same_layout, {.donate = {0}, .engine = config.engine});
  ready.description = fmt::format("sharded as {} over {}", config.plan, to_string(mesh));
}

void run_planned(ReadyStep& ready, const StepFunction& step, const RunConfig& config,
                 const Shape& batch, const std::string& plan_file) {
  AutoshardOptions options;
  options.machine = machine_of(config);
  options.memory = config.memory;
  options.donate = {0};
  options.engine = config.engine;
  options.plan = config.plan == "auto" ? plan_file : config.plan;
  const auto planned =
      config.mesh.empty()
          ? autoshard(step, std::max<int64_t>(1, config.devices), std::move(options))
          : autoshard(step, parse_mesh(config.mesh), std::move(options));
  const Tensor example = zeros(batch, DType::I32);
  planned.prepare(ready.state, example);
  ready.state = planned.place(ready.state);
  ready.batch = planned.place(example).sharding();
  const plan::Plan& plan = planned.plan();
  ready.num_devices = plan.mesh->num_devices();
  ready.plan_json = plan::to_json(plan);
  ready.description = fmt::format("planned for {}: {:.3g} ms a step by {}", to_string(*plan.mesh),
                                  1e3 * plan.totals.step_seconds, machine_of(config));
  ready.step = planned;
}

}  // namespace

models::LanguageModel model_of(const RunConfig& config) {
  std::string name = config.model;
  add_option(name, "batch", std::to_string(std::max<int64_t>(1, config.batch)));
  if (config.length > 0) add_option(name, "length", std::to_string(config.length));
  if (config.dtype != "f32") add_option(name, "compute", config.dtype);
  add_option(name, "seed", std::to_string(config.seed));
  models::LanguageModel model = models::language_model(name);
  if (config.length > 0 && model.config.length != config.length)
    throw_user("--length {}: the model says length={}; give one of them", config.length,
               model.config.length);
  return model;
}

Schedule schedule_of(const RunConfig& config) {
  if (config.warmup < 0 || config.warmup > config.steps)
    throw_user("--warmup {}: it must be between 0 and the {} steps", config.warmup, config.steps);
  const double last = config.rate / 10;
  const int64_t rest = std::max<int64_t>(1, config.steps - config.warmup);
  Schedule after;
  if (config.schedule == "constant")
    after = constant(config.rate);
  else if (config.schedule == "cosine")
    after = cosine(config.rate, rest, last);
  else if (config.schedule == "linear")
    after = linear(config.rate, last, rest);
  else
    throw_user("--schedule {}: there are {}", config.schedule, kSchedules);
  if (config.warmup == 0) return after;
  // The first step is not lost to a rate of zero.
  const double first = config.rate / static_cast<double>(config.warmup + 1);
  return join({linear(first, config.rate, config.warmup), after}, {config.warmup});
}

Optimizer optimizer_of(const RunConfig& config) {
  const Rate rate(schedule_of(config));
  const Mask matrices{.min_rank = 2};
  const double decay = config.weight_decay;
  const auto named = [&]() -> Optimizer {
    const std::string& name = config.optimizer;
    if (name == "adamw")
      return adamw(rate, {.beta2 = 0.95, .weight_decay = decay, .decay = matrices});
    if (name == "adam") return adam(rate);
    if (name == "lion") return lion(rate, {.weight_decay = decay, .decay = matrices});
    if (name == "adafactor")
      return adafactor({.rate = rate, .weight_decay = decay, .decay = matrices});
    if (name == "muon")
      return muon(rate, {.weight_decay = decay, .decay = matrices, .adam = {"embed", "head"}});
    if (name == "sgd") return sgd(rate, {.weight_decay = decay, .decay = matrices});
    if (name == "momentum")
      return sgd(rate, {.momentum = 0.9, .weight_decay = decay, .decay = matrices});
    throw_user("--optimizer {}: there are {}", name, kOptimizers);
  };
  Optimizer optimizer = named();
  if (config.clip > 0) optimizer = chain({clip_by_global_norm(config.clip), optimizer});
  return is_loss_scaled(config) ? loss_scaled(optimizer) : optimizer;
}

StepFunction train_step(const models::LanguageModel& model, const RunConfig& config) {
  const Optimizer optimizer = optimizer_of(config);
  const Schedule schedule = schedule_of(config);
  const bool is_scaled = is_loss_scaled(config);
  return [=](const TrainState& state, const Tensor& tokens) {
    const auto loss = [&](const Weights& params, const Tensor& rows) {
      const Tensor value = model.loss(params, rows);
      return is_scaled ? scale_loss(value, state.opt) : value;
    };
    auto [value, grads] = tokens.rank() == 3 ? accumulated(loss, state.params, tokens)
                                             : value_and_grad(loss)(state.params, tokens);
    auto [params, opt] = optimizer.step(state.params, grads, state.opt);
    Tensor norm = global_norm(grads);
    if (is_scaled) {
      value = unscale_loss(value, state.opt);
      norm = unscale_loss(norm, state.opt);
    }
    Metrics metrics{{"loss", value}, {"norm", norm}};
    if (const Tensor count = updates_made(state.opt); count.valid())
      metrics["rate"] = schedule(cast(count, DType::F32));
    return std::make_pair(std::move(metrics), TrainState{std::move(params), std::move(opt)});
  };
}

ReadyStep make_ready(const models::LanguageModel& model, const RunConfig& config,
                     const std::string& plan_file) {
  if (config.accumulate < 1 || config.batch % config.accumulate != 0)
    throw_user("--accumulate {}: it must divide the batch of {}", config.accumulate, config.batch);
  const StepFunction step = train_step(model, config);
  const Shape batch = batch_shape(config, model.config.length);
  ReadyStep ready;
  ready.state = {model.weights, optimizer_of(config).init(model.weights)};
  const std::vector<std::string>& schemes = models::scheme_names();
  const bool is_scheme = std::find(schemes.begin(), schemes.end(), config.plan) != schemes.end();
  if (config.plan == "none")
    run_on_one(ready, step, config);
  else if (is_scheme)
    run_by_scheme(ready, step, config, batch);
  else
    run_planned(ready, step, config, batch, plan_file);
  count_flops(ready, model, config);
  return ready;
}

}  // namespace cleave::train
