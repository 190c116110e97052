#include <fmt/format.h>

#include <memory>
#include <optional>
#include <sstream>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/interrupt.h"
#include "cleave/cli/page_file.h"
#include "cleave/cli/planned_files.h"
#include "cleave/core/error.h"
#include "cleave/core/units.h"

namespace cleave::cli {
namespace {

struct ReportCommand {
  std::string file, out, module, machine, compare, memory, run, verify;
  double time = 10;
};

using SharedGraph = std::shared_ptr<const Graph>;

// A plan with its module, if that can be found.
struct FoundPlan {
  plan::Plan plan;
  SharedGraph graph;
  std::string note;
};

FoundPlan find_plan(const std::string& file, const std::string& text, const std::string& module) {
  FoundPlan found{read_planned(file, text), nullptr, {}};
  if (std::optional<Graph> graph = module_of_plan(found.plan, module))
    found.graph = std::make_shared<const Graph>(std::move(*graph));
  else
    found.note = fmt::format(
        "This page has only what the plan file says: {}. With the module (--module FILE) it has "
        "types, layers, communication op by op, the schedule, memory over time and alternatives.",
        why_no_module(found.plan));
  return found;
}

std::vector<int64_t> usable_limits(const std::string& text, double share) {
  std::vector<int64_t> limits;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');)
    limits.push_back(static_cast<int64_t>(share * static_cast<double>(parse_bytes(part))));
  return limits;
}

// Plans the module again under each of the limits.
void sweep(const ReportCommand& command, const FoundPlan& found, const SlowSteps& steps,
           PageReport& page) {
  const plan::Plan& plan = found.plan;
  const std::string machine = command.machine.empty() ? plan.machine : command.machine;
  const MachineProfile profile = load_profile(machine);
  const Interrupt interrupt;
  plan::PlannerOptions options;
  options.mesh = plan.mesh;
  options.profile = &profile;
  options.machine = machine;
  options.memory_share = plan.memory.share;
  options.entry = plan.entry;
  options.sub_axes = !plan.parts.empty();
  options.trips = plan.trips;
  options.objective = plan.objective;
  options.time_limit = command.time;
  options.stop = interrupt.token();
  const std::vector<int64_t> limits = usable_limits(command.memory, plan.memory.share);
  const auto candidates =
      plan::search_meshes(*found.graph, {plan.mesh}, limits, options,
                          [&](const plan::MeshCandidate& candidate, size_t done, size_t all) {
                            steps.begin(fmt::format("[{}/{}] {} in {:.2f} s", done, all,
                                                    candidate.result.plan ? "a plan" : "no plan",
                                                    candidate.result.stats.total_seconds));
                          });
  page.add_front(candidates, limits, plan.memory.share, found.graph, machine, plan.source);
}

void need_module(const FoundPlan& found, const char* option, const std::string& given) {
  if (!found.graph)
    throw_user("{} {}: it needs the module of the plan, and {}: --module FILE", option, given,
               why_no_module(found.plan));
}

void report_plan(const ReportCommand& command, const std::string& text, const SlowSteps& steps) {
  steps.begin("reading the module ...");
  FoundPlan found = find_plan(command.file, text, command.module);
  report::MeasuredInputs measured;
  if (!command.run.empty()) {
    need_module(found, "--run", command.run);
    measured.timeline = read_text(command.run, "a timeline");
    measured.timeline_name = command.run;
  }
  if (!command.verify.empty()) {
    need_module(found, "--verify", command.verify);
    measured.checks = read_text(command.verify, "what cleave verify --json wrote");
    measured.checks_name = command.verify;
  }
  if (!command.machine.empty()) need_module(found, "--machine", command.machine);
  PageReport page;
  page.add(found.plan, found.graph, command.machine, found.note, std::move(measured));
  if (!command.compare.empty()) {
    const std::string other_text = read_text(command.compare, "a plan");
    if (!is_plan(other_text)) throw_user("--compare {}: it is not a plan", command.compare);
    plan::Plan other = read_planned(command.compare, other_text);
    if (found.graph && other.fingerprint == found.plan.fingerprint) {
      page.add(std::move(other), found.graph, command.machine);
    } else {
      FoundPlan second = find_plan(command.compare, other_text, "");
      page.add(std::move(second.plan), second.graph, second.graph ? command.machine : "",
               second.note);
    }
    page.compare();
  }
  if (!command.memory.empty()) {
    need_module(found, "--memory", command.memory);
    sweep(command, found, steps, page);
  }
  page.write(command.out, steps);
}

void run(const ReportCommand& command) {
  const SlowSteps steps;
  check_page_writable(command.out);
  const std::string text = read_text(command.file, "a plan");
  if (is_plan(text)) return report_plan(command, text, steps);
  const std::pair<const std::string&, const char*> of_plans[] = {
      {command.module, "--module"}, {command.machine, "--machine"}, {command.compare, "--compare"},
      {command.memory, "--memory"}, {command.run, "--run"},         {command.verify, "--verify"}};
  for (const auto& [given, option] : of_plans)
    if (!given.empty()) throw_user("{}: it is for plans, and '{}' is none", option, command.file);
  write_page(command.out, report::discovery_report(text, command.file), "cleave discover");
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto options = std::make_shared<ReportCommand>();
  CLI::App* command = app.add_subcommand(
      "report", "Write a page that shows a plan: layouts, time, memory, alternatives");
  command
      ->add_option("file", options->file,
                   "a plan, or a report of cleave discover --format json; - for standard input")
      ->required();
  command->add_option("-o,--out", options->out, "the page, one HTML file; - for standard output")
      ->required();
  command->add_option("--module", options->module,
                      "the module, if it is no longer at the path from which it was planned");
  command->add_option("--machine", options->machine,
                      "another machine than the plan's: times are those of the plan there");
  command->add_option("--compare", options->compare,
                      "an earlier plan: the page shows both side by side, and what changed");
  CLI::Option* memory = command->add_option(
      "--memory", options->memory,
      "several limits, as in 4GiB,8GiB,16GiB: plans again for each, and shows time against memory");
  command->add_option("--time", options->time, "seconds of solving at most, for each limit")
      ->capture_default_str()
      ->needs(memory);
  command->add_option("--run", options->run,
                      "what cleave run --plan --timeline wrote: measured beside predicted");
  command->add_option("--verify", options->verify, "what cleave verify --json wrote");
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
