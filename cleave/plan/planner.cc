#include "cleave/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cleave/core/error.h"
#include "cleave/plan/axis_parts.h"
#include "cleave/plan/extract.h"
#include "cleave/plan/mip.h"
#include "cleave/plan/tables.h"

namespace cleave::plan {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

std::string size_text(int64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{} bytes", bytes);
  if (bytes < 1 << 30) return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

// What a first try may take, in seconds of two present-day cores.
constexpr double kFirstTry = 0.4;

// Solves with the memory rows that matter, found one solution after another.
class LazySolver {
 public:
  LazySolver(const Tables& tables, const PlannerOptions& options, PlannerStats& stats)
      : tables_(tables), options_(options), stats_(stats) {}

  // `known`: a choice by class that fits, or none.
  Solution run(std::optional<int64_t> limit, const std::vector<int>& known,
               std::vector<int>& choice) {
    Solution solution;
    for (int round = 0; round < 40; ++round) {
      solution = solve_once(tables_.problem(times_, limit), known);
      if (!solution.feasible) return solution;
      solution.choice.resize(tables_.classes().count);
      choice = tables_.spread(solution.choice);
      if (!limit || !add_times(tables_.memory(choice), *limit)) return solution;
    }
    throw_internal("the planner's memory rows do not settle");
  }

 private:
  // What is known serves where the solver finds nothing as good.
  void take_known(const Problem& problem, const std::vector<int>& known, Solution& solution) const {
    if (known.empty() || solution.proven) return;
    std::vector<int> choice = known;
    choice.resize(problem.nodes.size());
    for (const ProblemEdge& edge : problem.edges)  // nodes that carry memory follow their class
      if (edge.b >= tables_.classes().count) choice[edge.b] = choice[edge.a];
    const Evaluation value = evaluate(problem, choice);
    if (!value.feasible() || (solution.feasible && solution.cost <= value.cost)) return;
    solution.feasible = true;
    solution.choice = std::move(choice);
    solution.cost = value.cost;
    solution.proven = solution.lower_bound >= value.cost;
  }

  Solution solve_once(const Problem& problem, const std::vector<int>& known) {
    const Stopwatch watch;
    Solution solution;
    if (options_.solver == PlanSolver::Mip) {
      solution = solve_mip(problem, {.time_limit = options_.time_limit});
    } else {
      SolveOptions how;
      how.time_limit = std::max(0.1, options_.time_limit - stats_.solve_seconds);
      how.seed = options_.seed;
      how.stop = options_.stop;
      const double whole = how.time_limit;
      for (double seconds = std::min(kFirstTry, whole);; seconds = std::min(seconds * 5, whole)) {
        how.effort = default_effort(seconds);
        how.time_limit = std::max(0.1, whole - watch.seconds());
        solution = solve(problem, how);
        take_known(problem, known, solution);
        const bool good = solution.feasible ? solution.gap() <= options_.gap : solution.proven;
        if (good || seconds >= whole || watch.seconds() >= whole) break;
        if (options_.stop.stop_requested()) break;
      }
    }
    stats_.solve_seconds += watch.seconds();
    ++stats_.solves;
    if (options_.trace)
      options_.trace(fmt::format(
          "solve {}: {} nodes, {} edges, {} times: {} bound {:.6g} s gap {:.3g}% in {:.2f} s",
          stats_.solves, problem.nodes.size(), problem.edges.size(), times_.size(),
          solution.feasible
              ? fmt::format("{:.6g} s", static_cast<double>(solution.cost) * kCostUnit)
              : std::string("none"),
          static_cast<double>(solution.lower_bound) * kCostUnit, 100 * solution.gap(),
          watch.seconds()));
    return solution;
  }

  // The highest time of each stretch above the limit.
  bool add_times(const std::vector<int64_t>& memory, int64_t limit) {
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

  const Tables& tables_;
  const PlannerOptions& options_;
  PlannerStats& stats_;
  std::vector<int> times_;
};

PlannerResult plan_with(const Graph& graph, const PlannerOptions& options,
                        const std::vector<AxisList>& parts) {
  const Stopwatch total;
  PlannerResult result;
  PlannerStats& stats = result.stats;

  const Graph flat = flatten(graph, options.entry);
  const Names names = name_everything(flat, options.entry);
  Layouts layouts(options.mesh, *options.profile, {options.every_layout, parts});
  StrategyBook book(flat, layouts);
  FormulationOptions how{options.entry, options.pins, options.ignored};
  const Formulation formulation(flat, names, layouts, book, how);
  stats.ops = formulation.ops.size();
  stats.different_ops = book.size();
  stats.decisions = formulation.decisions.size();
  stats.formulate_seconds = total.seconds();

  // Layers apart begin with what is best for all alike, which is found at once.
  std::vector<int> known;
  if (options.apart) {
    const Tables alike(formulation, layouts, tie_alike(formulation));
    const Solution solution = LazySolver(alike, options, stats).run(options.memory, {}, known);
    if (!solution.feasible) known.clear();
  }

  const Stopwatch table_watch;
  const Tables tables(formulation, layouts,
                      options.apart ? every_decision_apart(formulation) : tie_alike(formulation));
  stats.classes = tables.classes().count;
  stats.strategies = tables.num_strategies();
  stats.edges = tables.num_edges();
  stats.table_seconds = table_watch.seconds();
  if (options.trace)
    options.trace(fmt::format(
        "{} ops ({} different), {} decisions in {} classes, {} strategies, {} edges; {:.2f} s to "
        "formulate, {:.2f} s for tables",
        stats.ops, stats.different_ops, stats.decisions, stats.classes, stats.strategies,
        stats.edges, stats.formulate_seconds, stats.table_seconds));

  std::vector<int> choice;
  LazySolver solver(tables, options, stats);
  const std::vector<int64_t> least = tables.least_memory();
  const auto at = std::max_element(least.begin(), least.end());
  result.least_memory = *at;
  result.least_memory_at = place_name(formulation, names, static_cast<int>(at - least.begin()));
  Solution solution;
  if (!options.memory || *at <= *options.memory)
    solution = solver.run(options.memory, known, choice);
  else
    solution.proven = true;
  if (!solution.feasible) {
    result.proven = solution.proven;
    result.cut = solution.effort_cut;
    if (options.memory)
      result.reason =
          fmt::format("{} {}; every plan holds at least {} at {}",
                      solution.proven ? "no plan fits" : "no plan was found that fits",
                      size_text(*options.memory), size_text(*at), result.least_memory_at);
    else
      result.reason = "no plan was found";
    stats.total_seconds = total.seconds();
    return result;
  }

  Extraction extraction{flat, names, formulation, layouts, choice};
  Plan plan = extract(extraction);
  plan.module = graph.name;
  plan.entry = options.entry;
  plan.fingerprint = fingerprint(flat, options.entry);
  plan.machine = options.machine.empty() ? options.profile->name : options.machine;
  plan.bound.solver = options.solver == PlanSolver::Mip ? "mip" : "cleave";
  // Rounding to units, and what breaks ties, are a few units for each decision.
  const double slack = 4 * kCostUnit * static_cast<double>(formulation.versions.size());
  plan.bound.lower_bound =
      std::min(plan.totals.seconds,
               std::max(0.0, static_cast<double>(solution.lower_bound) * kCostUnit - slack));
  if (solution.proven) plan.bound.lower_bound = plan.totals.seconds - slack;
  plan.bound.gap =
      solution.proven ? 0 : 1 - plan.bound.lower_bound / std::max(1e-30, plan.totals.seconds);
  plan.bound.proven = solution.proven;
  plan.bound.cut = solution.effort_cut && !solution.proven;
  plan.memory.limit = options.memory;
  const std::vector<int64_t> memory = tables.memory(choice);
  const auto peak = std::max_element(memory.begin(), memory.end());
  plan.memory.peak = *peak;
  plan.memory.peak_at = place_name(formulation, names, static_cast<int>(peak - memory.begin()));
  for (int version : formulation.argument_versions)
    plan.memory.arguments +=
        layouts.bytes(formulation.spec(version, choice), formulation.type(version));
  result.plan = std::move(plan);
  result.proven = solution.proven;
  stats.total_seconds = total.seconds();
  return result;
}

// The cheaper of two plannings of the same module, with a bound for both.
PlannerResult cheaper(PlannerResult a, PlannerResult b) {
  if (!a.plan || (b.plan && b.plan->totals.seconds < a.plan->totals.seconds)) std::swap(a, b);
  for (double PlannerStats::*time : {&PlannerStats::formulate_seconds, &PlannerStats::table_seconds,
                                     &PlannerStats::solve_seconds, &PlannerStats::total_seconds})
    a.stats.*time += b.stats.*time;
  a.stats.solves += b.stats.solves;
  a.proven = a.proven && b.proven;
  a.cut = a.cut || b.cut;
  if (b.least_memory < a.least_memory) {
    a.least_memory = b.least_memory;
    a.least_memory_at = b.least_memory_at;
  }
  if (!a.plan || !b.plan) return a;
  PlanBound& bound = a.plan->bound;
  bound.lower_bound = std::min(bound.lower_bound, b.plan->bound.lower_bound);
  bound.proven = bound.proven && b.plan->bound.proven;
  bound.cut = bound.cut || b.plan->bound.cut;
  if (!bound.proven) bound.gap = 1 - bound.lower_bound / std::max(1e-30, a.plan->totals.seconds);
  return a;
}

}  // namespace

PlannerResult make_plan(const Graph& graph, const PlannerOptions& options) {
  internal_check(options.mesh && options.profile, "make_plan without a mesh or a machine");
  PlannerResult whole = plan_with(graph, options, {});
  if (!options.sub_axes) return whole;
  const std::vector<AxisList> parts = axis_parts(flatten(graph, options.entry), *options.mesh);
  if (parts.empty()) return whole;
  // Reshards by parts are those of a quicker search, so that whole axes alone may still be better.
  return cheaper(std::move(whole), plan_with(graph, options, parts));
}

}  // namespace cleave::plan
