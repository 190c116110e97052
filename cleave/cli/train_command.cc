#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/cli/interrupt.h"
#include "cleave/cli/ranks.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"
#include "cleave/models/registry.h"
#include "cleave/models/schemes.h"
#include "cleave/runtime/world.h"
#include "cleave/train/run.h"

namespace cleave::cli {
namespace {

struct TrainArguments {
  train::RunConfig config;
  std::string out;
  int64_t print_every = 0;  // 0: every step in a terminal, about a hundred lines elsewhere
  bool must_resume = false, quiet = false;
};

std::string short_count(double count) {
  const char* units[] = {"", "k", "M", "G", "T", "P", "E"};
  size_t unit = 0;
  for (; count >= 1000 && unit + 1 < std::size(units); ++unit) count /= 1000;
  return fmt::format("{:.{}f}{}", count, unit == 0 || count >= 100 ? 0 : 1, units[unit]);
}

// One line that is written over in a terminal; lines elsewhere.
class TrainProgress : public train::RunObserver {
 public:
  TrainProgress(const TrainArguments& arguments)
      : steps_(arguments.config.steps),
        quiet_(arguments.quiet || !speaks()),
        // mpirun gives ranks a terminal of its own, and passes on what they write to it.
        terminal_(isatty(STDOUT_FILENO) != 0 && !World::is_rank()),
        every_(arguments.print_every) {
    if (every_ == 0) every_ = terminal_ ? 1 : std::max<int64_t>(1, steps_ / 100);
  }
  ~TrainProgress() override { finish_line(); }
  TrainProgress(const TrainProgress&) = delete;
  TrainProgress& operator=(const TrainProgress&) = delete;

  void on_start(const train::RunStart& start) override {
    if (quiet_) return;
    fmt::print("{} parameters, {} samples, {} steps an epoch; {}\n",
               short_count(static_cast<double>(start.parameters)), start.samples,
               start.steps_per_epoch, start.description);
    if (start.first > 0) fmt::print("going on from step {}\n", start.first);
    std::fflush(stdout);
  }
  void on_step(const train::StepRecord& record) override {
    if (quiet_ || (record.step % every_ != 0 && record.step != steps_ && record.step != 1 &&
                   std::isfinite(record.loss)))
      return;
    std::string line = fmt::format("step {:>{}}/{}  loss {:.4f}", record.step,
                                   std::to_string(steps_).size(), steps_, record.loss);
    if (record.skipped) line += " (left out)";
    if (const auto norm = record.metrics.find("norm"); norm != record.metrics.end())
      line += fmt::format("  norm {:.3g}", norm->second);
    if (const auto rate = record.metrics.find("rate"); rate != record.metrics.end())
      line += fmt::format("  rate {:.3g}", rate->second);
    line += fmt::format("  {} tokens/s", short_count(record.tokens_per_second));
    if (record.utilization > 0) line += fmt::format("  MFU {:.1f}%", 100 * record.utilization);
    line += "  " + bytes_text(static_cast<double>(record.memory));
    say(line);
  }
  void on_evaluation(const train::EvaluationRecord& record) override {
    if (quiet_) return;
    finish_line();
    fmt::print("step {}: evaluation loss {:.4f}\n", record.step, record.loss);
    std::fflush(stdout);
  }
  void on_save(const train::SaveRecord& record) override {
    if (quiet_) return;
    finish_line();
    fmt::print("step {}: saved in {}\n", record.step, seconds_text(record.seconds));
    std::fflush(stdout);
  }

 private:
  void say(const std::string& line) {
    if (!terminal_) {
      fmt::print("{}\n", line);
    } else {
      fmt::print("\r{:<{}}", line, last_);
      last_ = line.size();
    }
    std::fflush(stdout);
  }
  void finish_line() {
    if (last_ > 0) fmt::print("\n");
    last_ = 0;
  }

  const int64_t steps_;
  const bool quiet_, terminal_;
  int64_t every_;
  size_t last_ = 0;  // characters of the line that is written over
};

void check_train_numbers(const train::RunConfig& config) {
  const auto at_least = [](const char* option, int64_t value, int64_t least) {
    if (value < least) throw_user("{} {}: it must be at least {}", option, value, least);
  };
  at_least("--steps", config.steps, 1);
  at_least("--batch", config.batch, 1);
  at_least("--accumulate", config.accumulate, 1);
  at_least("--length", config.length, 0);
  at_least("--devices", config.devices, 0);
  at_least("--eval-every", config.eval_every, 0);
  at_least("--eval-batches", config.eval_batches, 1);
  at_least("--save-every", config.save_every, 0);
  at_least("--keep", config.keep, 0);
  at_least("--read-every", config.read_every, 1);
  if (!(config.rate > 0)) throw_user("--rate {}: it must be above 0", config.rate);
  if (!(config.clip >= 0)) throw_user("--clip {}: it must be 0 or above", config.clip);
  if (!(config.weight_decay >= 0))
    throw_user("--weight-decay {}: it must be 0 or above", config.weight_decay);
}

void run_train(TrainArguments arguments) {
  train::RunConfig& config = arguments.config;
  check_train_numbers(config);
  World* world = World::of_process();
  if (config.plan.empty()) {
    const bool several = !config.mesh.empty() || config.devices > 1 || world;
    config.plan = several ? "auto" : "none";
  }
  if (world && config.mesh.empty() && config.devices == 0) config.devices = world->size();
  if (arguments.must_resume && !train::latest_step(arguments.out))
    throw_user("--resume: {} has no checkpoint to go on from", arguments.out);
  TrainProgress progress(arguments);
  const Interrupt interrupt;
  const train::LoopEnd end =
      train::run_training(config, arguments.out, progress, interrupt.token());
  if (end.kind == train::LoopEndKind::NotFinite) throw_user("{}", end.reason);
  if (end.kind == train::LoopEndKind::Stopped && speaks() && !arguments.quiet)
    fmt::print("interrupted and saved at step {}; the same command goes on from there\n", end.step);
}

void add_model_options(CLI::App& command, train::RunConfig& c) {
  command
      .add_option(
          "model", c.model,
          "model:gpt?layers=4&d=256 or model:moe?...; cleave trace --list has their options")
      ->required();
  command
      .add_option("--data", c.data,
                  "files of tokens: .bin (uint16), .u32, .npy, .safetensors, others as bytes; "
                  "u8:, u16:, u32:, i32: or i64: before a name says what is in it")
      ->required();
  command.add_option("--batch", c.batch, "rows of a step")->capture_default_str();
  command.add_option("--length", c.length, "tokens of a row; default: what the model says");
  command
      .add_option("--accumulate", c.accumulate,
                  "parts of a batch that are computed one after the other")
      ->capture_default_str();
  command
      .add_option("--dtype", c.dtype,
                  "of products: f32, bf16, or f16 with a scaled loss; weights are f32")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}))
      ->capture_default_str();
  command.add_option("--seed", c.seed, "of weights and of the order of samples")
      ->capture_default_str();
}

