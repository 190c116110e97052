#include <fmt/format.h>

#include <iterator>
#include <memory>
#include <sstream>

#include "cleave/analyze/schedule.h"
#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/interrupt.h"
#include "cleave/cli/modules.h"
#include "cleave/cli/page_file.h"
#include "cleave/cli/planned_files.h"
#include "cleave/cli/tensor_options.h"
#include "cleave/cli/terminal.h"
#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/core/units.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/export.h"
#include "cleave/plan/figures.h"
#include "cleave/plan/infeasible.h"
#include "cleave/plan/jax_forecast.h"
#include "cleave/plan/mesh_search.h"
#include "cleave/plan/planner.h"
#include "cleave/plan/predicted_memory.h"
#include "cleave/plan/solvers.h"
#include "cleave/spmd/annotated_mesh.h"

namespace cleave::cli {
namespace {

struct PlanArguments {
  std::string file, mesh, machine = "h100", memory, out, solver = "cleave", entry = "main";
  std::string given, format, timeline, page, objective = "step";
  std::vector<std::string> pins, forbid, replicate, compare;
  int64_t devices = 0, trips = 1;
  int axes = 2;
  double time = 10, gap = 1;
  std::optional<double> memory_share;
  uint64_t seed = 0;
  bool every = false, sub_axes = false, trace = false, apart = false, json = false;
  bool ignore_annotations = false;
};

// As in the rows of a plan.
std::string duration(double seconds) { return seconds_text(seconds, 3); }
std::string size(double bytes) { return bytes_text(bytes, BytesStyle::Table); }

// Pins of the command line: one each, or @FILE with one on each line.
std::vector<plan::Pin> pins_of(const PlanArguments& arguments, const MeshPtr& mesh) {
  std::vector<plan::Pin> pins;
  for (const std::string& text : arguments.pins) {
    if (!text.starts_with("@")) {
      pins.push_back(plan::parse_pin(text, mesh));
      continue;
    }
    for (plan::Pin& pin : plan::parse_pins(read_text(text.substr(1), "a pin on each line"), mesh))
      pins.push_back(std::move(pin));
  }
  for (const std::string& text : arguments.forbid)
    pins.push_back(plan::parse_pin("forbid " + text, mesh));
  for (const std::string& text : arguments.replicate)
    pins.push_back(plan::parse_pin("replicate " + text, mesh));
  return pins;
}

void print_summary(const plan::Plan& plan, const plan::PlannerStats& stats) {
  std::string text;
  const auto out = std::back_inserter(text);
  const std::string source = plan.source.empty() ? "module" : plan.source;
  fmt::format_to(out, "{} on {} of {}\n", plan.module.empty() ? source : "@" + plan.module,
                 to_string(*plan.mesh), plan.machine);
  const double total = plan.totals.seconds;
  auto share = [&](double seconds) { return total > 0 ? 100 * seconds / total : 0; };
  fmt::format_to(out, "step {}\n", step_text(plan, 3));
  fmt::format_to(out, "  {:<34} {:>12} {:>6.1f}%\n", "compute",
                 duration(plan.totals.compute_seconds), share(plan.totals.compute_seconds));
  for (const plan::CollectiveTotal& c : plan.totals.collectives)
    fmt::format_to(out, "  {:<34} {:>12} {:>6.1f}%  x{:.0f}, {} received\n", c.kind + " " + c.axes,
                   duration(c.seconds), share(c.seconds), c.count, size(c.bytes));
  if (plan.figures) text += to_string(*plan.figures);
  fmt::format_to(
      out, "memory {} at {}, {} of it arguments{}\n", size(static_cast<double>(plan.memory.peak)),
      plan.memory.peak_at, size(static_cast<double>(plan.memory.arguments)),
      plan.memory.limit
          ? ", limit " + plan::limit_text(*plan.memory.limit, plan.memory.share, BytesStyle::Table)
          : std::string());
  fmt::format_to(out,
                 "{} ops, {} decisions in {} classes, {} strategies; {:.2f} s ({:.2f} formulating, "
                 "{:.2f} pricing, {:.2f} solving)\n",
                 stats.ops, stats.decisions, stats.classes, stats.strategies, stats.total_seconds,
                 stats.formulate_seconds, stats.table_seconds, stats.solve_seconds);
  for (const std::string& note : plan.notes) fmt::format_to(out, "note: {}\n", note);
  print_painted(text, axis_names(*plan.mesh));
}

// The predicted schedule, for Perfetto.
void write_timeline(const plan::Plan& plan, const Graph& graph, const MachineProfile& profile,
                    const std::string& path) {
  const Program program = plan::partition_planned(plan, graph, profile);
  write_file(path,
             analyze::timeline(analyze::schedule(program, profile, plan.trips), program) + "\n");
}

// The layouts, and whether XLA would make the plan of them: in the text, and on stderr if not.
void print_jax(const plan::Plan& plan, const Graph& graph) {
  std::string text = plan::to_jax(plan, graph);
  const plan::JaxForecast forecast = plan::forecast_of_jax(plan, graph, load_profile(plan.machine));
  const std::string said = to_string(forecast);
  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) text += "# " + line + "\n";
  fmt::print("{}", text);
  if (!forecast.is_the_plan()) fmt::print(stderr, "warning: {}", said);
}

void print_as(const std::string& format, const plan::Plan& plan, const Graph& graph) {
  if (format == "jax") return print_jax(plan, graph);
  fmt::print("{}", plan::export_as(format, plan, graph, load_profile(plan.machine)));
}

std::vector<int64_t> limits_of(const std::string& text) {
  std::vector<int64_t> limits;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) limits.push_back(parse_bytes(part));
  return limits;
}

