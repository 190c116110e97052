#include <fmt/format.h>

#include "cleave/cli/commands.h"
#include "cleave/cli/modules.h"
#include "cleave/cli/xla_run.h"
#include "cleave/core/error.h"
#include "cleave/pjrt/engine.h"
#include "cleave/plan/verify_on_xla.h"
#include "cleave/plan/verify_plan.h"

namespace cleave::cli {
namespace {

struct VerifyCommand {
  std::string file, plan, machine, engine = "cleave";
  plan::VerifyPlanOptions options;
};

void run(const VerifyCommand& command) {
  const Graph graph = read_module(command.file);
  const plan::Plan plan = plan::read_plan(command.plan);
  const MachineProfile profile =
      load_profile(command.machine.empty() ? plan.machine : command.machine);
  const MachineProfile shared = shared_by(profile, plan.mesh->num_devices());
  const auto tell = [](const auto& result) {
    fmt::print("{}", to_string(result));
    if (!result.good()) throw CLI::RuntimeError(1);
  };
  if (!pjrt::is_xla_engine(command.engine))
    return tell(plan::verify_plan(plan, graph, shared, command.options));
  quiet_plugins();
  tell(plan::verify_on_xla(plan, graph, shared, command.engine, command.options));
}

}  // namespace

void add_verify_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "verify",
      "Run a planned module on virtual devices, and check results, collectives and memory");
  auto options = std::make_shared<VerifyCommand>();
  command
      ->add_option("file", options->file, "the module: StableHLO text, graph JSON, or model:NAME")
      ->required();
  command->add_option("--plan", options->plan, "the plan, as `cleave plan --out` wrote it")
      ->required();
  command->add_option("--machine", options->machine, "default: the plan's");
  command->add_option("--seed", options->options.seed, "seed of the random arguments")
      ->capture_default_str();
  command
      ->add_option("--devices", options->options.shrink.most_devices,
                   "larger meshes run with shorter axes")
      ->capture_default_str();
  command
      ->add_option("--engine", options->engine,
                   "what runs it: cleave, xla or xla:PLUGIN (`cleave devices` lists them)")
      ->capture_default_str();
  command->add_flag("--as-is", options->options.keep_sizes, "do not make the tensors smaller");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
