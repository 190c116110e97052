#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cleave/cli/commands.h"
#include "cleave/cli/files.h"
#include "cleave/cli/interrupt.h"
#include "cleave/core/error.h"
#include "cleave/core/output_file.h"
#include "cleave/solve/solve.h"

namespace cleave::cli {
namespace {

struct SolveArguments {
  std::string instance;
  std::string solution;
  double time = 60;
  std::uint64_t effort = 0;
  std::uint64_t seed = 0;
  int threads = 2;
  bool quiet = false;
};

// A line on stderr when the solution or the bound moved, at most four a second.
class ProgressPrinter {
 public:
  void operator()(const solver::Progress& p) {
    const bool news =
        p.phase != last_.phase || p.cost != last_.cost || p.lower_bound != last_.lower_bound;
    if (!news || (p.phase == last_.phase && p.seconds < last_.seconds + 0.25)) return;
    last_ = p;
    fmt::print(stderr, "[{:7.2f}s {:3.0f}%] {:6} cost {} bound {}\n", p.seconds, 100 * p.work,
               p.phase, p.feasible ? solver::to_string(p.cost) : "-",
               solver::to_string(p.lower_bound));
  }

 private:
  solver::Progress last_;
};

void write_choice(const std::vector<int>& choice, const std::string& path) {
  write_file(path, fmt::format("[{}]\n", fmt::join(choice, ", ")));
}

// Numbers beyond 64 bits have no place in nlohmann's values, so the line is written by hand.
std::string result_line(const solver::Solution& s, double seconds) {
  return fmt::format(
      "{{\"cost\": {}, \"lower_bound\": {}, \"gap\": {:.6g}, \"seconds\": {:.2f}, \"feasible\": "
      "{}, "
      "\"proven\": {}, \"effort_cut\": {}, \"work\": {}, \"status\": \"{}\", \"reason\": {}}}",
      s.feasible ? solver::to_string(s.cost) : "null", solver::to_string(s.lower_bound), s.gap(),
      seconds, s.feasible, s.proven, s.effort_cut, s.work,
      s.feasible ? (s.proven ? "optimal" : "feasible") : (s.proven ? "infeasible" : "none found"),
      nlohmann::json(s.reason).dump());
}

void run(const SolveArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  if (!(arguments.time > 0))
    throw_user("--time {}: a positive number of seconds is needed", arguments.time);
  if (arguments.threads < 1) throw_user("--threads {}: at least 1 is needed", arguments.threads);
  if (!arguments.solution.empty()) check_writable(arguments.solution);
  const solver::Problem problem = solver::read_problem(arguments.instance);
  solver::SolveOptions options;
  options.effort = arguments.effort ? arguments.effort : solver::default_effort(arguments.time);
  options.seed = arguments.seed;
  options.threads = arguments.threads;
  options.time_limit = std::max(0.05, arguments.time - elapsed() - 0.1);
  if (!arguments.quiet) options.observer = ProgressPrinter();
  const Interrupt interrupt;
  options.stop = interrupt.token();
  const solver::Solution solution = solver::solve(problem, options);
  if (!arguments.solution.empty() && solution.feasible)
    write_choice(solution.choice, arguments.solution);
  fmt::print("{}\n", result_line(solution, elapsed()));
}

}  // namespace

void add_solve_command(CLI::App& app) {
  auto arguments = std::make_shared<SolveArguments>();
  CLI::App* command = app.add_subcommand(
      "solve", "Solve a plain planning problem (IOPDDL JSON, plain or .gz); prints one JSON line");
  command->add_option("instance", arguments->instance, "The problem")->required();
  command->add_option("--time", arguments->time, "Seconds at most, loading included")
      ->capture_default_str();
  command->add_option("--effort", arguments->effort, "Work units at most (0: as suits --time)");
  command->add_option("--seed", arguments->seed, "Seed of the search")->capture_default_str();
  command
      ->add_option("--threads", arguments->threads, "Threads; the result does not depend on them")
      ->capture_default_str();
  command->add_option("--solution", arguments->solution, "Where the list of strategy indices goes");
  command->add_flag("--quiet", arguments->quiet, "No progress on stderr");
  command->callback([arguments] { run(*arguments); });
}

}  // namespace cleave::cli
