// Solves instances and compares cost and bound with figures from outside, in one run.
//
//   bench_solve --time 60 --against figures.json a.json.gz b.json.gz
//
// figures.json maps the file name up to the first dot (or its last part after '-') to what others
// reached: {"A": {"contest": 6548641531, "prototype": 6548726186, "bound": 6548553650}}. A ratio
// below 1 means that we are cheaper. `--variants` also solves each instance with its nodes
// renumbered, its limit scaled and strategies dropped; `--write FOLDER` writes these problems there
// for other solvers instead. `--effort N` with a generous `--time` compares at equal work on a busy
// machine.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.h"
#include "cleave/solve/solve.h"

namespace {

using cleave::solver::Problem;
using cleave::solver::Solution;
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

// Forbids one strategy in twenty, but none of a known solution, which stays feasible.
Problem with_fewer(Problem problem, std::uint64_t seed, const std::vector<int>& choice) {
  std::mt19937_64 random(seed);
  for (std::size_t i = 0; i < choice.size(); ++i) {
    std::vector<std::int64_t>& costs = problem.nodes[i].costs;
    for (std::size_t s = 0; s < costs.size(); ++s) {
      const bool drop = random() % 20 == 0;
      if (drop && static_cast<int>(s) != choice[i]) costs[s] = cleave::solver::kForbidden;
    }
  }
  return problem;
}

struct Settings {
  double seconds = 60;
  std::uint64_t effort = 0;
  std::uint64_t seed = 0;
  int threads = 2;
  bool variants = false;
  std::string write;  // a folder for the problems, instead of solving them
  Figures figures;
};

std::vector<std::pair<std::string, Problem>> variants_of(const std::string& name,
                                                         const Problem& problem,
                                                         const std::vector<int>& choice) {
  std::vector<std::pair<std::string, Problem>> result;
  result.emplace_back(name + "/renumbered", renumbered(problem, 1));
  for (double factor : {0.95, 1.1, 1.3}) {
    result.emplace_back(fmt::format("{}/limit*{}", name, factor), with_limit(problem, factor));
  }
  if (!choice.empty()) result.emplace_back(name + "/fewer", with_fewer(problem, 1, choice));
  return result;
}

// `loading`: seconds of the time limit that reading the file took.
Solution solve_and_print(const std::string& label, const Problem& problem, double loading,
                         const Settings& settings, const std::map<std::string, double>& known) {
  cleave::solver::SolveOptions options;
  options.time_limit = std::max(0.05, settings.seconds - loading);
  options.effort =
      settings.effort ? settings.effort : cleave::solver::default_effort(settings.seconds);
  options.seed = settings.seed;
  options.threads = settings.threads;
  const Solution s = cleave::solver::solve(problem, options);
  std::string ratios;
  for (const auto& [who, value] : known) {
    if (s.feasible)
      ratios += fmt::format("  vs {} {:.6f}", who, static_cast<double>(s.cost) / value);
  }
  fmt::print(
      "{:16} {:>16} bound {:>16} gap {:7.4f}% {:6.1f} s{}{}{}\n", label,
      s.feasible ? cleave::solver::to_string(s.cost) : (s.proven ? "infeasible" : "none found"),
      cleave::solver::to_string(s.lower_bound), 100 * s.gap(), loading + s.seconds,
      s.proven ? " proven" : "", s.effort_cut ? " cut" : "", ratios);
  std::fflush(stdout);
  return s;
}

void write(std::string label, const Problem& problem, const std::string& folder) {
  std::replace(label.begin(), label.end(), '/', '_');
  std::replace(label.begin(), label.end(), '*', '_');
  cleave::solver::write_problem(problem, folder + "/" + label + ".json");
}

void run(const std::string& path, const Settings& settings) {
  const std::string name = short_name(path);
  const auto start = std::chrono::steady_clock::now();
  const Problem problem = cleave::solver::read_problem(path);
  const double loading =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const auto known = settings.figures.find(name);
  Solution solution;
  if (settings.write.empty()) {
    solution = solve_and_print(
        name, problem, loading, settings,
        known == settings.figures.end() ? std::map<std::string, double>{} : known->second);
  } else {
    solution = cleave::solver::solve(problem, {.effort = 3000, .time_limit = settings.seconds});
  }
  if (!settings.variants) return;
  for (const auto& [label, variant] : variants_of(name, problem, solution.choice)) {
    if (settings.write.empty()) {
      solve_and_print(label, variant, loading, settings, {});
    } else {
      write(label, variant, settings.write);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  std::vector<std::string> paths;
  try {
    for (int i = 1; i < argc; ++i) {
      const std::string argument = argv[i];
      if (argument == "--variants") {
        settings.variants = true;
      } else if (argument.starts_with("--") && i + 1 < argc) {
        const std::string value = argv[++i];
        if (argument == "--time") settings.seconds = std::atof(value.c_str());
        if (argument == "--effort") settings.effort = std::strtoull(value.c_str(), nullptr, 10);
        if (argument == "--seed") settings.seed = std::strtoull(value.c_str(), nullptr, 10);
        if (argument == "--threads") settings.threads = std::atoi(value.c_str());
        if (argument == "--against") settings.figures = read_figures(value);
        if (argument == "--write") {
          settings.write = value;
          settings.variants = true;
        }
      } else {
        paths.push_back(argument);
      }
    }
    for (const std::string& path : paths) run(path, settings);
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
  return 0;
}
