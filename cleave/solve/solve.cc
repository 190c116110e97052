#include "cleave/solve/solve.h"

#include <algorithm>
#include <cmath>

#include "cleave/core/error.h"
#include "cleave/solve/anytime.h"
#include "cleave/solve/branch.h"
#include "cleave/solve/elimination.h"
#include "cleave/solve/infeasible.h"
#include "cleave/solve/large_costs.h"
#include "cleave/solve/messages.h"
#include "cleave/solve/model.h"
#include "cleave/solve/reduction.h"

namespace cleave::solver {
namespace {

constexpr double kUnit = 1e6;          // elementary operations in a unit of effort
constexpr double kReduceShare = 0.5;   // of the time, that the reduction may take
constexpr double kExactEntries = 3e5;  // models up to this size go to branch and bound
// Single searches settle where they happen to begin: several start apart until this much of the
// effort is spent, unless the gap is small already.
constexpr int kFirstLineages = 8;  // beside the dual
constexpr int kLineages = 6;       // after it
constexpr int kLarge = 1000;       // nodes of models on which that pays
constexpr double kApartUntil = 0.75;
constexpr double kNearlyClosed = 1e-4;  // a gap at which thinning is likely to close the rest
constexpr double kApartGap = 0.003;
constexpr double kUnitsPerSecond = 2200;  // of two workers on two present-day cores
constexpr int kTurns = 12;                // of thinning and bounding, at most
constexpr double kPause = 0.02;           // a gap that makes a first thinning worth while
constexpr double kWidth = 21;             // of the tables of an elimination that settles everything

class Solve {
 public:
  Solve(const Problem& problem, const SolveOptions& options)
      : problem_(problem),
        options_(options),
        budget_(first_effort(options) * kUnit, options.time_limit, options.stop) {}

  Solution run() {
    Reduction reduction(problem_);
    reduction.run([this] { return budget_.expired(kReduceShare); });
    budget_.spend(reduction.work());
    report("reduce", kBig, 0);
    if (reduction.infeasible()) {
      result_.proven = true;
      result_.reason = why_infeasible(problem_);
      if (result_.reason.empty()) result_.reason = reduction.reason();
      return finish();
    }
    if (!options_.start.empty() && evaluate(problem_, options_.start).feasible())
      take_choice(options_.start);
    if (budget_.expired() && result_.feasible) {
      result_.lower_bound = reduction.weak_bound();
      budget_.done();
      return finish();
    }
    order_ = program_order(problem_);
    Model model = build_model(reduction, order_, [this] { return budget_.expired(kReduceShare); });
    if (!is_solved(reduction, model, "reduction", "elimination")) {
      const std::vector<int> x =
          result_.feasible ? from_choice(reduction, model, result_.choice) : std::vector<int>();
      Findings findings = explore(model, true, false, 1, {}, {}, x);
      note(reduction, model, findings);
      while (!work_through_stage(reduction, model, findings) && next_stage()) {
        if (is_small(model)) continue;
        const Findings last = std::move(findings);
        findings = explore(model, true, false, 1, last.prices, last.messages, last.incumbent.x);
        note(reduction, model, findings);
      }
    }
    return finish();
  }

 private:
  // One stage of the effort: thinning and bounding by turns, then searches with thinning in
  // between. True: there is nothing more to do.
  bool work_through_stage(Reduction& reduction, Model& model, Findings& findings) {
    for (int turn = 0; turn < kTurns && !over(); ++turn) {
      const bool paused = findings.dual_paused;
      hurry();
      if (over()) break;
      if (thin_and_bound(reduction, model, findings)) return true;
      if (turn >= 2 && !paused) break;
    }
    for (double until : {kApartUntil, 0.9, 1.0}) {
      if (over()) return false;
      hurry();
      const bool small = is_small(model);
      Findings more = explore(model, false, small, small ? 1 : until, findings.prices, {},
                              findings.incumbent.x, &findings.with);
      findings.incumbent = more.incumbent;
      note(reduction, model, findings);
      if (over()) return false;
      if (small) return finish_exactly(reduction, model, findings);
      if (until < 1 && thin_and_bound(reduction, model, findings)) return true;
    }
    return false;
  }