// Of what devices have, what programs can use.
std::vector<int64_t> usable(std::vector<int64_t> limits, double share) {
  for (int64_t& limit : limits) limit = static_cast<int64_t>(share * static_cast<double>(limit));
  return limits;
}

// In the unit of the plan's objective: what it takes, the bound of that, and how far they are
// apart.
std::string in_unit(const plan::Plan& plan, double value) {
  return plan.objective == plan::Objective::Bytes ? size(value) : duration(value);
}
std::string value_of(const plan::Plan& plan) { return in_unit(plan, objective_value(plan)); }
std::string least_of(const plan::Plan& plan) {
  const bool is_step = plan.objective == plan::Objective::Step;
  return in_unit(plan, is_step ? plan.bound.step_bound : plan.bound.lower_bound);
}
double gap_of(const plan::Plan& plan) {
  return plan.objective == plan::Objective::Step ? plan.bound.step_gap : plan.bound.gap;
}

std::string title_of(const PlanArguments& arguments) {
  const std::string mesh =
      arguments.mesh.empty() ? fmt::format("{} devices", arguments.devices) : arguments.mesh;
  return fmt::format("{} on {} of {}", arguments.file, mesh, arguments.machine);
}

// Of a plan that does not exist.
void write_page_of_none(const PlanArguments& arguments, const plan::PlannerOptions& options,
                        const std::optional<plan::Infeasibility>& why, const std::string& reason) {
  report::NoPlan none;
  none.title = title_of(arguments);
  none.machine = arguments.machine;
  none.mesh = options.mesh;
  none.profile = options.profile;
  none.why.limit = options.memory.value_or(0);
  none.why.share = options.memory_share;
  if (why) none.why = *why;
  none.text = why ? why->text() : reason;
  PageReport page;
  page.set_infeasible(std::move(none));
  page.write(arguments.page, SlowSteps());
}

// The page of a sweep shows the plan within the last limit that has one.
void write_front_page(const Graph& graph, const PlanArguments& arguments,
                      const plan::PlannerOptions& options,
                      const std::vector<plan::MeshCandidate>& candidates,
                      const std::vector<int64_t>& limits) {
  const std::vector<int> fastest = plan::fastest_by_limit(candidates, limits);
  const auto last = std::find_if(fastest.rbegin(), fastest.rend(), [](int c) { return c >= 0; });
  if (last == fastest.rend())
    return write_page_of_none(
        arguments, options,
        options.mesh ? std::optional(plan::explain_infeasible(graph, options)) : std::nullopt,
        candidates.empty() ? "nothing was tried" : candidates.back().result.reason);
  const SlowSteps steps;
  const auto shared = std::make_shared<const Graph>(graph);
  plan::Plan shown = *candidates[static_cast<size_t>(*last)].result.plan;
  shown.source = source_of(arguments.file);
  PageReport page;
  page.add(std::move(shown), shared, arguments.machine);
  page.add_front(candidates, limits, options.memory_share, shared, arguments.machine,
                 source_of(arguments.file));
  page.write(arguments.page, steps);
}

