#include <fmt/format.h>

#include <algorithm>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/modules.h"
#include "cleave/cli/planned_files.h"
#include "cleave/cli/terminal.h"
#include "cleave/core/error.h"
#include "cleave/graph/text/text.h"
#include "cleave/graph/value_sharding.h"
#include "cleave/plan/explain_plan.h"
#include "cleave/rules/explain.h"
#include "cleave/rules/pipelines.h"

namespace cleave::cli {
namespace {

struct ExplainCommand {
  std::string file;
  std::vector<std::string> values;
  std::string function;
  std::vector<std::string> ops;
  std::string module, machine;
  bool trace = false;
  bool warnings = false;
};

void collect_values(const Graph& graph, RegionId region, std::vector<ValueId>& values) {
  for (ValueId arg : graph.region(region).args) values.push_back(arg);
  for (NodeId id : graph.region(region).nodes) {
    for (ValueId result : graph.node(id).results) values.push_back(result);
    for (RegionId inner : graph.node(id).regions) collect_values(graph, inner, values);
  }
}

// The value of this name in the function; `3`, `%3` and `%3#1` are all understood.
ValueId find_value(const Graph& graph, const std::vector<std::string>& names, std::string name,
                   const std::string& function) {
  if (!name.starts_with('%')) name = "%" + name;
  int index = main_function(graph);
  for (size_t f = 0; f < graph.functions.size(); ++f)
    if (graph.functions[f].name == function) index = static_cast<int>(f);
  if (index < 0)
    throw_user("the module has several functions and no @main: name one with --function");
  std::vector<ValueId> values;
  if (graph.functions[index].body.valid())
    collect_values(graph, graph.functions[index].body, values);
  for (ValueId value : values)
    if (names[value.index] == name || "%" + graph.value(value).name == name) return value;
  throw_user("@{} has no value {}", graph.functions[index].name, name);
}

void explain_planned(const ExplainCommand& command, const std::string& text) {
  const plan::Plan plan = read_planned(command.file, text);
  const std::optional<Graph> found = module_of_plan(plan, command.module);
  if (!found) {
    if (!command.ops.empty())
      throw_user("--op {}: the alternatives need the module as well: --module FILE",
                 command.ops[0]);
    print_painted(
        fmt::format("{}({}; memory by class, patterns and alternatives: with --module FILE)\n",
                    plan::explain_totals(plan), why_no_module(plan)),
        axis_names(*plan.mesh));
    return;
  }
  const Graph& graph = *found;
  const MachineProfile profile =
      shared_by(load_profile(command.machine.empty() ? plan.machine : command.machine),
                plan.mesh->num_devices());
  const std::vector<std::string> axes = axis_names(*plan.mesh);
  if (command.ops.empty()) print_painted(plan::explain_plan(plan, graph, profile), axes);
  for (const std::string& op : command.ops)
    print_painted(plan::explain_op(plan, graph, profile, op), axes);
}

// Of all meshes of a module, each name once.
std::vector<std::string> axes_of(const Graph& graph) {
  std::vector<std::string> axes;
  for (const MeshPtr& mesh : graph.meshes)
    for (std::string& name : axis_names(*mesh))
      if (std::find(axes.begin(), axes.end(), name) == axes.end()) axes.push_back(std::move(name));
  return axes;
}

void run(const ExplainCommand& command) {
  const std::string text = read_text(command.file);
  if (is_plan(text)) {
    if (!command.values.empty() || command.trace || command.warnings)
      throw_user("--value, --trace and --warnings are for modules, and '{}' is a plan",
                 command.file);
    return explain_planned(command, text);
  }
  if (!command.ops.empty() || !command.module.empty() || !command.machine.empty())
    throw_user("--op, --module and --machine are for plans, and '{}' is a module", command.file);
  Graph graph = module_of_text(text, command.file);
  const std::vector<std::string> names = value_names(graph);
  std::vector<ValueId> values;
  for (const std::string& name : command.values)
    values.push_back(find_value(graph, names, name, command.function));
  prepare_for_propagation(graph, {});
  PropagationEngine engine(graph, {});
  engine.run();
  const Explainer explainer(engine, names);
  const std::vector<std::string> axes = axes_of(graph);
  if (command.trace) print_painted(explainer.trace(), axes);
  for (ValueId value : values) print_painted(explainer.explain(value), axes);
  if (command.warnings || (values.empty() && !command.trace)) {
    const std::vector<std::string> warnings = explainer.warnings();
    for (const std::string& warning : warnings) fmt::print("warning: {}\n", warning);
    if (warnings.empty()) fmt::print("no conflicts, and a rule for every op\n");
  }
}

}  // namespace

void add_explain_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "explain", "Say why a value has the sharding it has, and what a plan does");
  auto options = std::make_shared<ExplainCommand>();
  command->add_option("file", options->file, "a module or a plan; - for standard input")
      ->required();
  command->add_option(
      "--module", options->module,
      "for a plan: the module, if it is no longer at the path from which it was planned");
  command->add_option(
      "--op", options->ops,
      "for a plan: an op such as dot_general.3, with its alternatives and what they cost");
  command->add_option("--machine", options->machine, "for a plan: another machine than its own");
  command->add_option("--value", options->values, "a value, as %3 or %arg0; may be repeated");
  command->add_option("--function", options->function,
                      "the function that has the value; @main by default");
  command->add_flag("--trace", options->trace, "every change in order, with its cause");
  command->add_flag("--warnings", options->warnings, "conflicts and ops without a rule");
  command->get_option("--function")->needs(command->get_option("--value"));
  command->callback([options] { run(*options); });
}

}  // namespace cleave::cli
