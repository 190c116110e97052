#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cleave/models/registry.h"
#include "cleave/train/loop.h"
#include "cleave/train/optimizer.h"
#include "cleave/train/run_config.h"
#include "cleave/train/schedule.h"

// The step of a language model by name: its loss, its gradients, an optimizer; over the mesh and in
// the layouts that a RunConfig asks for.
namespace cleave::train {

struct TrainState {
  models::Weights params;
  OptState opt;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("params", params);
    v("opt", opt);
  }
};

// With --batch, --length, --dtype and --seed of the config, unless the name itself says them.
models::LanguageModel model_of(const RunConfig& config);
// The rate by step, and the optimizer with clipping, decay of matrices and scaling of the loss.
// Throw UserError that lists the names that there are.
Schedule schedule_of(const RunConfig& config);
Optimizer optimizer_of(const RunConfig& config);

// (state, tokens) -> (metrics, state), for tokens [batch, length], or [parts, batch / parts,
// length] if gradients are accumulated. Metrics are "loss", "norm" (of all gradients, before they
// are clipped) and "rate".
using StepFunction =
    std::function<std::pair<Metrics, TrainState>(const TrainState&, const Tensor&)>;
StepFunction train_step(const models::LanguageModel& model, const RunConfig& config);

// What a run needs of a step that is ready to run.
struct ReadyStep {
  StepFunction step;
  TrainState state;                   // the first one, laid out
  std::optional<ShardingSpec> batch;  // how tokens lie; none: one device
  std::string plan_json;              // empty: nothing was planned
  double flops = 0;                   // of the model, a step; 0: not known
  double peak_flops = 0;              // of all devices, a second; 0: not known
  int64_t num_devices = 1;
  std::string description;  // one line: "planned for <["data"=2]>: step 1.2 ms"
};
// `plan_file`: a plan that --plan auto takes if it is not empty, so that a training that goes on
// runs as before.
ReadyStep make_ready(const models::LanguageModel& model, const RunConfig& config,
                     const std::string& plan_file = {});

}  // namespace cleave::train