// `limits` are what programs can use; rows have what was asked for, which is what devices have.
void search_shapes(const Graph& graph, const PlanArguments& arguments, plan::PlannerOptions options,
                   const std::vector<int64_t>& limits) {
  const std::vector<MeshPtr> meshes = arguments.devices > 0
                                          ? plan::mesh_shapes(arguments.devices, arguments.axes)
                                          : std::vector<MeshPtr>{options.mesh};
  const auto device = [share = options.memory_share](int64_t limit) {
    return size(static_cast<double>(limit) / share);
  };
  const auto candidates = plan::search_meshes(
      graph, meshes, limits, options, [&](const plan::MeshCandidate& c, size_t done, size_t all) {
        const std::string found = c.result.plan
                                      ? fmt::format("{} (gap {:.3f}%)", value_of(*c.result.plan),
                                                    100 * gap_of(*c.result.plan))
                                      : "no plan";
        fmt::print(stderr, "[{}/{}] {} within {}: {} in {:.2f} s\n", done, all, to_string(*c.mesh),
                   c.limit ? device(*c.limit) : "any memory", found, c.result.stats.total_seconds);
      });
  std::string text;
  const auto out = std::back_inserter(text);
  fmt::format_to(out, "{:<28} {:>12} {:>12} {:>12} {:>8} {:>12}\n", "mesh", "limit",
                 name(options.objective), "at least", "gap", "memory");
  for (const plan::MeshCandidate& c : candidates) {
    const std::string limit = c.limit ? device(*c.limit) : "none";
    if (!c.result.plan) {
      fmt::format_to(out, "{:<28} {:>12} {}\n", to_string(*c.mesh), limit, c.result.reason);
      continue;
    }
    const plan::Plan& p = *c.result.plan;
    fmt::format_to(out, "{:<28} {:>12} {:>12} {:>12} {:>7.3f}% {:>12}\n", to_string(*c.mesh), limit,
                   value_of(p), least_of(p), 100 * gap_of(p),
                   size(static_cast<double>(p.memory.peak)));
  }
  const std::vector<int> fastest = plan::fastest_by_limit(candidates, limits);
  for (size_t i = 0; i < limits.size(); ++i) {
    const std::string limit = device(limits[i]);
    if (fastest[i] < 0) {
      fmt::format_to(out, "within {}: nothing fits\n", limit);
      continue;
    }
    plan::Plan p = *candidates[fastest[i]].result.plan;
    p.source = source_of(arguments.file);
    fmt::format_to(out, "within {}: {} on {}\n", limit, value_of(p), to_string(*p.mesh));
    if (i + 1 == limits.size() && !arguments.out.empty()) plan::write_plan(p, arguments.out);
  }
  print_painted(text, axis_names(*meshes.front()));
  if (!arguments.page.empty()) write_front_page(graph, arguments, options, candidates, limits);
}

void print_differences(const std::string& before, const std::string& after) {
  const std::vector<std::string> lines =
      plan::diff(plan::read_plan(before), plan::read_plan(after));
  Terminal terminal = terminal_of_output();
  terminal.colours = terminal.bars = false;
  for (const std::string& line : lines) fmt::print("{}", painted(line, terminal, {}));
  if (lines.empty()) fmt::print("no difference\n");
}

void check_numbers(const PlanArguments& arguments) {
  if (!(arguments.time > 0)) throw_user("--time {}: it must be more than 0 s", arguments.time);
  if (arguments.memory_share && !(*arguments.memory_share > 0 && *arguments.memory_share <= 1))
    throw_user("--memory-share {}: it must be above 0 and at most 1", *arguments.memory_share);
  if (!(arguments.gap >= 0))
    throw_user("--gap {}: it must be 0 or more, in percent", arguments.gap);
  if (arguments.trips < 0) throw_user("--trips {}: it must be 0 or more", arguments.trips);
}

// All but the machine, the memory and what listens.
plan::PlannerOptions options_of(const PlanArguments& arguments, const Graph& graph) {
  plan::PlannerOptions options;
  if (!arguments.mesh.empty()) {
    Mesh mesh = parse_mesh(arguments.mesh);
    normalize_and_verify(mesh);
    options.mesh = std::make_shared<const Mesh>(std::move(mesh));
  }
  if (!arguments.ignore_annotations)
    require_annotated_mesh(
        graph, [&](const Mesh& own) { return options.mesh && own.axes == options.mesh->axes; },
        options.mesh ? "--mesh " + to_string(*options.mesh)
                     : fmt::format("--devices {}", arguments.devices),
        "plan on that mesh, or say --ignore-annotations to plan on another without them");
  options.machine = arguments.machine;
  options.objective = plan::objective_from_name(arguments.objective);
  options.entry = arguments.entry;
  options.apart = arguments.apart;
  options.every_layout = arguments.every;
  options.sub_axes = arguments.sub_axes;
  options.time_limit = arguments.time;
  options.gap = arguments.gap / 100;
  options.trips = arguments.trips;
  options.seed = arguments.seed;
  if (arguments.trace)
    options.trace = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (options.mesh)
    options.pins = pins_of(arguments, options.mesh);
  else if (!arguments.pins.empty() || !arguments.forbid.empty() || !arguments.replicate.empty())
    throw_user("pins speak of axes of a mesh; give --mesh instead of --devices");
  return options;
}

