#include <fmt/format.h>

#include "cleave/cli/commands.h"
#include "cleave/cli/modules.h"
#include "cleave/core/error.h"
#include "cleave/core/sharding_rule_text.h"
#include "cleave/graph/op_def.h"
#include "cleave/graph/op_rule.h"
#include "cleave/graph/text/text.h"
#include "cleave/rules/propagate/propagation_tables.h"

namespace cleave::cli {
namespace {

std::string types_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (ValueId value : values) text += (text.empty() ? "" : ", ") + to_string(graph.type(value));
  return text;
}

void run(const std::string& path, bool short_form, bool conservative) {
  const Graph graph = read_module(path);
  const std::vector<std::string> names = value_names(graph);
  graph.walk([&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.results.empty() || node.operands.empty()) return;
    const auto rule = op_rule(graph, node, conservative).propagation;
    std::string results;
    for (ValueId result : node.results)
      results += (results.empty() ? "" : ", ") + names[result.index];
    const std::string text = !rule        ? "no rule"
                             : short_form ? to_short_string(*rule)
                                          : to_string(*rule);
    fmt::print("{} = {} ({}) -> {}\n    {}\n", results, node.name(), types_of(graph, node.operands),
               types_of(graph, node.results), text);
  });
}

}  // namespace

void add_rules_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("rules", "Print the sharding rule of every op of a module");
  auto path = std::make_shared<std::string>();
  auto short_form = std::make_shared<bool>(false);
  auto conservative = std::make_shared<bool>(false);
  command->add_option("file", *path, "a module; - for standard input")->required();
  command->add_flag("--short", *short_form, "as in \"m k, k n -> m n\"");
  command->add_flag("--conservative", *conservative,
                    "leave out factors along which elements move between shards");
  command->callback([=] { run(*path, *short_form, *conservative); });
}

}  // namespace cleave::cli
