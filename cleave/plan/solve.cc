#include "cleave/plan/solve.h"

#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/plan/solver/anytime.h"
#include "cleave/plan/solver/branch.h"
#include "cleave/plan/solver/model.h"
#include "cleave/plan/solver/reduction.h"

namespace cleave::plan {
namespace {

using namespace solver;

constexpr double kUnit = 1e6;             // elementary operations in a unit of effort
constexpr double kExactEntries = 3e5;     // models up to this size go to branch and bound
constexpr double kUnitsPerSecond = 4000;  // of two workers on two present-day cores

class Solve {
 public:
  Solve(const Problem& problem, const SolveOptions& options)
      : problem_(problem),
        options_(options),
        budget_(effort(options) * kUnit, options.time_limit, options.stop) {}

  Solution run() {
    Reduction reduction(problem_);
    reduction.run();
    budget_.spend(reduction.work());
    report("reduce", false, 0, 0);
    if (reduction.infeasible()) {
      result_.proven = true;
      result_.reason = reduction.reason();
      return finish();
    }
    const Model model = build_model(reduction, program_order(problem_));
    if (model.n == 0) {
      take(reduction, model, {});
      result_.lower_bound = result_.cost;
      result_.reason = "reduction";
      return finish();
    }
    AnytimeOptions anytime{options_.seed, options_.threads, options_.workers, 0, {}};
    anytime.observe = [&](const char* phase, const Findings& findings) {
      report(phase, findings.incumbent.found(), findings.incumbent.cost, findings.bound);
    };
    const bool small = options_.exact && model.entries < kExactEntries;
    if (small) anytime.patience = 3;
    const Findings findings = run_anytime(model, anytime, budget_);
    result_.lower_bound = unshift(findings.bound, reduction);
    if (findings.incumbent.found()) take(reduction, model, findings.incumbent.x);
    if (small && !budget_.done()) finish_exactly(reduction, model, findings);
    return finish();
  }

 private:
  // Branch and bound for what the bound left open.
  void finish_exactly(const Reduction& reduction, const Model& model, const Findings& findings) {
    const double upper = findings.incumbent.found() ? findings.incumbent.cost : kBig;
    if (findings.bound > upper - 1 + 1e-6) return;
    std::vector<int> kept;
    const Reduction root = reduction.compact(kept);
    const std::vector<std::int64_t> whole_order = program_order(problem_);
    std::vector<std::int64_t> order;
    for (int i : kept) order.push_back(whole_order[i]);
    std::vector<double> prices;
    for (int t = 0; t < model.times; ++t) {
      prices.resize(model.time_name[t] + 1, 0);
      prices.back() = findings.prices[t];
    }
    BranchOptions branch{options_.seed, options_.threads, options_.workers, {}};
    branch.observe = [&](double bound, double cost) {
      report("finish", cost < kBig, cost, std::max(bound, findings.bound));
    };
    const BranchOutcome outcome = branch_and_bound(root, order, prices, upper, branch, budget_);
    if (!outcome.picked.empty()) {
      std::vector<int> picked(reduction.nodes().size(), 0);
      for (std::size_t i = 0; i < kept.size(); ++i) picked[kept[i]] = outcome.picked[i];
      take_choice(reduction.expand(picked));
    }
    if (outcome.complete) {
      if (result_.feasible && reduction.cost_shift() == 0) result_.lower_bound = result_.cost;
      if (!result_.feasible) result_.proven = true;
      result_.reason = fmt::format("branch and bound, {} nodes", outcome.nodes);
    } else {
      result_.lower_bound = std::max(result_.lower_bound, unshift(outcome.bound, reduction));
    }
  }

  static double effort(const SolveOptions& options) {
    return static_cast<double>(options.effort ? options.effort
                                              : default_effort(options.time_limit));
  }

  static Int128 unshift(double bound, const Reduction& reduction) {
    return static_cast<Int128>(std::ceil(std::max(0.0, bound) - 1e-6)) << reduction.cost_shift();
  }

  void take(const Reduction& reduction, const Model& model, const std::vector<int>& x) {
    take_choice(reduction.expand(to_reduced(reduction, model, x)));
  }

  void take_choice(std::vector<int> choice) {
    const Evaluation evaluation = evaluate(problem_, choice);
    internal_check(evaluation.feasible(), "solve: a solution of the reduced problem does not hold");
    result_.feasible = true;
    result_.cost = evaluation.cost;
    result_.choice = std::move(choice);
  }

  Solution finish() {
    if (result_.feasible) {
      result_.lower_bound = std::min(result_.lower_bound, result_.cost);
      result_.proven = result_.lower_bound == result_.cost;
    }
    result_.effort_cut = budget_.cut() && !result_.proven;
    result_.seconds = budget_.seconds();
    result_.work = static_cast<std::uint64_t>(budget_.spent() / kUnit);
    return std::move(result_);
  }

  void report(const char* phase, bool feasible, double cost, double bound) {
    if (!options_.observer) return;
    Progress progress;
    progress.phase = phase;
    progress.seconds = budget_.seconds();
    progress.work = budget_.spent() / budget_.total();
    progress.feasible = feasible;
    progress.cost = feasible ? static_cast<Int128>(std::llround(cost)) : 0;
    progress.lower_bound = static_cast<Int128>(std::max(0.0, bound));
    options_.observer(progress);
  }

  const Problem& problem_;
  const SolveOptions& options_;
  Budget budget_;
  Solution result_;
};

}  // namespace

std::uint64_t default_effort(double seconds) {
  return static_cast<std::uint64_t>(std::clamp(0.9 * seconds * kUnitsPerSecond, 1.0, 1e15));
}

double Solution::gap() const {
  if (!feasible) return proven ? 0 : 1;
  if (cost <= lower_bound) return 0;
  return static_cast<double>(cost - lower_bound) / static_cast<double>(cost);
}

Solution solve(const Problem& problem, const SolveOptions& options) {
  validate(problem);
  if (!(options.time_limit > 0))
    throw_user("solve: the time limit is {} s; it must be positive", options.time_limit);
  return Solve(problem, options).run();
}

}  // namespace cleave::plan
