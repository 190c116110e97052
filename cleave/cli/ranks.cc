#include "cleave/cli/ranks.h"

#include <fmt/core.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cleave/pjrt/processes.h"
#include "cleave/runtime/roll_call.h"
#include "cleave/runtime/world.h"

namespace cleave::cli {
namespace {

std::string encode(const Outcome& outcome) {
  return nlohmann::json{outcome.status, outcome.consequence, outcome.error}.dump(
      -1, ' ', false, nlohmann::json::error_handler_t::replace);
}

Outcome decode(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  return {json[0], json[1], json[2]};
}

// Without an exception if standard error cannot be written either.
void print_line(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

void print(const std::map<int, Outcome>& outcomes, int size) {
  bool cause = false;
  for (const auto& [rank, outcome] : outcomes) cause |= !outcome.consequence;
  std::vector<std::pair<std::string, std::vector<int>>> errors;
  for (const auto& [rank, outcome] : outcomes) {
    if (outcome.error.empty() || (cause && outcome.consequence)) continue;
    auto it = errors.begin();
    while (it != errors.end() && it->first != outcome.error) ++it;
    if (it == errors.end()) it = errors.insert(it, {outcome.error, {}});
    it->second.push_back(rank);
  }
  for (const auto& [error, ranks] : errors) {
    const size_t colon = error.find(": ");
    const bool all = ranks.size() == static_cast<size_t>(size);
    if (all || colon == std::string::npos)
      print_line(error);
    else
      print_line(fmt::format("{}: rank {}{}{}", error.substr(0, colon), ranks[0],
                             ranks.size() > 1 ? " and others" : "", error.substr(colon)));
  }
  std::fflush(stderr);
}

std::map<int, Outcome> read_report(const std::string& path) {
  std::ifstream file(path);
  std::map<int, Outcome> outcomes;
  int rank = 0;
  for (std::string text; file >> rank && std::getline(file, text);)
    if (text.find('[') != std::string::npos) outcomes[rank] = decode(text);
  return outcomes;
}

bool leave_report(int rank, const Outcome& outcome) {
  return leave_in_report(fmt::format("{} {}", rank, encode(outcome)));
}

// A rank that could not join the others: MPI may hang in a thread, which the usual end would wait
// for.
[[noreturn]] void end_alone(const Outcome& outcome) {
  std::fflush(stdout);
  if (!leave_report(World::rank_of_process(), outcome) && !outcome.error.empty())
    fmt::print(stderr, "{}\n", outcome.error);
  std::fflush(stderr);
  _exit(outcome.status);
}

}  // namespace

bool has_outcomes(const std::string& path) { return !read_report(path).empty(); }

void print_report(const std::string& path, int ranks) { print(read_report(path), ranks); }

bool speaks() {
  if (const World* world = World::of_process()) return world->rank() == 0;
  if (!std::getenv("CLEAVE_COORDINATOR")) return true;
  const pjrt::Processes* processes = pjrt::Processes::of_process();
  return !processes || processes->process() == 0;
}

int conclude(const Outcome& outcome) {
  World* world = nullptr;
  try {
    world = World::of_process();
  } catch (const std::exception&) {  // that is the outcome
    end_alone(outcome);
  }
  if (!world) {
    if (!outcome.error.empty()) print_line(outcome.error);
    return outcome.status;
  }
  std::fflush(stdout);
  const bool reports = std::getenv(kReportVariable) != nullptr;
  bool reported = reports && (outcome.status == 0 || leave_report(world->rank(), outcome));
  const auto words =
      world->part(outcome.status == 0 ? std::nullopt : std::optional(encode(outcome)));
  int status = outcome.status;
  if (world->speaker() == world->rank()) {
    std::map<int, Outcome> outcomes;
    for (size_t rank = 0; rank < words.size(); ++rank)
      if (words[rank]) outcomes[static_cast<int>(rank)] = decode(*words[rank]);
    for (const auto& [rank, other] : outcomes)
      if (status == 0) status = other.status;
    // Ranks on other machines cannot write to the launcher's file.
    for (const auto& [rank, other] : outcomes)
      if (reported && rank != world->rank()) reported = leave_report(rank, other);
    if (!reported) print(outcomes, world->size());
  }
  world->release();
  return status;
}

}  // namespace cleave::cli