// Says why there is no plan; explained if it is certain that there is none.
std::optional<plan::Infeasibility> print_why_not(const Graph& graph, const PlanArguments& arguments,
                                                 const plan::PlannerOptions& options,
                                                 const plan::PlannerResult& result) {
  if (options.stop.stop_requested()) {
    fmt::print("interrupted before a plan was found\n");
  } else if (result.cut) {
    fmt::print(
        "{}\nthe clock ended the search after {} s, without a proof that there is none: "
        "give it more --time\n",
        result.reason, arguments.time);
  } else if (arguments.solver == "cleave") {
    plan::Infeasibility why = plan::explain_infeasible(graph, options);
    fmt::print("{}", why.text());
    return why;
  } else {
    fmt::print("{}\n", result.reason);
  }
  return std::nullopt;
}

void plan_module(const Graph& graph, const PlanArguments& arguments) {
  const MachineProfile profile = load_profile(arguments.machine);
  plan::PlannerOptions options = options_of(arguments, graph);
  options.profile = &profile;
  const Interrupt interrupt;
  options.stop = interrupt.token();
  std::vector<int64_t> limits = limits_of(arguments.memory);
  if (limits.empty()) limits.push_back(static_cast<int64_t>(profile.memory_bytes));
  options.memory_share = arguments.memory_share.value_or(profile.executor.memory_share);
  limits = usable(std::move(limits), options.memory_share);
  options.memory = limits.back();
  if (arguments.devices > 0 || limits.size() > 1) {
    if (arguments.solver != "cleave")
      throw_user("--solver {}: several meshes or limits are for --solver cleave", arguments.solver);
    if (arguments.json || !arguments.format.empty())
      throw_user(
          "{}: it prints one plan, and several meshes or limits give several; --out FILE keeps the "
          "fastest plan within the last limit",
          arguments.json ? "--json" : "--export " + arguments.format);
    if (!arguments.timeline.empty())
      throw_user("--timeline {}: it is that of one plan; give one --mesh and one limit",
                 arguments.timeline);
    return search_shapes(graph, arguments, options, limits);
  }
  plan::PlannerResult result = plan::plan_by(arguments.solver, graph, options);
  if (!result.plan) {
    const auto why = print_why_not(graph, arguments, options, result);
    if (!arguments.page.empty()) write_page_of_none(arguments, options, why, result.reason);
    throw CLI::RuntimeError(3);
  }
  result.plan->source = source_of(arguments.file);
  result.plan->figures = plan::plan_figures(*result.plan, graph, profile);
  if (auto note = plan::note_of_memory(*result.plan, graph, profile))
    result.plan->notes.push_back(std::move(*note));
  if (!arguments.out.empty()) plan::write_plan(*result.plan, arguments.out);
  if (!arguments.timeline.empty()) write_timeline(*result.plan, graph, profile, arguments.timeline);
  if (!arguments.page.empty()) {
    PageReport page;
    page.add(*result.plan, std::make_shared<const Graph>(graph), arguments.machine);
    page.write(arguments.page, SlowSteps());
  }
  if (arguments.json)
    fmt::print("{}\n", plan::to_json(*result.plan));
  else if (!arguments.format.empty())
    print_as(arguments.format, *result.plan, graph);
  else
    print_summary(*result.plan, result.stats);
}

void run(const PlanArguments& arguments) {
  if (!arguments.compare.empty())
    return print_differences(arguments.compare[0], arguments.compare[1]);
  if (arguments.file.empty()) throw_user("a module to plan is needed");
  check_numbers(arguments);
  const Graph graph = read_module(arguments.file);
  if (!arguments.given.empty())
    return print_as(arguments.format.empty() ? "manual" : arguments.format,
                    plan::read_plan(arguments.given), graph);
  if (arguments.devices < 0)
    throw_user("--devices {}: a positive number of devices is needed", arguments.devices);
  if (arguments.mesh.empty() == (arguments.devices == 0))
    throw_user("either --mesh data=8,model=8 or --devices 64 is needed");
  if (!arguments.out.empty()) check_writable(arguments.out);
  if (!arguments.timeline.empty()) check_writable(arguments.timeline);
  if (arguments.page == "-")
    throw_user("--report -: what was planned is printed there; give a file");
  if (!arguments.page.empty()) check_page_writable(arguments.page);
  plan_module(graph, arguments);
}

