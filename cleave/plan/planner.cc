#include "cleave/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "cleave/core/error.h"
#include "cleave/core/parallel.h"
#include "cleave/core/units.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/axis_parts.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/choice_schedule.h"
#include "cleave/plan/extract.h"
#include "cleave/plan/lazy_solver.h"
#include "cleave/plan/schedule_rounds.h"
#include "cleave/plan/tables.h"

namespace cleave::plan {
namespace {

// Of the weight of branches, to each that is not taken to be the dearest: so little that it does
// not sway the others, and enough that all of them are planned well.
constexpr double kShare = 1e-3;

// Up to this many decisions, every layer for itself costs next to nothing.
constexpr size_t kApartAnyway = 2000;

class Planning {
 public:
  Planning(const PlannedModule& module, const PlannerOptions& options,
           const std::vector<AxisList>& parts)
      : module_(module),
        options_(options),
        layouts_(options.mesh, *options.profile, {options.every_layout, parts}),
        book_(module.flat, layouts_),
        formulation_(module.flat, module.names, layouts_, book_,
                     {module.entry, options.pins, options.ignored, options.threads, options.trips,
                      options.even_borders}) {
    stats().ops = formulation_.ops.size();
    stats().different_ops = book_.size();
    stats().decisions = formulation_.decisions.size();
    stats().formulate_seconds = clock_.seconds();
  }

  PlannerResult run() {
    if (!formulation_.groups.empty()) {
      // Until something is known: the branches that are dearest on whole tensors.
      heavy_ = formulation_.dearest_branches(std::vector<int>(formulation_.decisions.size(), 0),
                                             layouts_);
      formulation_.weigh(heavy_, kShare);
    }
    make_tables(tie_alike(formulation_), {});
    const std::vector<int64_t> least = tables_->least_memory();
    const auto at = std::max_element(least.begin(), least.end());
    result_.least_memory = *at;
    result_.least_memory_at = place_of(least, at);
    if (options_.memory && *at > *options_.memory)
      solution_.proven = true;
    else if (formulation_.groups.empty())
      solve();
    else
      solve_with_branches();
    if (solution_.feasible) {
      schedules_.emplace(module_.flat, module_.entry, formulation_, layouts_, options_.trips);
      best_ = {choice_, schedules_->lay_out(choice_), solution_.gap(), true};
      if (shortens() && best_.schedule.communication() > 0) {
        ScheduleRounds rounds(formulation_, *tables_, *schedules_, options_, clock_, stats());
        stream_bound_ = rounds.shorten(best_, times_, rounding_slack());
      }
      result_.plan = plan();
    } else {
      say_why_not();
    }
    result_.proven = solution_.proven;
    stats().total_seconds = clock_.seconds();
    return std::move(result_);
  }

 private:
  PlannerStats& stats() { return result_.stats; }

  void make_tables(Classes classes, const std::function<bool()>& stop) {
    const Stopwatch watch;
    auto tables = std::make_unique<Tables>(formulation_, layouts_, std::move(classes),
                                           TableOptions{options_.threads, stop});
    stats().classes = tables->classes().count;
    stats().strategies = tables->num_strategies();
    stats().edges = tables->num_edges();
    stats().table_seconds += watch.seconds();
    trace(
        fmt::format("{} ops ({} different), {} decisions in {} classes, {} strategies, {} edges; "
                    "{:.2f} s to formulate, {:.2f} s for tables",
                    stats().ops, stats().different_ops, stats().decisions, stats().classes,
                    stats().strategies, stats().edges, stats().formulate_seconds, watch.seconds()));
    if (tables->is_complete()) {
      tables_ = std::move(tables);
      return;
    }
    // The clock came first: what is known of layers that are alike, with what little bounds others.
    trace("the clock ended the pricing");
    solution_.proven = false;
    solution_.effort_cut = true;
    solution_.lower_bound = static_cast<solver::Int128>(tables->weak_bound() / kCostUnit);
    is_cut_ = true;
  }

  bool goes_apart() const {
    return options_.apart || formulation_.decisions.size() <= kApartAnyway;
  }