  // Takes out the strategies that cannot be part of a better solution, and bounds the rest again.
  // Where that is too little to be worth it, a dual that has paused goes on. True: nothing is left.
  bool thin_and_bound(Reduction& reduction, Model& model, Findings& findings) {
    if (findings.incumbent.found() && thin(reduction, model, findings)) {
      Model smaller = build_model(reduction, order_, expired_);
      if (is_solved(reduction, smaller, "reduced costs", "reduced costs and elimination"))
        return true;
      const std::vector<double> prices =
          prices_for(smaller, prices_by_name(model, findings.prices));
      const std::vector<double> messages = carry_over(model, findings.messages, smaller);
      const std::vector<int> x = from_choice(reduction, smaller, result_.choice);
      model = std::move(smaller);
      findings = explore(model, true, false, 1, prices, messages, x);
    } else if (findings.dual_paused) {
      const Findings last = std::move(findings);
      findings = explore(model, true, false, 1, last.prices, last.messages, last.incumbent.x);
    } else {
      return false;
    }
    note(reduction, model, findings);
    return false;
  }

  // Doubles the work that may be spent, if the gap asks for it and the effort allows it.
  bool next_stage() {
    const double whole = effort(options_) * kUnit;
    if (is_good() || is_proven() || budget_.total() >= whole) return false;
    if (options_.go_on && !options_.go_on(result_.feasible ? result_.choice : std::vector<int>()))
      return false;
    budget_.done();
    if (budget_.cut()) return false;
    budget_.allow(std::min(whole, 2 * std::max(budget_.total(), budget_.spent())));
    later_ = true;
    return true;
  }

  // Where the gap is small enough already, the first stage need not be spent to its end.
  void hurry() {
    const double enough = options_.enough * first_effort(options_) * kUnit;
    if (is_good() && !later_ && options_.first_effort && budget_.total() > enough)
      budget_.allow(enough);
  }

  bool is_good() const { return result_.feasible && result_.gap() <= options_.gap; }

  bool is_small(const Model& model) const {
    return options_.exact && model.entries < kExactEntries;
  }

  // Whether nothing is left to decide, or so little that elimination settles it.
  bool is_solved(const Reduction& reduction, const Model& model, const char* by_reduction,
                 const char* by_elimination) {
    std::vector<int> x;
    if (model.n > 0) {
      if (options_.exact) x = eliminate_all(model, kWidth, expired_);
      if (x.empty()) return false;
    }
    take(reduction, model, x);
    settle(reduction, model.n == 0 ? model.constant : model.evaluate(x));
    result_.reason = model.n == 0 ? by_reduction : by_elimination;
    return true;
  }

  // Nothing that is left costs less than `least`, in costs of the reduction: a proof, unless costs
  // there are shifted.
  void settle(const Reduction& reduction, double least) {
    Int128 bound = result_.cost;
    if (reduction.cost_shift() > 0) bound = std::min(bound, unshift(least, reduction));
    result_.lower_bound = std::max(result_.lower_bound, bound);
  }

  bool is_proven() const { return result_.feasible && result_.lower_bound >= result_.cost; }
  bool over() { return budget_.done() || is_proven(); }

  Findings explore(const Model& model, bool dual, bool patient, double until,
                   const std::vector<double>& prices, const std::vector<double>& messages,
                   const std::vector<int>& x, const AlignedVector<double>* with = nullptr) {
    AnytimeOptions anytime;
    anytime.seed = options_.seed + 7919 * explored_++;
    anytime.threads = options_.threads;
    anytime.workers = options_.workers;
    anytime.patience = patient ? 3 : 0;
    anytime.dual_only = dual;
    anytime.search_only = !dual;
    anytime.until = until;
    anytime.with = with;
    const double gap = result_.feasible ? result_.gap() : 1;
    if (model.n > kLarge && gap > kApartGap && until <= kApartUntil) anytime.lineages = kLineages;
    if (model.n > kLarge && explored_ == 1) anytime.lineages = kFirstLineages;
    // Without memory, bounds are quick to come, and the more so the fewer strategies are left.
    if (model.times == 0 && dual) anytime.pause = result_.feasible ? 0.5 * result_.gap() : kPause;
    if (model.times == 0 || later_) anytime.dual_until = 0.75;
    if (later_) anytime.gap = options_.gap;
    if (model.times == 0 && !dual && until <= kApartUntil)
      anytime.gap = std::max(anytime.gap, kNearlyClosed);
    anytime.bound = bound_;
    anytime.prices = prices;
    anytime.messages = messages;
    anytime.x = x;
    anytime.observe = [&](const char* phase, const Findings& findings) {
      report(phase, findings.incumbent.cost, findings.bound);
    };
    return run_anytime(model, anytime, budget_);
  }