// Options that would change nothing beside others.
void refuse_idle_plan_options(CLI::App& command) {
  command.get_option("--axes")->needs(command.get_option("--devices"));
  command.get_option("--json")->excludes(command.get_option("--export"));
  for (CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (name == "--help" || name == "--plan" || name == "--diff") continue;
    if (name != "file" && name != "--export") command.get_option("--plan")->excludes(option);
    command.get_option("--diff")->excludes(option);
  }
  command.get_option("--plan")->excludes(command.get_option("--diff"));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  auto a = std::make_shared<PlanArguments>();
  CLI::App* command = app.add_subcommand("plan", "The best sharding of a module, with a bound");
  command->add_option("file", a->file, "A module: StableHLO text, graph JSON, or model:NAME");
  command->add_option("--mesh", a->mesh, "the mesh, such as data=8,model=8");
  command->add_option("--devices", a->devices, "try every mesh of this many devices");
  command->add_option("--axes", a->axes, "with --devices: the most axes that a mesh may have")
      ->capture_default_str();
  command
      ->add_option("--machine", a->machine,
                   "a built-in name, or a JSON file; h100+inductor: with another executor")
      ->capture_default_str();
  command->add_option(
      "--memory", a->memory,
      "what one device has: 80GiB, or several limits: 20GiB,40GiB; default: the machine's");
  command->add_option("--memory-share", a->memory_share,
                      "of it, what programs can use, up to 1; default: the executor's");
  command
      ->add_option(
          "--objective", a->objective,
          "what a plan is the best for: step; sum (nothing overlaps); bytes (that a device "
          "receives)")
      ->capture_default_str();
  // One value each: names may begin with a bracket, which would else be taken for a list.
  auto add_pins = [&](const char* option, std::vector<std::string>& list, const char* what) {
    command->add_option(option, list, what)->allow_extra_args(false);
  };
  add_pins("--pin", a->pins,
           "NAME=SPEC, as in 'arg0=[{\"data\"}, {?}]'; * stands for any characters; @FILE: one on "
           "each line, also 'forbid NAME=AXES' and 'replicate NAME'");
  add_pins("--forbid", a->forbid,
           "NAME=AXES, as in '*.norm=data,model': none of these axes splits it");
  add_pins("--replicate", a->replicate, "NAME: whole on every device");
  command->add_option("--entry", a->entry, "the function")->capture_default_str();
  command->add_option("--time", a->time, "seconds of solving at most")->capture_default_str();
  command
      ->add_option("--gap", a->gap,
                   "percent; a plan so close to its bound is good enough, 0: the whole effort")
      ->capture_default_str();
  command
      ->add_option("--trips", a->trips,
                   "trips assumed for loops whose number of trips is not known; the plan keeps it")
      ->capture_default_str();
  command->add_option("--seed", a->seed, "seed of the search")->capture_default_str();
  command
      ->add_option("--solver", a->solver,
                   "cleave; mip (small problems); heuristic (seeds and propagation); propagation "
                   "(pins alone)")
      ->capture_default_str();
  command->add_option("--out", a->out, "where the plan goes, as JSON");
  command->add_option("--timeline", a->timeline,
                      "where the predicted schedule goes: a Chrome/Perfetto timeline, with a track "
                      "for computation and for communication inside a node and across nodes");
  command->add_option("--report", a->page,
                      "where a page that shows the plan goes, or the plans of several limits, or "
                      "why there is none: one HTML file");
  command->add_option(
      "--export", a->format,
      "print the plan as manual (one manual computation, which XLA runs exactly as "
      "planned), constraints (on every value, which XLA takes for hints), spmd (the "
      "program of a device, with its collectives), sdy (the module with shardings "
      "and reshards), jax or dtensor");
  command->add_option("--plan", a->given, "do not plan; export this plan of the module");
  command->add_option("--diff", a->compare, "what changed between two plans")->expected(2);
  command->add_flag("--apart", a->apart,
                    "plan every layer by itself, instead of one choice for layers that look alike");
  command->add_flag(
      "--every-layout", a->every,
      "on meshes of three axes and more, try every assignment of axes; without it, the "
      "first axes only extend the axis after them");
  command->add_flag("--sub-axes", a->sub_axes,
                    "parts of axes too: two heads over model=8 as {\"model\":(1)2}; takes longer");
  command->add_flag("--ignore-annotations", a->ignore_annotations,
                    "plan on another mesh than that of the module's own shardings, without them");
  command->add_flag("--trace", a->trace, "print what is done, on stderr");
  command->add_flag("--json", a->json, "print the plan as JSON");
  refuse_idle_plan_options(*command);
  command->callback([a] { run(*a); });
}

}  // namespace cleave::cli
