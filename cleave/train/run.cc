#include "cleave/train/run.h"

#include <chrono>
#include <memory>

#include "cleave/core/error.h"
#include "cleave/core/input_file.h"
#include "cleave/core/output_file.h"
#include "cleave/runtime/agreement.h"
#include "cleave/runtime/world.h"
#include "cleave/train/checkpoint.h"
#include "cleave/train/data.h"
#include "cleave/train/metrics.h"
#include "cleave/train/prefetch.h"
#include "cleave/train/step.h"
#include "cleave/transforms/compile.h"

namespace cleave::train {
namespace {

namespace fs = std::filesystem;

bool writes_files() { return World::rank_of_process() == 0; }

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// What ranks do before it has happened on all of them before one does what follows.
void wait_for_ranks() {
  if (World* world = World::of_process())
    world->gather({Array::scalar<int32_t>(DType::I32, 0)}, "the ranks of a training");
}

// Writes what happens into the folder, and passes it on.
class RunFiles : public LoopObserver {
 public:
  RunFiles(const fs::path& folder, int64_t first, LoopObserver& next) : next_(next) {
    if (!writes_files()) return;
    metrics_.emplace(folder / "metrics.jsonl", first);
    events_.emplace(folder, wall_seconds(), first);
  }
  void on_step(const StepRecord& record) override {
    if (metrics_) {
      metrics_->add(to_json_line(record));
      std::map<std::string, double> scalars{{"loss", record.loss}};
      for (const auto& [name, value] : record.metrics) scalars[name] = value;
      if (record.tokens_per_second > 0) scalars["tokens_per_second"] = record.tokens_per_second;
      if (record.utilization > 0) scalars["mfu"] = record.utilization;
      events_->add(record.step, wall_seconds(), scalars);
    }
    next_.on_step(record);
  }
  void on_evaluation(const EvaluationRecord& record) override {
    if (metrics_) {
      metrics_->add(to_json_line(record));
      events_->add(record.step, wall_seconds(), {{"eval_loss", record.loss}});
    }
    next_.on_evaluation(record);
  }
  void on_save(const SaveRecord& record) override { next_.on_save(record); }

 private:
  LoopObserver& next_;
  std::optional<MetricsFile> metrics_;
  std::optional<EventFile> events_;
};

// The training set and, if there is one, that for evaluation.
struct Sets {
  Batches train;
  std::optional<Batches> eval;
};

Sets open_sets(const RunConfig& config, const models::GptConfig& model) {
  SampleOptions samples{.length = model.length, .vocab = model.vocab};
  const bool has_files = !config.eval_data.empty();
  if (!(config.eval_share >= 0 && config.eval_share < 1))
    throw_user("--eval-share {}: it must be at least 0 and below 1", config.eval_share);
  if (has_files && config.eval_share > 0)
    throw_user("--eval-share {}: --eval-data says what to evaluate with", config.eval_share);
  const double end = 1 - config.eval_share;
  SampleOptions train = samples, eval = samples;
  train.end = end;
  Sets sets{Batches(open_dataset(config.data, train),
                    {.batch = config.batch, .seed = config.seed, .parts = config.accumulate}),
            std::nullopt};
  if (!has_files) eval.begin = end;
  if (has_files || config.eval_share > 0) {
    Dataset data = open_dataset(has_files ? config.eval_data : config.data, eval);
    const int64_t rows = std::min(config.batch / config.accumulate, data.num_samples());
    sets.eval.emplace(std::move(data), BatchOptions{.batch = rows, .shuffle = false});
  }
  return sets;
}

// How the rows of one part of a batch lie.
std::optional<ShardingSpec> rows_of(const std::optional<ShardingSpec>& batch) {
  if (!batch || batch->dims.size() < 3) return batch;
  ShardingSpec rows = *batch;
  rows.dims.erase(rows.dims.begin());
  return rows;
}

// The mean loss over the first batches of the set.
std::function<double(const TrainState&)> evaluation(const models::LanguageModel& model,
                                                    const RunConfig& config, const Batches& set,
                                                    const std::optional<ShardingSpec>& batch) {
  const auto loss = compile(model.loss, {.engine = config.engine});
  const int64_t count = std::min(set.per_epoch(), std::max<int64_t>(1, config.eval_batches));
  return [loss, set, count, rows = rows_of(batch)](const TrainState& state) {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += loss(state.params, set.tensor(i, rows)).item();
    return total / static_cast<double>(count);
  };
}

void check_folder(const fs::path& folder) {
  std::error_code error;
  if (writes_files()) fs::create_directories(folder, error);
  if (error) throw_user("{} cannot be made: {}", folder.string(), error.message());
}

// Where the training begins: 0, or at the latest checkpoint of the same training.
int64_t first_step(const RunConfig& config, const fs::path& folder) {
  const std::optional<int64_t> latest = latest_step(folder);
  if (!latest) return 0;
  const std::string differs = difference(read_run_config(folder), config);
  if (!differs.empty())
    throw_user(
        "{} has a training with a checkpoint at step {}: {}; go on with the same options, "
        "or take another folder",
        folder.string(), *latest, differs);
  return *latest;
}

// The plan that the training ran by so far, if it goes on over the same mesh.
std::string plan_so_far(const RunConfig& config, const fs::path& folder, int64_t first) {
  const fs::path file = folder / "plan.json";
  std::error_code error;
  if (first == 0 || config.plan != "auto" || !fs::exists(file, error)) return {};
  const RunConfig before = read_run_config(folder);
  const bool same = before.plan == "auto" && before.mesh == config.mesh &&
                    before.devices == config.devices && before.machine == config.machine &&
                    before.memory == config.memory;
  return same ? file.string() : std::string();
}

int64_t count_parameters(const models::Weights& weights) {
  int64_t count = 0;
  for (const auto& [name, weight] : weights) count += weight.size();
  return count;
}

LoopOptions loop_options(const RunConfig& config, const ReadyStep& ready, int64_t first,
                         int64_t length, const std::stop_token& stop) {
  LoopOptions options;
  options.first = first;
  options.steps = config.steps;
  options.read_every = config.read_every;
  options.evaluate_every = config.eval_every;
  options.save_every = config.save_every;
  options.tokens = static_cast<double>(config.batch * length);
  options.flops = ready.flops;
  options.peak_flops = ready.peak_flops;
  options.most_skipped = config.dtype == "f16" ? 50 : 0;
  options.stop = stop;
  return options;
}

}  // namespace

std::optional<int64_t> latest_step(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder / "checkpoints", error)) return std::nullopt;
  return Checkpoints(folder / "checkpoints").latest();
}