  // Layers that are alike, if they go apart afterwards: a solution to begin with, and most of
  // the time is left.
  PlannerOptions briefly() const {
    constexpr double kOfTime = 0.2, kSmall = 0.05, kLarge = 0.15;
    PlannerOptions brief = options_;
    brief.time_limit =
        std::min(options_.time_limit, clock_.seconds() + kOfTime * options_.time_limit);
    const bool is_small = formulation_.decisions.size() <= kApartAnyway;
    const std::uint64_t most = solver::default_effort(is_small ? kSmall : kLarge);
    brief.effort = options_.effort ? std::min(options_.effort, most) : most;
    return brief;
  }

  // Limits that are close to each other first plan for one that is a little tighter, the same for
  // all of them: each begins with that plan, so that a larger one has no dearer plan than a smaller
  // one merely for where its search went.
  std::optional<int64_t> rung() const {
    constexpr int kPerOctave = 4;
    if (!options_.memory || options_.solver == PlanSolver::Mip) return std::nullopt;
    const double steps = kPerOctave * std::log2(static_cast<double>(*options_.memory));
    const auto limit = static_cast<int64_t>(std::exp2(std::floor(steps) / kPerOctave));
    if (limit < result_.least_memory) return std::nullopt;
    return std::min(limit, *options_.memory);
  }

  // Choices by decision that are known, within the rung and within the limit; alike in layers that
  // share their choices.
  struct Known {
    std::vector<int> within_rung;
    std::vector<int> within_limit;
  };

  // `apart_follows`: layers that are alike, for something to begin with.
  void solve_tables(bool apart_follows, Known& known) {
    const auto start = [this](const std::vector<int>& choice) {
      std::vector<int> by_class(choice.empty() ? 0 : tables_->classes().count);
      for (size_t d = 0; d < choice.size(); ++d) by_class[tables_->classes().of[d]] = choice[d];
      return by_class;
    };
    std::vector<int> choice, times;
    if (const std::optional<int64_t> first = rung()) {
      const PlannerOptions brief = briefly();
      LazySolver low(*tables_, brief, clock_, stats());
      low.give_up_early();
      if (shortens()) low.work_alone();
      solver::Solution found = low.run(first, start(known.within_rung), choice);
      times = low.times();
      if (found.feasible) {
        known.within_rung = known.within_limit = choice;
        if (apart_follows || (low.is_free() && found.gap() <= options_.gap)) {
          solution_ = std::move(found);
          choice_ = std::move(choice);
          return;
        }
      }
    }
    const PlannerOptions how = apart_follows ? briefly() : options_;
    LazySolver solver(*tables_, how, clock_, stats());
    solver.look_at(times);
    if (shortens() && times.empty()) solver.work_alone();
    solution_ = solver.run(options_.memory, start(known.within_limit), choice);
    times_ = solver.times();
    if (!solution_.feasible) return;
    choice_ = choice;
    known.within_limit = std::move(choice);
  }

  void solve() {
    is_alike_ = tables_->classes().count < static_cast<int>(formulation_.decisions.size());
    const bool apart = goes_apart() && is_alike_;
    Known known;
    // The integer program has no use for a first solution.
    if (!apart || options_.solver != PlanSolver::Mip) solve_tables(apart, known);
    if (!apart) return;
    // Layers apart begin with what is best for all alike, which is found at once.
    make_tables(every_decision_apart(formulation_), [&] { return is_late(); });
    if (is_cut_) return;
    is_alike_ = false;
    solve_tables(false, known);
  }

  // What a step takes is not a sum if it branches. Each solve counts the branches with weights,
  // most of it on those that seem dearest: its bound is one for all, and its solution a candidate.
  // The next solve goes by what is dearest in that solution, until they agree.
  void solve_with_branches() {
    constexpr int kRounds = 6;
    std::set<std::vector<int>> tried;
    std::vector<int> best;
    double best_seconds = 0;
    solver::Int128 bound = 0;
    bool proven = true, cut = false;
    for (int round = 0; round < kRounds; ++round) {
      solve();
      bound = std::max(bound, solution_.lower_bound);
      cut = cut || solution_.effort_cut;
      if (!solution_.feasible) break;
      proven = proven && solution_.proven;
      const std::vector<int> dearest = formulation_.dearest_branches(choice_, layouts_);
      const double now = seconds_of(choice_, dearest);
      if (best.empty() || now < best_seconds) {
        best = choice_;
        best_seconds = now;
      }
      const bool agree = dearest == heavy_;
      tried.insert(heavy_);
      if (is_late() || is_exact_ || is_cut_) break;
      if (agree || tried.contains(dearest)) {
        // Once more, with all the weight on them: the bound is then what they take.
        is_exact_ = true;
        formulation_.weigh(heavy_, 0);
      } else {
        heavy_ = dearest;
        formulation_.weigh(heavy_, kShare);
      }
      make_tables(tie_alike(formulation_), {});
    }
    if (best.empty()) return;
    choice_ = std::move(best);
    formulation_.weigh(formulation_.dearest_branches(choice_, layouts_), 0);
    solution_.feasible = true;
    solution_.lower_bound = bound;
    solution_.effort_cut = cut;
    solution_.proven =
        proven && best_seconds <= static_cast<double>(bound) * kCostUnit + rounding_slack();
  }