  // Keeps the best solution and the best bound.
  void note(const Reduction& reduction, const Model& model, const Findings& findings) {
    if (findings.incumbent.found()) take(reduction, model, findings.incumbent.x);
    bound_ = std::max(bound_, findings.bound);
    Int128 bound = unshift(findings.bound, reduction);
    if (result_.feasible) bound = std::min(bound, result_.cost);
    result_.lower_bound = std::max(result_.lower_bound, bound);
  }

  // Removes the strategies that no solution as good as the best takes; false when that is too
  // little to be worth a new model.
  bool thin(Reduction& reduction, const Model& model, const Findings& findings) {
    if (findings.with.empty()) return false;
    const double most = findings.incumbent.cost + 0.5;
    double left = 0, total = 0;
    std::vector<std::vector<char>> keep(model.n);
    for (int i = 0; i < model.n; ++i) {
      keep[i].assign(model.k[i], 1);
      for (int s = 0; s < model.k[i]; ++s) keep[i][s] = findings.with[model.offset[i] + s] <= most;
      total += model.k[i];
      left += static_cast<double>(std::count(keep[i].begin(), keep[i].end(), 1));
    }
    if (left > 0.9 * total) return false;
    Reduction thinner = reduction;
    for (int i = 0; i < model.n && !thinner.infeasible(); ++i) {
      thinner.restrict(model.root[i], keep[i]);
    }
    thinner.run(expired_);
    budget_.spend(thinner.work() - reduction.work());
    if (thinner.infeasible()) return false;
    reduction = std::move(thinner);
    return true;
  }

  // Branch and bound for what the bound left open. True: nothing is left open.
  bool finish_exactly(const Reduction& reduction, const Model& model, const Findings& findings) {
    const double upper = findings.incumbent.found() ? findings.incumbent.cost : kBig;
    std::vector<int> kept;
    const Reduction root = reduction.compact(kept);
    std::vector<std::int64_t> order;
    for (int i : kept) order.push_back(order_[i]);
    BranchOptions branch{options_.seed, options_.threads, options_.workers, {}};
    branch.observe = [&](double bound, double cost) {
      report("finish", cost, std::max(bound, findings.bound));
    };
    const BranchOutcome outcome = branch_and_bound(
        root, order, prices_by_name(model, findings.prices), upper, branch, budget_);
    if (!outcome.picked.empty()) {
      std::vector<int> picked(reduction.nodes().size(), 0);
      for (std::size_t i = 0; i < kept.size(); ++i) picked[kept[i]] = outcome.picked[i];
      take_choice(reduction.expand(picked));
    }
    if (outcome.complete) {
      if (result_.feasible) settle(reduction, outcome.bound);
      if (!result_.feasible) result_.proven = true;
      result_.reason = fmt::format("branch and bound, {} nodes", outcome.nodes);
    } else {
      Int128 bound = unshift(outcome.bound, reduction);
      if (result_.feasible) bound = std::min(bound, result_.cost);
      result_.lower_bound = std::max(result_.lower_bound, bound);
    }
    return outcome.complete;
  }

  static double effort(const SolveOptions& options) {
    return static_cast<double>(options.effort ? options.effort
                                              : default_effort(options.time_limit));
  }

  static double first_effort(const SolveOptions& options) {
    const double whole = effort(options);
    return options.first_effort ? std::min(whole, static_cast<double>(options.first_effort))
                                : whole;
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
    if (result_.feasible && evaluation.cost >= result_.cost) return;
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

  void report(const char* phase, double cost, double bound) {
    if (!options_.observer) return;
    Progress progress;
    const bool feasible = cost < kBig / 4 || result_.feasible;
    if (result_.feasible) cost = std::min(cost, static_cast<double>(result_.cost));
    bound = std::max(bound, static_cast<double>(result_.lower_bound));
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
  double bound_ = 0;    // of the reduced problem
  bool later_ = false;  // beyond the first stage
  const std::function<bool()> expired_ = [this] { return budget_.expired(); };
  std::uint64_t explored_ = 0;  // calls of explore, each with a seed of its own
  std::vector<std::int64_t> order_;
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
  const auto plainly = [](const Problem& p, const SolveOptions& o) { return Solve(p, o).run(); };
  if (sum_of_largest(problem) < kMostTotal) return plainly(problem, options);
  return solve_in_steps(problem, options, plainly);
}

}  // namespace cleave::solver
