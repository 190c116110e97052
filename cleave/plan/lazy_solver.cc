#include "cleave/plan/lazy_solver.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cleave/core/error.h"
#include "cleave/solve/mip.h"

namespace cleave::plan {
namespace {

// Seconds that a solve has in any case, or there would be no plan.
constexpr double kLeast = 0.25;
// Of the first stage, if that is all.
constexpr double kIfBound = 0.4;
// Rounds for more rows beyond the cap.
constexpr int kMostLate = 3;

}  // namespace

solver::Solution LazySolver::run(std::optional<int64_t> limit, const std::vector<int>& known,
                                 std::vector<int>& choice) {
  const std::uint64_t whole =
      options_.effort ? options_.effort : solver::default_effort(options_.time_limit);
  std::vector<int> best = known;
  for (size_t c = 0; kept_ && c < known.size(); ++c) {
    std::vector<int>& kept = (*kept_)[c];
    const auto at = std::lower_bound(kept.begin(), kept.end(), known[c]);
    if (at == kept.end() || *at != known[c]) kept.insert(at, known[c]);
  }
  solver::Int128 bound = 0;  // of any round: those to come have more rows
  int late = 0;
  while (true) {
    solver::Solution solution = solve_once(problem(limit), best, whole, limit);
    bound = std::max(bound, solution.lower_bound);
    const bool is_late = options_.stop.stop_requested() || clock_.seconds() > options_.time_limit;
    const bool is_last =
        is_late || solution.feasible || insists_ || options_.solver == PlanSolver::Mip;
    if (solution.feasible) {
      solution.choice = to_choice(std::move(solution.choice));
      choice = tables_.spread(solution.choice);
      if (limit && add_times(tables_.memory(choice), *limit)) {
        if (late += is_late; late <= kMostLate) continue;
        if (best.empty()) best = smallest(*limit);
        solution = as_solution(problem(limit), best);
        solution.lower_bound = solution.feasible ? std::min(solution.cost, bound) : bound;
        if (solution.feasible) choice = tables_.spread(best);
        return solution;
      }
      solution.lower_bound = std::min(solution.cost, bound);
      best = solution.choice;
    }
    // Before there is nothing: what holds least may fit, and is then where the search begins.
    if (!solution.feasible && !solution.proven && limit && best.empty() &&
        (is_last || stats_.solves > 1) && !options_.stop.stop_requested()) {
      best = smallest(*limit);
      if (!best.empty()) {
        if (!is_late && options_.solver == PlanSolver::Cleave) continue;
        solution = as_solution(problem(limit), best);
        solution.lower_bound = std::min(solution.cost, bound);
        choice = tables_.spread(best);
        return solution;
      }
    }
    if (solution.proven || is_last) return solution;
    insists_ = true;
  }
}

solver::Problem LazySolver::problem(std::optional<int64_t> limit) const {
  return tables_.problem(times_, limit, weights_, kept_ ? &*kept_ : nullptr);
}

std::vector<int> LazySolver::to_strategies(std::vector<int> choice) const {
  for (size_t c = 0; kept_ && c < choice.size(); ++c) {
    const std::vector<int>& kept = (*kept_)[c];
    const auto at = std::lower_bound(kept.begin(), kept.end(), choice[c]);
    internal_check(at != kept.end() && *at == choice[c], "a known choice is not among the kept");
    choice[c] = static_cast<int>(at - kept.begin());
  }
  return choice;
}

std::vector<int> LazySolver::to_choice(std::vector<int> strategies) const {
  strategies.resize(tables_.classes().count);
  for (size_t c = 0; kept_ && c < strategies.size(); ++c)
    strategies[c] = (*kept_)[c][strategies[c]];
  return strategies;
}

std::vector<int> LazySolver::smallest(int64_t limit) {
  constexpr int kRounds = 12;
  constexpr double kScale = 1e6;  // units of a limit that is full
  if (tried_smallest_ || kept_) return {};
  tried_smallest_ = true;
  std::map<int, double> weight;  // by time
  for (int round = 0; round < kRounds; ++round) {
    for (int time : times_) weight.try_emplace(time, 1.0);
    solver::Problem problem = tables_.problem(times_, limit);
    std::vector<int> sorted = times_;
    std::sort(sorted.begin(), sorted.end());
    for (solver::ProblemNode& node : problem.nodes) {
      double share = 0;
      for (int64_t t = node.live.lo; t < node.live.hi; ++t) share += weight[sorted[t]];
      for (size_t k = 0; k < node.costs.size(); ++k)
        if (node.costs[k] < solver::kForbidden)
          node.costs[k] =
              static_cast<int64_t>(kScale * share * static_cast<double>(node.usages[k]) /
                                   static_cast<double>(std::max<int64_t>(1, limit)));
      std::fill(node.usages.begin(), node.usages.end(), 0);
      node.live = {};
    }
    for (solver::ProblemEdge& edge : problem.edges)
      for (int64_t& cost : edge.costs)
        if (cost < solver::kForbidden) cost = 0;
    problem.usage_limit.reset();
    solver::SolveOptions how;
    how.effort = solver::default_effort(kFirstStage);
    how.time_limit = 2 * kFirstStage;
    how.seed = options_.seed;
    how.threads = options_.threads;
    how.stop = options_.stop;
    solver::Solution found = solver::solve(problem, how);
    ++stats_.solves;
    if (!found.feasible) return {};
    found.choice.resize(tables_.classes().count);
    const std::vector<int64_t> memory = tables_.memory(tables_.spread(found.choice));
    bool fits = true;
    for (size_t t = 0; t < memory.size(); ++t) {
      if (memory[t] <= limit) continue;
      fits = false;
      if (const auto it = weight.find(static_cast<int>(t)); it != weight.end()) it->second *= 2;
    }
    if (options_.trace)
      options_.trace(fmt::format("the smallest in round {}: {} bytes of {}", round + 1,
                                 *std::max_element(memory.begin(), memory.end()), limit));
    if (fits) return found.choice;
    add_times(memory, limit);
  }
  return {};
}

// What is known, as what the clock left.
solver::Solution LazySolver::as_solution(const solver::Problem& problem,
                                         const std::vector<int>& known) const {
  solver::Solution solution;
  solution.effort_cut = true;
  if (known.empty()) return solution;
  const solver::Evaluation value = solver::evaluate(problem, start(problem, known));
  solution.feasible = value.feasible();
  solution.cost = value.cost;
  return solution;
}

// What is known, by node of the problem; nodes that carry memory follow their classes.
std::vector<int> LazySolver::start(const solver::Problem& problem,
                                   const std::vector<int>& known) const {
  if (known.empty()) return {};
  std::vector<int> choice = to_strategies(known);
  const size_t classes = choice.size();
  choice.resize(problem.nodes.size());
  std::vector<std::vector<bool>> allowed(problem.nodes.size() - classes);
  for (size_t i = 0; i < allowed.size(); ++i)
    allowed[i].assign(problem.nodes[classes + i].costs.size(), true);
  for (const solver::ProblemEdge& edge : problem.edges) {
    if (static_cast<size_t>(edge.b) < classes) continue;
    std::vector<bool>& ways = allowed[edge.b - classes];
    const int64_t* row = &edge.costs[static_cast<size_t>(choice[edge.a]) * ways.size()];
    for (size_t k = 0; k < ways.size(); ++k) ways[k] = ways[k] && row[k] < solver::kForbidden;
  }
  for (size_t i = 0; i < allowed.size(); ++i) {
    const auto found = std::find(allowed[i].begin(), allowed[i].end(), true);
    if (found != allowed[i].end())
      choice[classes + i] = static_cast<int>(found - allowed[i].begin());
  }
  return choice;
}

bool LazySolver::fits(const std::vector<int>& strategies, std::optional<int64_t> limit) const {
  if (!limit) return true;
  const std::vector<int64_t> memory = tables_.memory(tables_.spread(to_choice(strategies)));
  return *std::max_element(memory.begin(), memory.end()) <= *limit;
}

solver::Solution LazySolver::solve_once(const solver::Problem& problem,
                                        const std::vector<int>& known, std::uint64_t effort,
                                        std::optional<int64_t> limit) {
  const Stopwatch watch;
  solver::Solution solution;
  const double left = std::max(kLeast, options_.time_limit - clock_.seconds());
  if (options_.solver == PlanSolver::Mip) {
    solution =
        solver::solve_mip(problem, {.time_limit = left, .lazy_rows = true, .stop = options_.stop});
  } else {
    solver::SolveOptions how;
    how.time_limit = left;
    how.seed = options_.seed;
    how.effort = effort;
    const bool stops_early = stops_if_bound_ && !times_.empty();
    // More is spent only on what fits at all times: otherwise more rows come first.
    how.go_on = [&](const std::vector<int>& choice) {
      if (stops_early) return false;
      return choice.empty() ? insists_ : fits(choice, limit);
    };
    how.first_effort = solver::default_effort(stops_early ? kIfBound * first_stage_ : first_stage_);
    how.gap = stop_gap_.value_or(options_.gap);
    if (stop_gap_) how.enough = 0;
    how.threads = options_.threads;
    how.workers = workers_;
    how.stop = options_.stop;
    how.start = start(problem, known);
    if (options_.trace)
      how.observer = [&](const solver::Progress& now) {
        options_.trace(fmt::format(
            "  {} {:.2f} s, {:.0f}% of the effort: {} bound {:.6g} s", now.phase, now.seconds,
            100 * now.work,
            now.feasible ? fmt::format("{:.6g} s", static_cast<double>(now.cost) * kCostUnit)
                         : "none",
            static_cast<double>(now.lower_bound) * kCostUnit));
      };
    solution = solver::solve(problem, how);
  }
  stats_.solve_seconds += watch.seconds();
  ++stats_.solves;
  if (options_.trace)
    options_.trace(fmt::format(
        "solve {}: {} nodes, {} edges, {} times: {} bound {:.6g} s gap {:.3g}% in {:.2f} s, {} "
        "units of work{}{}",
        stats_.solves, problem.nodes.size(), problem.edges.size(), times_.size(),
        solution.feasible ? fmt::format("{:.6g} s", static_cast<double>(solution.cost) * kCostUnit)
                          : std::string("none"),
        static_cast<double>(solution.lower_bound) * kCostUnit, 100 * solution.gap(),
        watch.seconds(), solution.work, solution.reason.empty() ? "" : ", by ", solution.reason));
  return solution;
}

// The highest time of each stretch above the limit.
bool LazySolver::add_times(const std::vector<int64_t>& memory, int64_t limit) {
  const size_t before = times_.size();
  for (size_t t = 0; t < memory.size();) {
    if (memory[t] <= limit) {
      ++t;
      continue;
    }
    size_t highest = t;
    for (; t < memory.size() && memory[t] > limit; ++t)
      if (memory[t] > memory[highest]) highest = t;
    const int time = static_cast<int>(highest);
    if (std::find(times_.begin(), times_.end(), time) == times_.end()) times_.push_back(time);
  }
  return times_.size() > before;
}

}  // namespace cleave::plan
