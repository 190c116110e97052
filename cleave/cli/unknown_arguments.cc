#include "cleave/cli/unknown_arguments.h"

#include <fmt/format.h>

#include <algorithm>

#include "cleave/core/near_names.h"

namespace cleave::cli {
namespace {

std::string_view without_dashes(std::string_view name) {
  return name.substr(std::min(name.find_first_not_of('-'), name.size()));
}

std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

}  // namespace

std::string nearest_name(std::string_view written, const std::vector<std::string>& names) {
  const std::string_view word = without_dashes(written);
  if (word.empty() || word.size() > 64) return "";
  std::string nearest;
  size_t fewest = word.size() / 3 + 1;  // and one letter more is too many
  for (const std::string& name : names) {
    const std::string_view other = without_dashes(name);
    size_t edits = edits_between(word, other);
    if (word.size() >= 3 && other.starts_with(word)) edits = std::min<size_t>(edits, 1);
    if (edits > fewest || (edits == fewest && !nearest.empty()) || edits >= other.size()) continue;
    nearest = name;
    fewest = edits;
  }
  return nearest;
}

std::string did_you_mean(std::string_view written, const std::vector<std::string>& names) {
  const std::string nearest = nearest_name(written, names);
  return nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest);
}

std::string unknown_argument(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands()[0];
  const std::vector<std::string> words = app.remaining(true);
  if (words.empty()) return "";
  const auto is_option = [](const std::string& word) { return word.size() > 1 && word[0] == '-'; };
  // The value of an unknown option is left over as well, but it is not what is wrong; with an
  // unknown command, all options are.
  const auto at = std::find_if(words.begin(), words.end(), is_option);
  if (at != words.end() && (command != &app || at == words.begin())) {
    const std::string name = at->substr(0, at->find('='));
    return fmt::format("there is no option {}{}", name,
                       did_you_mean(name, names_of_options(*command)));
  }
  if (command != &app) return fmt::format("'{}' is an argument too many", words[0]);
  std::vector<std::string> commands;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    commands.push_back(each->get_name());
  return fmt::format("there is no command '{}'{}", words[0], did_you_mean(words[0], commands));
}

}  // namespace cleave::cli