RunConfig read_run_config(const fs::path& folder) {
  const std::string path = (folder / "config.json").string();
  std::error_code error;
  if (!fs::exists(path, error))
    throw_user("{} has no training: there is no config.json", folder.string());
  return run_config_from_json(read_input_file(path), path);
}

namespace {

// The weights of a TrainState, under the names that they have there.
struct SavedWeights {
  models::Weights params;
  template <typename Visitor>
  void visit(Visitor&& v) {
    v("params", params);
  }
};

}  // namespace

models::LanguageModel load_trained(const fs::path& folder, std::optional<int64_t> step,
                                   const WeightLayout& layout) {
  const RunConfig config = read_run_config(folder);
  if (!latest_step(folder)) throw_user("{} has no checkpoint yet", folder.string());
  models::LanguageModel model = model_of(config);
  SavedWeights saved{model.weights};
  if (layout)
    for (auto& [name, weight] : saved.params) weight = layout(name, weight);
  model.weights =
      Checkpoints(folder / "checkpoints").load(saved, step, {.allow_extra = true}).params;
  return model;
}

LoopEnd run_training(const RunConfig& config, const fs::path& folder, RunObserver& observer,
                     const std::stop_token& stop) {
  World* world = World::of_process();
  if (world) require_same_facts(*world, {{"the training", to_json(config)}});
  const models::LanguageModel model = model_of(config);
  const Sets sets = open_sets(config, model.config);
  check_folder(folder);
  const int64_t first = first_step(config, folder);
  ReadyStep ready = make_ready(model, config, plan_so_far(config, folder, first));
  wait_for_ranks();  // all have read what the first one writes
  if (writes_files()) {
    write_file(folder / "config.json", to_json(config));
    if (!ready.plan_json.empty()) write_file(folder / "plan.json", ready.plan_json);
  }
  const Checkpoints checkpoints(folder / "checkpoints", {.keep = config.keep});
  TrainState state = std::move(ready.state);
  if (first > 0) state = checkpoints.load(state, first);
  observer.on_start({first, count_parameters(model.weights), sets.train.data().num_samples(),
                     sets.train.per_epoch(), ready.flops, ready.description});
  RunFiles files(folder, first, observer);
  const Shape shape = sets.train.shape();
  Prefetch<std::vector<Array>> batches(
      [&](int64_t n) {
        if (ready.batch && ready.batch->mesh) return sets.train.read_shards(n, *ready.batch);
        return std::vector<Array>{sets.train.read(n)};
      },
      first);
  TrainLoop<TrainState> loop;
  loop.step = ready.step;
  loop.batch = [&](int64_t) {
    std::vector<Array> arrays = batches.next();
    if (!ready.batch || !ready.batch->mesh) return Tensor::from(std::move(arrays[0]));
    return Tensor::from_shards(std::move(arrays), shape, *ready.batch);
  };
  if (sets.eval) loop.evaluate = evaluation(model, config, *sets.eval, ready.batch);
  loop.save = [&](const TrainState& s, int64_t n) { checkpoints.save(n, s); };
  return run_loop(state, loop, loop_options(config, ready, first, model.config.length, stop),
                  files);
}

}  // namespace cleave::train
