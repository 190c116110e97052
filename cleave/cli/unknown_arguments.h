#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace cleave::cli {

// The name that was most likely meant: few letters off, or cut short. Empty if none is near.
//   nearest_name("--mehs", {"--mesh", "--machine"})   "--mesh"
std::string nearest_name(std::string_view written, const std::vector<std::string>& names);

// " (did you mean NAME?)", or nothing.
std::string did_you_mean(std::string_view written, const std::vector<std::string>& names);

// One line about the words that no command or option took; empty if all were taken.
//   there is no command 'plna' (did you mean plan?)
//   there is no option --mehs (did you mean --mesh?)
std::string unknown_argument(const CLI::App& app);

}  // namespace cleave::cli
