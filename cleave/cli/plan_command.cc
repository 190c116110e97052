#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <sstream>

#include "cleave/cli/commands.h"
#include "cleave/cli/tensor_options.h"
#include "cleave/core/error.h"
#include "cleave/graph/json.h"
#include "cleave/graph/text/text.h"
#include "cleave/plan/planner.h"

namespace cleave::cli {
namespace {

struct PlanArguments {
  std::string file, mesh, machine = "h100", memory, out, solver = "cleave", entry = "main";
  std::vector<std::string> pins;
  double time = 10;
  uint64_t seed = 0;
  bool trace = false, apart = false, json = false;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw_user("{}: cannot be read", path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::string bytes_text(double bytes) {
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", bytes / 1024);
  if (bytes < 1 << 30) return fmt::format("{:.1f} MiB", bytes / (1 << 20));
  return fmt::format("{:.2f} GiB", bytes / (1 << 30));
}

plan::Pin parse_pin(const std::string& text, const MeshPtr& mesh) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos)
    throw_user("--pin '{}': expected NAME=SPEC, such as arg0='[{{\"data\"}}, {{}}]'", text);
  return {text.substr(0, equals), parse_sharding(text.substr(equals + 1), mesh), text};
}

void print_summary(const plan::Plan& plan, const plan::PlannerStats& stats) {
  fmt::print("{} on {} of {}\n", plan.module.empty() ? "module" : "@" + plan.module,
             to_string(*plan.mesh), plan.machine);
  const double total = plan.totals.seconds;
  auto share = [&](double seconds) { return total > 0 ? 100 * seconds / total : 0; };
  fmt::print("step {}, at least {} (gap {:.3f}%{})\n", seconds_text(total),
             seconds_text(plan.bound.lower_bound), 100 * plan.bound.gap,
             plan.bound.proven ? ", optimal" : "");
  fmt::print("  {:<34} {:>12} {:>6.1f}%\n", "compute", seconds_text(plan.totals.compute_seconds),
             share(plan.totals.compute_seconds));
  for (const plan::CollectiveTotal& c : plan.totals.collectives)
    fmt::print("  {:<34} {:>12} {:>6.1f}%  x{:.0f}, {} received\n", c.kind + " " + c.axes,
               seconds_text(c.seconds), share(c.seconds), c.count, bytes_text(c.bytes));
  fmt::print("memory {} at {}, {} of it arguments{}\n",
             bytes_text(static_cast<double>(plan.memory.peak)), plan.memory.peak_at,
             bytes_text(static_cast<double>(plan.memory.arguments)),
             plan.memory.limit ? ", limit " + bytes_text(static_cast<double>(*plan.memory.limit))
                               : std::string());
  fmt::print(
      "{} ops, {} decisions in {} classes, {} strategies; {:.2f} s ({:.2f} formulating, "
      "{:.2f} pricing, {:.2f} solving)\n",
      stats.ops, stats.decisions, stats.classes, stats.strategies, stats.total_seconds,
      stats.formulate_seconds, stats.table_seconds, stats.solve_seconds);
  for (const std::string& note : plan.notes) fmt::print("note: {}\n", note);
}

void run(const PlanArguments& arguments) {
  const std::string text = read_file(arguments.file);
  const Graph graph = arguments.file.ends_with(".json") ? graph_from_json(text)
                                                        : parse_module(text, arguments.file);
  Mesh mesh = parse_mesh(arguments.mesh);
  normalize_and_verify(mesh);
  const MachineProfile profile = load_profile(arguments.machine);
  plan::PlannerOptions options;
  options.mesh = std::make_shared<const Mesh>(std::move(mesh));
  options.profile = &profile;
  options.machine = arguments.machine;
  options.memory = arguments.memory.empty() ? static_cast<int64_t>(profile.memory_bytes)
                                            : parse_bytes(arguments.memory);
  options.entry = arguments.entry;
  options.apart = arguments.apart;
  options.time_limit = arguments.time;
  options.seed = arguments.seed;
  if (arguments.solver == "mip")
    options.solver = plan::PlanSolver::Mip;
  else if (arguments.solver != "cleave")
    throw_user("--solver {}: there are cleave and mip", arguments.solver);
  for (const std::string& pin : arguments.pins)
    options.pins.push_back(parse_pin(pin, options.mesh));
  if (arguments.trace)
    options.trace = [](const std::string& line) { fmt::print(stderr, "[plan] {}\n", line); };
  const plan::PlannerResult result = plan::make_plan(graph, options);
  if (!result.plan) {
    fmt::print("{}\n", result.reason);
    throw CLI::RuntimeError(3);
  }
  if (!arguments.out.empty()) plan::write_plan(*result.plan, arguments.out);
  if (arguments.json)
    fmt::print("{}\n", plan::to_json(*result.plan));
  else
    print_summary(*result.plan, result.stats);
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand("plan", "The best sharding of a module, with a bound");
  command->add_option("file", arguments->file, "A module: StableHLO text, or graph JSON")
      ->required();
  command->add_option("--mesh", arguments->mesh, "data=8,model=8")->required();
  command->add_option("--machine", arguments->machine, "a built-in name, or a JSON file")
      ->capture_default_str();
  command->add_option("--memory", arguments->memory,
                      "of one device; 80GiB; default: the machine's");
  command->add_option("--pin", arguments->pins, "NAME=SPEC: arg0='[{\"data\"}, {}]'; * in names");
  command->add_option("--entry", arguments->entry, "the function")->capture_default_str();
  command->add_option("--time", arguments->time, "seconds of solving at most")
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "of the search")->capture_default_str();
  command->add_option("--solver", arguments->solver, "cleave, mip")->capture_default_str();
  command->add_option("--out", arguments->out, "where the plan goes, as JSON");
  command->add_flag("--apart", arguments->apart, "every layer for itself");
  command->add_flag("--trace", arguments->trace, "what is done, on stderr");
  command->add_flag("--json", arguments->json, "print the plan");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace cleave::cli