  double seconds_of(const std::vector<int>& choice, const std::vector<int>& dearest) {
    std::vector<std::vector<double>> weights;
    for (const BranchGroup& group : formulation_.groups) weights.push_back(group.weights);
    formulation_.weigh(dearest, 0);
    const double seconds =
        extract({module_.flat, module_.names, formulation_, layouts_, choice}).totals.seconds;
    for (size_t g = 0; g < weights.size(); ++g) formulation_.groups[g].weights = weights[g];
    return seconds;
  }

  // Whether plans are chosen by their schedules.
  bool shortens() const {
    return options_.overlap && options_.profile->executor.overlaps &&
           options_.solver == PlanSolver::Cleave && formulation_.groups.empty();
  }

  bool is_late() const {
    return options_.stop.stop_requested() || clock_.seconds() > options_.time_limit;
  }

  // Rounding to units, and what breaks ties, are a few units for each decision.
  double rounding_slack() const {
    return 4 * kCostUnit * static_cast<double>(formulation_.versions.size());
  }

  Plan plan() {
    Plan plan = extract({module_.flat, module_.names, formulation_, layouts_, best_.choice});
    plan.module = module_.name;
    plan.entry = module_.entry;
    plan.fingerprint = module_.fingerprint;
    plan.machine = options_.machine.empty() ? options_.profile->name : options_.machine;
    plan.bound.solver = options_.solver == PlanSolver::Mip ? "mip" : "cleave";
    plan.trips = options_.trips;
    const double slack = rounding_slack();
    const bool proven = solution_.proven && best_.is_first;
    plan.bound.lower_bound =
        std::min(plan.totals.seconds,
                 std::max(0.0, static_cast<double>(solution_.lower_bound) * kCostUnit - slack));
    if (proven) plan.bound.lower_bound = std::max(0.0, plan.totals.seconds - slack);
    plan.bound.gap = proven ? 0 : 1 - plan.bound.lower_bound / std::max(1e-30, plan.totals.seconds);
    plan.bound.proven = proven;
    plan.bound.alike = is_alike_ && !is_cut_;
    plan.bound.cut = solution_.effort_cut && !solution_.proven;
    plan.memory.limit = options_.memory;
    plan.memory.share = options_.memory_share;
    const std::vector<int64_t> memory = tables_->memory(best_.choice);
    const auto peak = std::max_element(memory.begin(), memory.end());
    plan.memory.peak = *peak;
    plan.memory.peak_at = place_of(memory, peak);
    for (int version : formulation_.argument_versions)
      plan.memory.arguments +=
          layouts_.bytes(formulation_.spec(version, best_.choice), formulation_.type(version));
    add_schedule(plan);
    return plan;
  }

  // What the schedule says. If nothing overlaps, that is what the sum says.
  void add_schedule(Plan& plan) const {
    PlanTotals& totals = plan.totals;
    PlanBound& bound = plan.bound;
    const bool overlaps = options_.profile->executor.overlaps;
    analyze::StreamSchedule own = best_.schedule;
    if (overlaps && !schedules_->is_exact()) {
      // Annotations may have been added to the module since it was named.
      Plan of_this = plan;
      of_this.fingerprint = fingerprint(module_.flat, module_.entry);
      const Program program = partition_planned(bind(of_this, module_.flat), *options_.profile);
      own = analyze::schedule(program, *options_.profile, plan.trips);
    }
    totals.step_seconds = overlaps ? own.seconds : totals.seconds;
    totals.communication_seconds = own.communication();
    totals.exposed_seconds = own.exposed;
    totals.slowed_seconds = own.slowed;
    bound.step_bound = bound.lower_bound;
    bound.step_gap = bound.gap;
    bound.model_gap = overlaps ? best_.model_gap : bound.gap;
    if (!overlaps) return;
    // All computation is on one stream, so that no schedule is shorter than it.
    const double compute = tables_->least_compute(schedules_->compute_shares(0));
    bound.step_bound = std::clamp(std::max(compute, stream_bound_), 0.0, totals.step_seconds);
    bound.step_gap = 1 - bound.step_bound / std::max(1e-30, totals.step_seconds);
  }

