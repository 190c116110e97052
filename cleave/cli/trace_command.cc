#include <fmt/format.h>

#include <memory>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/core/error.h"
#include "cleave/models/registry.h"

namespace cleave::cli {
namespace {

struct TraceArguments {
  std::string model;
  bool list = false;
};

void run(const TraceArguments& options) {
  if (options.list) {
    fmt::print("{}", models::describe_models());
    return;
  }
  if (!models::is_model_name(options.model))
    throw_user(
        "a model's name starts with model:, as in model:gpt?layers=2; got '{}'. "
        "cleave trace --list shows them",
        options.model);
  fmt::print("{}", read_text(options.model));
}

}  // namespace

void add_trace_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("trace", "Print the StableHLO of a model");
  auto options = std::make_shared<TraceArguments>();
  auto* model = command->add_option("model", options->model, "model:gpt?layers=2&d=128&step=train");
  auto* list = command->add_flag("--list", options->list, "the models, with their options");
  model->excludes(list);
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
