#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cleave/cli/commands.h"
#include "cleave/cli/modules.h"
#include "cleave/cli/xla_run.h"
#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/pjrt/engine.h"
#include "cleave/plan/verify_on_xla.h"
#include "cleave/plan/verify_plan.h"

namespace cleave::cli {
namespace {

struct VerifyCommand {
  std::string file, plan, machine, json, engine = "cleave";
  plan::VerifyPlanOptions options;
};

// The text as JSON, for `cleave report --verify`: a line that begins with a verdict is a check, and
// what follows belongs to it.
void write_checks(const std::string& path, const std::string& text, const plan::Plan& plan,
                  bool good) {
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  std::string ran;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string verdict = line.substr(0, 4);
    const size_t begin = std::min(line.find_first_not_of(' '), line.size());
    if (verdict == "ok  " || verdict == "BAD " || verdict == "off ")
      checks.push_back(
          {{"ok", verdict == "ok  "}, {"text", line.substr(std::min<size_t>(5, line.size()))}});
    else if (begin > 0 && !checks.empty())
      checks.back()["text"] = checks.back()["text"].get<std::string>() + "\n" + line.substr(begin);
    else if (line.starts_with("ran "))
      ran = line;
    else if (line.starts_with("note: "))
      checks.push_back({{"ok", nullptr}, {"text", line.substr(6)}});
  }
  const nlohmann::ordered_json json = {
      {"format", "cleave-verification"}, {"version", 1}, {"fingerprint", plan.fingerprint},
      {"planned_for", plan.machine},     {"ran", ran},   {"good", good},
      {"checks", std::move(checks)}};
  write_file(path, json.dump(1) + "\n");
}

void run(const VerifyCommand& command) {
  if (!command.json.empty()) check_writable(command.json);
  const Graph graph = read_module(command.file);
  const plan::Plan plan = plan::read_plan(command.plan);
  const MachineProfile profile =
      load_profile(command.machine.empty() ? plan.machine : command.machine);
  const MachineProfile shared = shared_by(profile, plan.mesh->num_devices());
  const auto tell = [&](const auto& result) {
    const std::string text = to_string(result);
    fmt::print("{}", text);
    if (!command.json.empty()) write_checks(command.json, text, plan, result.good());
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
  command->add_option("--json", options->json,
                      "where the checks go as JSON, for cleave report --verify");
  command->add_flag("--as-is", options->options.keep_sizes, "do not make the tensors smaller");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
