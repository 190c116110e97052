// Solves instances and compares cost and bound with figures from outside, in one run.
//
//   bench_solve --time 60 --against figures.json a.json.gz b.json.gz
//
// figures.json maps the file name up to the first dot (or its last part after '-') to what others
// reached: {"A": {"contest": 6548641531, "prototype": 6548726186, "bound": 6548553650}}. A ratio
// below 1 means that we are cheaper. `--variants` also solves each instance with its nodes
// renumbered, its limit scaled and strategies dropped.
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/plan/solve.h"

namespace {

using cleave::plan::Problem;
using cleave::plan::Solution;
using Figures = std::map<std::string, std::map<std::string, double>>;

std::string short_name(std::string path) {
  path = path.substr(path.find_last_of('/') + 1);
  path = path.substr(0, path.find('.'));
  return path.substr(path.find_last_of('-') + 1);
}

Figures read_figures(const std::string& path) {
  Figures figures;
  std::ifstream file(path);
  if (!file) cleave::throw_user("{}: cannot be opened for reading", path);
  const nlohmann::json all = nlohmann::json::parse(file);
  for (const auto& [name, entries] : all.items()) {
    for (const auto& [who, value] : entries.items()) figures[name][who] = value.get<double>();
  }
  return figures;
}

Problem renumbered(const Problem& problem, std::uint64_t seed) {
  std::vector<int> place(problem.nodes.size());
  std::iota(place.begin(), place.end(), 0);
  std::mt19937_64 random(seed);
  for (std::size_t i = place.size(); i > 1; --i) std::swap(place[i - 1], place[random() % i]);
  Problem result = problem;
  for (std::size_t i = 0; i < place.size(); ++i) result.nodes[place[i]] = problem.nodes[i];
  for (auto& edge : result.edges) {
    edge.a = place[edge.a];
    edge.b = place[edge.b];
  }
  return result;
}

Problem with_limit(Problem problem, double factor) {
  if (problem.usage_limit) {
    problem.usage_limit =
        static_cast<std::int64_t>(static_cast<double>(*problem.usage_limit) * factor);
  }
  return problem;
}

// Forbids one strategy in twenty, but never the last of a node.
Problem with_fewer(Problem problem, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (auto& node : problem.nodes) {
    for (std::size_t s = 1; s < node.costs.size(); ++s) {
      if (random() % 20 == 0) node.costs[s] = cleave::plan::kForbidden;
    }
  }
  return problem;
}

void solve_and_print(const std::string& label, const Problem& problem, double seconds, int threads,
                     const std::map<std::string, double>& known) {
  cleave::plan::SolveOptions options;
  options.time_limit = seconds;
  options.threads = threads;
  const Solution s = cleave::plan::solve(problem, options);
  std::string ratios;
  for (const auto& [who, value] : known) {
    if (s.feasible)
      ratios += fmt::format("  vs {} {:.6f}", who, static_cast<double>(s.cost) / value);
  }
  fmt::print(
      "{:16} {:>16} bound {:>16} gap {:7.4f}% {:6.1f} s{}{}{}\n", label,
      s.feasible ? cleave::plan::to_string(s.cost) : (s.proven ? "infeasible" : "none found"),
      cleave::plan::to_string(s.lower_bound), 100 * s.gap(), s.seconds, s.proven ? " proven" : "",
      s.effort_cut ? " cut" : "", ratios);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  double seconds = 60;
  int threads = 2;
  bool variants = false;
  Figures figures;
  std::vector<std::string> paths;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--variants") {
        variants = true;
      } else if (argument.starts_with("--") && i + 1 < argc) {
        const std::string value = argv[++i];
        if (argument == "--time") seconds = std::atof(value.c_str());
        if (argument == "--threads") threads = std::atoi(value.c_str());
        if (argument == "--against") figures = read_figures(value);
      } else {
        paths.push_back(argument);
      }
    }
    for (const std::string& path : paths) {
      const std::string name = short_name(path);
      const Problem problem = cleave::plan::read_problem(path);
      solve_and_print(name, problem, seconds, threads, figures[name]);
      if (!variants) continue;
      solve_and_print(name + "/renumbered", renumbered(problem, 1), seconds, threads,
                      figures[name]);
      for (double factor : {0.95, 1.1, 1.3}) {
        solve_and_print(fmt::format("{}/limit*{}", name, factor), with_limit(problem, factor),
                        seconds, threads, {});
      }
      solve_and_print(name + "/fewer", with_fewer(problem, 1), seconds, threads, {});
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