void add_optimizer_options(CLI::App& command, train::RunConfig& c) {
  command.add_option("--steps", c.steps, "steps in all, those before a checkpoint included")
      ->capture_default_str();
  command
      .add_option("--optimizer", c.optimizer, "adamw, adam, lion, adafactor, muon, sgd or momentum")
      ->capture_default_str();
  command.add_option("--rate", c.rate, "the learning rate")->capture_default_str();
  command.add_option("--warmup", c.warmup, "steps in which the rate grows to it")
      ->capture_default_str();
  command
      .add_option("--schedule", c.schedule,
                  "after it: constant, cosine or linear, the latter two to a tenth of the rate")
      ->capture_default_str();
  command.add_option("--clip", c.clip, "the largest norm of all gradients together; 0: none")
      ->capture_default_str();
  command.add_option("--weight-decay", c.weight_decay, "of matrices")->capture_default_str();
}

void add_place_options(CLI::App& command, train::RunConfig& c) {
  command.add_option(
      "--plan", c.plan,
      "none: one device; auto: the best layouts for the mesh; the file of a plan; or a scheme: "
      "data, megatron, fsdp, mixed, experts; default: auto if there are several devices");
  auto* mesh = command.add_option("--mesh", c.mesh, "the mesh, such as data=2,model=2");
  command.add_option("--devices", c.devices, "without a mesh: the best mesh of so many devices")
      ->excludes(mesh);
  command.add_option("--machine", c.machine,
                     "that plans and MFU are for; default: host if it was calibrated");
  command.add_option("--memory", c.memory, "what one device has, such as 80GiB");
  command.add_option("--engine", c.engine, "cleave, or xla[:PLUGIN]: XLA through PJRT")
      ->capture_default_str();
}

void add_output_options(CLI::App& command, TrainArguments& a) {
  train::RunConfig& c = a.config;
  command.add_option("--out", a.out, "the folder of the training")->required();
  command.add_flag("--resume", a.must_resume,
                   "go on from the latest checkpoint, which must be there; without it, one that is "
                   "there is taken if the options are the same");
  command.add_option("--eval-data", c.eval_data, "files of tokens to evaluate with");
  command
      .add_option("--eval-share", c.eval_share,
                  "without --eval-data: the last part of each file is for evaluation, such as 0.1")
      ->capture_default_str();
  command.add_option("--eval-every", c.eval_every, "steps; 0: at the end")->capture_default_str();
  command.add_option("--eval-batches", c.eval_batches, "of an evaluation, at most")
      ->capture_default_str();
  command.add_option("--save-every", c.save_every, "steps between checkpoints; 0: at the end")
      ->capture_default_str();
  command.add_option("--keep", c.keep, "checkpoints; 0: all")->capture_default_str();
  command
      .add_option("--read-every", c.read_every,
                  "read losses after so many steps; engines that do not wait go on meanwhile")
      ->capture_default_str();
  command.add_option("--print-every", a.print_every,
                     "steps between lines; default: about 100 lines");
  command.add_flag("--quiet", a.quiet, "print nothing");
}

}  // namespace

void add_train_command(CLI::App& app) {
  auto arguments = std::make_shared<TrainArguments>();
  arguments->config.plan.clear();
  CLI::App* command = app.add_subcommand(
      "train", "Train a language model on files of tokens, on one device, a mesh or ranks");
  add_model_options(*command, arguments->config);
  add_optimizer_options(*command, arguments->config);
  add_place_options(*command, arguments->config);
  add_output_options(*command, *arguments);
  command->footer(
      "The folder gets config.json, plan.json, metrics.jsonl, events for TensorBoard and\n"
      "checkpoints/. Ctrl-C saves and stops; the same command then goes on. Over ranks:\n"
      "  cleave launch -n 4 -- cleave train ... --mesh data=4");
  command->callback([arguments] { run_train(*arguments); });
}

}  // namespace cleave::cli
