#include "cleave/plan/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "cleave/analyze/kernels.h"
#include "cleave/analyze/program_cost.h"
#include "cleave/analyze/schedule.h"
#include "cleave/analyze/xla_cpu_memory.h"
#include "cleave/core/error.h"
#include "cleave/core/parallel.h"
#include "cleave/core/units.h"
#include "cleave/plan/apply.h"
#include "cleave/plan/axis_parts.h"
#include "cleave/plan/bound_plan.h"
#include "cleave/plan/choice_schedule.h"
#include "cleave/plan/extract.h"
#include "cleave/plan/first_choices.h"
#include "cleave/plan/lazy_solver.h"
#include "cleave/plan/objective.h"
#include "cleave/plan/schedule_rounds.h"
#include "cleave/plan/tables.h"
#include "cleave/spmd/single_program.h"

namespace cleave::plan {
namespace {

// Of the weight of branches, to each that is not taken to be the dearest: so little that it does
// not sway the others, and enough that all of them are planned well.
constexpr double kShare = 1e-3;

// How much of its time counts in a plan for few bytes that does not ask for time.
constexpr double kTies = 1e-6;
// Seconds of two present-day cores, for a first look at the least sum if it is not the end.
constexpr double kFirstEffort = 0.05;

// Up to this many decisions, every layer for itself costs next to nothing.
constexpr size_t kApartAnyway = 2000;

class Planning {
 public:
  Planning(const PlannedModule& module, const PlannerOptions& options,
           const std::vector<AxisList>& parts)
      : module_(module),
        options_(options),
        layouts_(options.mesh, profile_for(*options.profile, options.objective),
                 {options.every_layout, parts}),
        book_(module.flat, layouts_),
        formulation_(module.flat, module.names, layouts_, book_,
                     {module.entry, options.pins, options.ignored, options.threads, options.trips,
                      options.borders}) {
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
      if (!schedules_)
        schedules_.emplace(module_.flat, module_.entry, formulation_, layouts_, options_.trips);
      best_ = {choice_, schedules_->lay_out(choice_, options_.threads), solution_.gap(), true};
      if (rounds_ && best_.schedule.communication() > 0)
        stream_bound_ = rounds_->shorten(best_, times_, rounding_slack());
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
    if (options_.objective == Objective::Bytes) {
      if (known.within_limit.empty() && !leaves_ties_open())
        known.within_limit = choose_by_time_and_bytes();
    } else if (const std::optional<int64_t> first = rung()) {
      const PlannerOptions brief = briefly();
      LazySolver low(*tables_, brief, clock_, stats());
      low.give_up_early();
      if (shortens()) {
        // The least sum is only where searches for a short schedule begin.
        low.work_alone();
        low.begin_with(kFirstEffort);
        low.stop_if_bound();
      }
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
    const TableWeights open = leaves_ties_open() ? time_counts(kTies) : TableWeights{};
    LazySolver solver(*tables_, how, clock_, stats(), leaves_ties_open() ? &open : nullptr);
    solver.look_at(times);
    if (shortens()) {
      solver.begin_with(kFirstEffort);
      if (times.empty()) solver.work_alone();
    }
    solution_ = solver.run(options_.memory, start(known.within_limit), choice);
    times_ = solver.times();
    if (!solution_.feasible) return;
    choice_ = choice;
    known.within_limit = std::move(choice);
  }

  // Plans for few bytes with odd seeds do not even ask for time: of layouts that receive the same,
  // simple ones are taken. Compilers may hold less memory for them.
  bool leaves_ties_open() const {
    return options_.objective == Objective::Bytes && options_.seed % 2 == 1;
  }

  // What the device itself does counts so many times.
  TableWeights time_counts(double times) const {
    return tables_->weigh(
        std::vector<ReshardWeights>(formulation_.demands.size(), {1, times - 1, 0, 0}),
        std::vector<double>(formulation_.ops.size(), times));
  }

  // Few bytes alone leave much open: where something is computed twice, and what is made whole on
  // the way. And the best plans within different limits have little in common: some leave all of an
  // axis to copies. The search for few bytes therefore begins with the best of several choices:
  // with all axes and with all but one, each with links of 100 GB/s and then of 1 GB/s.
  std::vector<int> choose_by_time_and_bytes() {
    const auto axes = static_cast<int>(options_.mesh->axes.size());
    std::vector<int> best;
    for (int without = -1; without < (axes > 1 ? axes : 0); ++without) {
      std::vector<int> known;
      for (const double more : {1e4, 1e2}) {
        const TableWeights weights = time_counts(more);
        const PlannerOptions brief = briefly();
        LazySolver solver(*tables_, brief, clock_, stats(), &weights);
        if (without >= 0) {
          solver.give_up_early();
          solver.look_among(choices_without(without, formulation_, layouts_, tables_->classes()));
        }
        std::vector<int> choice;
        if (!solver.run(options_.memory, known, choice).feasible) break;
        known = tables_->by_class(choice);
        if (best.empty() || tables_->seconds(choice) < tables_->seconds(best)) best = choice;
      }
    }
    return best;
  }

  void solve() {
    is_alike_ = tables_->classes().count < static_cast<int>(formulation_.decisions.size());
    const bool apart = goes_apart() && is_alike_;
    Known known;
    // The integer program has no use for a first solution.
    if (!apart) return solve_and_bound(known);
    if (options_.solver != PlanSolver::Mip) solve_tables(true, known);
    // Layers apart begin with what is best for all alike, which is found at once.
    make_tables(every_decision_apart(formulation_), [&] { return is_late(); });
    if (is_cut_) return;
    is_alike_ = false;
    solve_and_bound(known);
  }

  // Solves that bound schedules do not wait for the choice with the least sum.
  void solve_and_bound(Known& known) {
    run_parallel(2, options_.threads, [&](int task) {
      if (task == 0) return solve_tables(false, known);
      if (!shortens()) return;
      schedules_.emplace(module_.flat, module_.entry, formulation_, layouts_, options_.trips);
      rounds_.emplace(formulation_, *tables_, *schedules_, options_, clock_, stats());
      rounds_->bound_early();
    });
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
    return options_.objective == Objective::Step && options_.profile->executor.overlaps &&
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
    plan.objective = options_.objective;
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
    if (plan.objective == Objective::Bytes)
      add_times(plan);
    else
      add_schedule(plan);
    if (is_xla_cpu(options_.profile->executor)) plan.memory.peak = compiled_bytes(plan);
    return plan;
  }

  // What XLA's compiler for CPUs lays out for the plan.
  int64_t compiled_bytes(const Plan& plan) const {
    return analyze::xla_cpu_memory(single_program(program_of(plan))).total();
  }

  Program program_of(const Plan& plan) const {
    // Annotations may have been added to the module since it was named.
    Plan of_this = plan;
    of_this.fingerprint = fingerprint(module_.flat, module_.entry);
    return partition_planned(bind(of_this, module_.flat), *options_.profile);
  }

  // Of a plan by bytes: what its program takes on the machine itself, and the bound as bytes. What
  // a step takes at most counts for so little that it is subtracted from the bound.
  void add_times(Plan& plan) const {
    PlanTotals& totals = plan.totals;
    PlanBound& bound = plan.bound;
    const double of_time = tables_->most_compute() * kBytesOfSecond;
    const double bytes = totals.received_bytes();
    bound.lower_bound = std::clamp(bound.lower_bound * kBytesOfSecond - of_time, 0.0, bytes);
    const double unit = 1;  // of a byte
    bound.proven = bound.proven || bytes - bound.lower_bound < unit;
    if (bound.proven) bound.lower_bound = bytes;
    bound.gap = bound.proven ? 0 : 1 - bound.lower_bound / bytes;
    const Program program = program_of(plan);
    const analyze::ProgramCost cost = analyze::program_cost(program, *options_.profile, plan.trips);
    const analyze::Schedule laid = analyze::schedule(program, cost, *options_.profile, plan.trips);
    totals.seconds = cost.seconds;
    totals.compute_seconds = cost.seconds - cost.transfer_seconds;
    totals.collectives.clear();
    for (const analyze::CollectiveCostSum& sum : cost.transfers)
      totals.collectives.push_back({sum.kind, sum.axes, sum.executions, sum.bytes, sum.seconds});
    totals.step_seconds = options_.profile->executor.overlaps ? laid.seconds : cost.seconds;
    totals.communication_seconds = laid.communication();
    totals.exposed_seconds = laid.exposed;
    totals.slowed_seconds = laid.slowed;
    bound.step_bound = std::min(tables_->least_compute(), totals.step_seconds);
    bound.step_gap = 1 - bound.step_bound / std::max(1e-30, totals.step_seconds);
    bound.model_gap = bound.gap;
  }

  // What the schedule says. If nothing overlaps, that is what the sum says.
  void add_schedule(Plan& plan) const {
    PlanTotals& totals = plan.totals;
    PlanBound& bound = plan.bound;
    const bool overlaps = options_.profile->executor.overlaps;
    analyze::StreamSchedule own = best_.schedule;
    if (overlaps && !schedules_->is_exact())
      own = analyze::schedule(program_of(plan), *options_.profile, plan.trips);
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
  std::optional<ScheduleRounds> rounds_;  // if plans are chosen by their schedules
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
  if (!a.plan || (b.plan && objective_value(*b.plan) < objective_value(*a.plan))) std::swap(a, b);
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
  if (!bound.proven) bound.gap = 1 - bound.lower_bound / std::max(1e-30, bounded_value(*a.plan));
  bound.step_bound = std::min(bound.step_bound, b.plan->bound.step_bound);
  bound.step_gap = 1 - bound.step_bound / std::max(1e-30, a.plan->totals.step_seconds);
  return a;
}

}  // namespace

PlannedModule prepare(const Graph& graph, const std::string& entry, const MachineProfile& profile) {
  PlannedModule module{graph.name, entry, flatten(graph, entry), {}, {}};
  // Neither names nor the fingerprint see marks.
  std::vector<analyze::KernelUse> kernels;
  run_parallel(2, 2, [&](int task) {
    if (task == 0) {
      kernels = analyze::find_kernels(module.flat, entry, profile);
    } else {
      module.names = name_everything(module.flat, entry);
      module.fingerprint = fingerprint(module.flat, entry);
    }
  });
  analyze::set_kernel_uses(module.flat, entry, kernels);
  return module;
}

namespace {

PlannerResult plan_by_rows(const PlannedModule& module, const PlannerOptions& options) {
  PlannerResult whole = Planning(module, options, {}).run();
  if (!options.sub_axes) return whole;
  const std::vector<AxisList> parts = axis_parts(module.flat, *options.mesh);
  if (parts.empty()) return whole;
  // Reshards by parts are those of a quicker search, so that whole axes alone may still be better.
  return cheaper(std::move(whole), Planning(module, options, parts).run());
}

}  // namespace

PlannerResult make_plan(const PlannedModule& module, const PlannerOptions& options) {
  internal_check(options.mesh && options.profile, "make_plan without a mesh or a machine");
  PlannerResult result = plan_by_rows(module, options);
  if (!options.memory || !is_xla_cpu(options.profile->executor)) return result;
  // The rows of memory are simpler than what the compiler lays out: if that is more than there is,
  // they get less, as much less as it is more.
  constexpr int kTries = 4;
  PlannerOptions tighter = options;
  for (int i = 0; i < kTries && result.plan && result.plan->memory.peak > *options.memory; ++i) {
    const double share =
        static_cast<double>(*options.memory) / static_cast<double>(result.plan->memory.peak);
    tighter.memory = static_cast<int64_t>(0.98 * share * static_cast<double>(*tighter.memory));
    const int64_t held = result.plan->memory.peak;
    result = plan_by_rows(module, tighter);
    if (result.plan) {
      result.plan->memory.limit = options.memory;
      continue;
    }
    result.reason = fmt::format("no plan was found that fits {}; the last one holds {}",
                                bytes_text(*options.memory, BytesStyle::Limit),
                                bytes_text(held, BytesStyle::Limit));
  }
  if (result.plan && result.plan->memory.peak > *options.memory) {
    result.reason = fmt::format("no plan was found that fits {}; the last one holds {}",
                                bytes_text(*options.memory, BytesStyle::Limit),
                                bytes_text(result.plan->memory.peak, BytesStyle::Limit));
    result.plan.reset();
  }
  return result;
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
