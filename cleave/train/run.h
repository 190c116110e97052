#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>

#include "cleave/models/registry.h"
#include "cleave/train/loop.h"
#include "cleave/train/run_config.h"

namespace cleave::train {

// What is known before the first step.
struct RunStart {
  int64_t first = 0;       // steps made before: 0, or those of the checkpoint
  int64_t parameters = 0;  // of the model
  int64_t samples = 0;     // of the training set
  int64_t steps_per_epoch = 0;
  double flops = 0;         // of the model, a step; 0: not known
  std::string description;  // where it runs
};

class RunObserver : public LoopObserver {
 public:
  virtual void on_start(const RunStart&) {}
};

// A training in a folder:
//
//   run/config.json                 the RunConfig
//   run/plan.json                   if it was planned
//   run/metrics.jsonl               a line for every step and evaluation
//   run/events.out.tfevents...      the same for TensorBoard
//   run/checkpoints/                checkpoint.h
//
// If the folder has a checkpoint of the same training, it goes on from there, on the same mesh with
// the losses of a training that was never interrupted. If it has one of another training, that is a
// UserError. Of several ranks all call it, over a folder that all of them see; rank 0 writes.
LoopEnd run_training(const RunConfig& config, const std::filesystem::path& folder,
                     RunObserver& observer, const std::stop_token& stop = {});

// The step of the latest checkpoint; none: the folder has none.
std::optional<int64_t> latest_step(const std::filesystem::path& folder);
// The config of a training. Throws UserError if there is none.
RunConfig read_run_config(const std::filesystem::path& folder);

// The model of a training with the weights of a checkpoint, the latest if no step is given: laid
// out as `layout` says, or whole on one device.
using WeightLayout = std::function<Tensor(const std::string& name, const Tensor& weight)>;
models::LanguageModel load_trained(const std::filesystem::path& folder,
                                   std::optional<int64_t> step = {},
                                   const WeightLayout& layout = {});

}  // namespace cleave::train