  void say_why_not() {
    result_.cut = solution_.effort_cut;
    if (!options_.memory) {
      result_.reason = "no plan was found";
      return;
    }
    result_.reason =
        fmt::format("{} {}; every plan holds at least {} at {}",
                    solution_.proven ? "no plan fits" : "no plan was found that fits",
                    bytes_text(*options_.memory, BytesStyle::Limit),
                    bytes_text(result_.least_memory, BytesStyle::Limit), result_.least_memory_at);
  }

  std::string place_of(const std::vector<int64_t>& memory,
                       std::vector<int64_t>::const_iterator at) const {
    return place_name(formulation_, module_.names, static_cast<int>(at - memory.begin()));
  }

  void trace(const std::string& line) const {
    if (options_.trace) options_.trace(line);
  }

  const Stopwatch clock_;
  const PlannedModule& module_;
  const PlannerOptions& options_;
  Layouts layouts_;
  StrategyBook book_;
  Formulation formulation_;
  std::vector<int> heavy_;  // by group of branches: the one that has most of the weight
  bool is_exact_ = false;   // or all of it
  std::unique_ptr<Tables> tables_;
  solver::Solution solution_;
  std::optional<ChoiceSchedules> schedules_;
  ScheduledChoice best_;
  std::vector<int> times_;   // at which the first solution's memory was looked at
  double stream_bound_ = 0;  // seconds that every schedule takes at least
  std::vector<int> choice_;  // by decision: that of solution_
  bool is_cut_ = false;
  bool is_alike_ = false;  // the solution has one choice for all layers that look alike
  PlannerResult result_;
};

// The cheaper of two plannings of the same module, with a bound for both.
PlannerResult cheaper(PlannerResult a, PlannerResult b) {
  if (!a.plan || (b.plan && b.plan->totals.step_seconds < a.plan->totals.step_seconds))
    std::swap(a, b);
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
  bound.alike = bound.alike || b.plan->bound.alike;
  if (!bound.proven) bound.gap = 1 - bound.lower_bound / std::max(1e-30, a.plan->totals.seconds);
  bound.step_bound = std::min(bound.step_bound, b.plan->bound.step_bound);
  bound.step_gap = 1 - bound.step_bound / std::max(1e-30, a.plan->totals.step_seconds);
  return a;
}

}  // namespace

PlannedModule prepare(const Graph& graph, const std::string& entry, const MachineProfile& profile) {
  PlannedModule module{graph.name, entry, flatten(graph, entry, profile), {}, {}};
  run_parallel(2, 2, [&](int task) {
    if (task == 0)
      module.names = name_everything(module.flat, entry);
    else
      module.fingerprint = fingerprint(module.flat, entry);
  });
  return module;
}

PlannerResult make_plan(const PlannedModule& module, const PlannerOptions& options) {
  internal_check(options.mesh && options.profile, "make_plan without a mesh or a machine");
  PlannerResult whole = Planning(module, options, {}).run();
  if (!options.sub_axes) return whole;
  const std::vector<AxisList> parts = axis_parts(module.flat, *options.mesh);
  if (parts.empty()) return whole;
  // Reshards by parts are those of a quicker search, so that whole axes alone may still be better.
  return cheaper(std::move(whole), Planning(module, options, parts).run());
}

PlannerResult make_plan(const Graph& graph, const PlannerOptions& options) {
  const Stopwatch watch;
  internal_check(options.profile, "make_plan without a machine");
  const PlannedModule module = prepare(graph, options.entry, *options.profile);
  const double preparing = watch.seconds();
  PlannerResult result = make_plan(module, options);
  result.stats.formulate_seconds += preparing;
  result.stats.total_seconds += preparing;
  return result;
}

}  // namespace cleave::plan
