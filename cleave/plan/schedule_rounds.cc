#include "cleave/plan/schedule_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "cleave/core/parallel.h"
#include "cleave/solve/rank.h"

namespace cleave::plan {

using analyze::Stream;
using analyze::StreamSchedule;

namespace {

// A choice that is better by less than this, under the sum of the plan, is not looked at.
constexpr double kNear = 0.005;

double busy(const StreamSchedule& laid, Stream stream) {
  return laid.busy[static_cast<size_t>(stream)];
}

}  // namespace

double ScheduleRounds::least_weight() const {
  constexpr double kLeast = 0.1;  // it takes memory, and a place in the order
  const double slowdown = schedules_.options().slowdown;
  return std::max(kLeast, slowdown / (1 + slowdown));
}

std::vector<ScheduleRounds::Line> ScheduleRounds::first_lines(const ScheduledChoice& first) const {
  Line least_sum{first, std::vector<double>(formulation_.demands.size(), 0.0)};
  least_sum.tried = {first.choice};
  Line hidden = least_sum;
  hidden.is_laid = false;
  hidden.critical = schedules_.closeness(first.choice, first.schedule);
  hidden.inside = hidden.across = least_weight();
  return {least_sum, hidden};
}

double ScheduleRounds::next_weight(double weight, const StreamSchedule& laid, Stream stream) const {
  // A stream that is busier than the computation has to become cheaper to choose, and one that is
  // idle half of the time may be used more.
  constexpr double kBusy = 0.9, kMost = 2;
  const double share = busy(laid, stream) / std::max(1e-30, busy(laid, Stream::Compute));
  return std::clamp(weight * std::clamp(share / kBusy, 0.5, 2.0), least_weight(), kMost);
}

TableWeights ScheduleRounds::weigh(const std::vector<double>& critical, double inside,
                                   double across) const {
  std::vector<ReshardWeights> by_demand;
  for (double c : critical) by_demand.push_back({c, 1 - c, inside * (1 - c), across * (1 - c)});
  return tables_.weigh(by_demand);
}

// Of dozens of choices that a decision has, few are ever good. They are found once, by the messages
// of two sums: with communication hidden, and that of the bound. The many solves that follow are
// then small.
void ScheduleRounds::keep_choices(const std::vector<Line>& lines, const ScheduledChoice& first) {
  constexpr int kSweeps = 12, kAll = 18;
  constexpr size_t kBest = 14;
  const TableWeights hidden = weigh(lines[1].critical, lines[1].inside, lines[1].across);
  const BoundSum streams = work_of_streams();
  const TableWeights bound = tables_.weigh(streams.by_demand, streams.by_op);
  const TableWeights* const models[] = {&hidden, &bound};
  std::vector<std::vector<std::vector<float>>> ranks(std::size(models));
  run_parallel(static_cast<int>(ranks.size()), options_.threads, [&](int m) {
    ranks[m] =
        solver::rank_strategies(tables_.problem(times_, options_.memory, models[m]), kSweeps);
  });
  const std::vector<int> own = tables_.by_class(first.choice);
  kept_.assign(own.size(), {});
  size_t left = 0, all = 0;
  for (size_t c = 0; c < own.size(); ++c) {
    const int count = static_cast<int>(ranks[0][c].size());
    std::vector<bool> is_kept(count, count <= kAll);
    is_kept[own[c]] = true;
    std::vector<int> order(count);
    for (const auto& rank : ranks) {
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(),
                       [&](int a, int b) { return rank[c][a] < rank[c][b]; });
      for (size_t i = 0; i < std::min(kBest, order.size()); ++i) is_kept[order[i]] = true;
    }
    for (int k = 0; k < count; ++k)
      if (is_kept[k]) kept_[c].push_back(k);
    left += kept_[c].size();
    all += count;
  }
  are_few_ = 2 * left < all;
}

void ScheduleRounds::run(Solve& solve, std::optional<int64_t> limit, bool everything,
                         std::stop_token stop) const {
  constexpr double kEffort = 0.05, kMost = 0.1, kTight = 0.02;  // seconds of two present-day cores
  // Over all choices, the gap that is asked for: so small that no choice is better by kNear, or for
  // bounds of schedules, which are far below in any case.
  constexpr double kSure = 0.8, kRough = 0.01;
  PlannerOptions how = options_;
  // If memory binds, gaps are seldom closed: what little effort finds is good enough to look at.
  const double first = limit && !times_.empty() && !everything ? kTight : kEffort;
  how.effort = solver::default_effort(everything ? kMost : first);
  if (options_.effort) how.effort = std::min(how.effort, options_.effort);
  how.threads = 1;
  if (stop.stop_possible()) how.stop = std::move(stop);
  if (options_.trace) how.trace = [&](const std::string& text) { solve.said.push_back(text); };
  LazySolver solver(tables_, how, clock_, solve.stats, &solve.weights);
  if (limit) solver.look_at(times_);
  solver.work_alone();
  solver.begin_with(first);
  if (!everything) solver.look_among(kept_);
  if (everything) solver.stop_within(limit ? kSure * kNear : kRough);
  const std::vector<int> known =
      solve.choice.empty() ? std::vector<int>() : tables_.by_class(solve.choice);
  solve.solution = solver.run(limit, known, solve.choice);
}

void ScheduleRounds::note(Solve& solve, bool everything) {
  for (const std::string& text : solve.said) trace(text);
  stats_.solves += solve.stats.solves;
  stats_.solve_seconds += solve.stats.solve_seconds / std::max(1, options_.threads);
  solve.said.clear();
  solve.stats = {};
  if (solve.solution.feasible && everything)
    models_.emplace_back(std::move(solve.weights),
                         static_cast<double>(solve.solution.lower_bound) * kCostUnit);
}

double ScheduleRounds::gap(const std::vector<int>& choice) const {
  double least = 1;
  for (const auto& [weights, bound] : models_)
    least = std::min(least, 1 - bound / std::max(1e-30, tables_.seconds(choice, weights)));
  return std::max(0.0, least);
}

void ScheduleRounds::go_on(Line& line) const {
  if (line.is_laid) {
    // Half of what was assumed before keeps the rounds from going back and forth.
    const std::vector<double> found = schedules_.criticality(line.now.choice, line.now.schedule);
    for (size_t d = 0; d < found.size(); ++d) line.critical[d] = (line.critical[d] + found[d]) / 2;
    line.inside = next_weight(line.inside, line.now.schedule, Stream::Inside);
    line.across = next_weight(line.across, line.now.schedule, Stream::Across);
  }
  line.solve.choice = line.now.choice;
  line.solve.weights = weigh(line.critical, line.inside, line.across);
  run(line.solve, options_.memory, false);
  const bool is_new = line.solve.solution.feasible && line.tried.insert(line.solve.choice).second;
  line.has_ended = !is_new;
  line.now.choice = line.solve.choice;
  line.now.is_first = false;
}

void ScheduleRounds::run_round(std::vector<Line>& lines, int round) {
  std::vector<Line*> open;
  for (Line& line : lines)
    if (!line.has_ended) open.push_back(&line);
  const int count = static_cast<int>(open.size());
  run_parallel(count, options_.threads, [&](int i) { go_on(*open[i]); });
  // Schedules ask for layouts, which solves must not see changing.
  run_parallel(count, options_.threads, [&](int i) {
    if (open[i]->has_ended) return;
    open[i]->now.schedule = schedules_.lay_out(open[i]->now.choice);
    open[i]->is_laid = true;
  });
  for (Line* line : open) {
    note(line->solve, false);
    if (!line->has_ended)
      trace(fmt::format("round {} of search {}: {}", round, line - lines.data() + 1,
                        analyze::to_string(line->now.schedule)));
  }
}

// Choices that differ little from `base`.
std::vector<ScheduledChoice> ScheduleRounds::lay_out(const std::vector<std::vector<int>>& choices,
                                                     const ScheduledChoice& base) {
  std::vector<ScheduledChoice> laid(choices.size());
  const int count = static_cast<int>(laid.size());
  std::vector<int64_t> changes;
  if (options_.memory) changes = tables_.memory_changes(base.choice);
  std::vector<double> known(choices.size(), 0.0);
  for (int i = 0; i < count; ++i)
    if (const auto it = laid_.find(choices[i]); it != laid_.end()) known[i] = it->second;
  run_parallel(count, options_.threads, [&](int i) {
    laid[i].choice = tables_.spread(choices[i]);
    laid[i].is_first = false;
    laid[i].schedule.seconds = known[i];
    if (!options_.memory || known[i] > 0) return;
    if (tables_.peak_beside(laid[i].choice, base.choice, changes) > *options_.memory)
      laid[i].schedule.seconds = std::numeric_limits<double>::infinity();
  });
  run_parallel(count, options_.threads, [&](int i) {
    if (laid[i].schedule.seconds == 0) laid[i].schedule = schedules_.lay_out_ahead(laid[i].choice);
  });
  for (int i = 0; i < count; ++i) laid_.try_emplace(choices[i], laid[i].schedule.seconds);
  return laid;
}

void ScheduleRounds::merge(ScheduledChoice& best, const ScheduledChoice& other) {
  constexpr size_t kMostParts = 10;
  const bool is_other = other.schedule.seconds < best.schedule.seconds;
  const ScheduledChoice base = is_other ? other : best, &donor = is_other ? best : other;
  best = base;
  const std::vector<int> own = tables_.by_class(base.choice), from = tables_.by_class(donor.choice);
  std::vector<std::vector<int>> parts = tables_.differences(own, from);
  if (parts.size() < 2 || is_late()) return;
  if (parts.size() > kMostParts) parts.resize(kMostParts);
  std::vector<std::vector<int>> choices(parts.size(), own);
  for (size_t p = 0; p < parts.size(); ++p)
    for (int c : parts[p]) choices[p][c] = from[c];
  const std::vector<ScheduledChoice> laid = lay_out(choices, base);
  std::vector<int> all = own;
  int good = 0;
  const auto take = [&](const ScheduledChoice& found) {
    if (found.schedule.seconds >= best.schedule.seconds) return;
    best = found;
  };
  for (size_t p = 0; p < parts.size(); ++p) {
    if (laid[p].schedule.seconds >= base.schedule.seconds) continue;
    for (int c : parts[p]) all[c] = from[c];
    ++good;
    take(laid[p]);
  }
  if (good > 1) take(lay_out({all}, base).front());
  if (good == 0) return;
  best.schedule = schedules_.lay_out(best.choice, options_.threads);
  trace(fmt::format("with {} of {} parts of another: {}", good, parts.size(),
                    analyze::to_string(best.schedule)));
}

// With s the slowdown of kernels beside each of n streams: while kernels and n streams run, a
// second does 1 / (1 + n s) of kernels, so that kernels lose at least s / (1 + 2 s) of every second
// of communication (s / (1 + s) if there is one stream); and while nothing is computed, a second of
// each stream takes a whole one. So no step is shorter than its kernels and that share of its
// communication. Collectives count with their shares of those that run as one (ReshardPrice). What
// may be computed aside counts as communication.
ScheduleRounds::BoundSum ScheduleRounds::work_of_streams() const {
  const double slowdown = schedules_.options().slowdown;
  const bool is_one_node = options_.mesh->num_devices() <= options_.profile->devices_per_node;
  const double share = slowdown / (1 + (is_one_node ? 1 : 2) * slowdown);
  BoundSum sum;
  sum.by_op = schedules_.compute_shares(share);
  sum.by_demand.assign(formulation_.demands.size(), {0, 1, share, share});
  for (size_t d = 0; d < sum.by_demand.size() && !sum.by_op.empty(); ++d)
    sum.by_demand[d].local = schedules_.is_early(formulation_.demands[d].version) ? share : 1;
  return sum;
}

// Nor is a step shorter than any of its streams, nor than a mean of those sums.
std::vector<ScheduleRounds::BoundSum> ScheduleRounds::bound_sums(const StreamSchedule& laid) const {
  constexpr double kWeight = 4;  // of the busiest stream, beside the rest
  std::vector<BoundSum> sums{work_of_streams()};
  const bool is_inside = busy(laid, Stream::Inside) > busy(laid, Stream::Across);
  if (busy(laid, is_inside ? Stream::Inside : Stream::Across) <= busy(laid, Stream::Compute))
    return sums;
  BoundSum mean = sums[0];
  for (ReshardWeights& weights : mean.by_demand)
    (is_inside ? weights.inside : weights.across) += kWeight;
  mean.divisor = 1 + kWeight;
  sums.push_back(std::move(mean));
  return sums;
}

void ScheduleRounds::settle(ScheduledChoice& best) {
  constexpr int kRounds = 3;
  constexpr double kLittle = 0.003;
  double inside = least_weight(), across = inside;
  std::vector<double> learned(formulation_.demands.size(), 0.0);  // what counts in full in others
  for (int round = 0; round < kRounds && !is_late(); ++round) {
    std::vector<double> critical = schedules_.criticality(best.choice, best.schedule, false);
    for (size_t d = 0; d < critical.size(); ++d) critical[d] = std::max(critical[d], learned[d]);
    Solve solve{best.choice, weigh(critical, inside, across)};
    run(solve, options_.memory, false);
    const double gain = 1 - tables_.seconds(solve.choice, solve.weights) /
                                tables_.seconds(best.choice, solve.weights);
    note(solve, false);
    if (!solve.solution.feasible || gain < kLittle) return;
    const ScheduledChoice other{solve.choice, schedules_.lay_out(solve.choice, options_.threads), 0,
                                false};
    trace(fmt::format("what is hidden now, {:.2f}% better: {}", 100 * gain,
                      analyze::to_string(other.schedule)));
    const std::vector<double> shares = schedules_.critical_shares(other.schedule);
    for (size_t d = 0; d < shares.size(); ++d) learned[d] = std::max(learned[d], shares[d]);
    inside = next_weight(inside, other.schedule, Stream::Inside);
    across = next_weight(across, other.schedule, Stream::Across);
    const double before = best.schedule.seconds;
    merge(best, other);
    if (best.schedule.seconds >= before) return;
  }
}

TableWeights ScheduleRounds::own_sum(const ScheduledChoice& best,
                                     const std::vector<double>& hides) const {
  const double hidden = least_weight();
  const std::vector<double> on_chain = schedules_.criticality(best.choice, best.schedule, false);
  const std::vector<double> taken = schedules_.scheduled_shares(best.choice, best.schedule);
  std::vector<ReshardWeights> by_demand;
  for (size_t d = 0; d < taken.size(); ++d) {
    const double rest = 1 - on_chain[d];
    by_demand.push_back({taken[d], rest, hidden * rest, hidden * rest});
  }
  return tables_.weigh(by_demand, Likeness{best.choice, hides});
}

void ScheduleRounds::hold(ScheduledChoice& best) {
  constexpr int kRounds = 8;
  std::vector<double> hides(formulation_.demands.size(), 1.0);
  for (int round = 0; round < kRounds && !is_late(); ++round) {
    Solve all{best.choice, own_sum(best, hides)}, few = all;
    const double own = tables_.seconds(best.choice, all.weights);
    const auto gain = [&](const Solve& solve) {
      return solve.solution.feasible ? 1 - tables_.seconds(solve.choice, all.weights) / own : 0;
    };
    // What is found among few choices ends the solve over all of them.
    std::stop_source found;
    const std::stop_callback asked(options_.stop, [&] { found.request_stop(); });
    run_parallel(are_few_ ? 2 : 1, options_.threads, [&](int task) {
      if (are_few_ && task == 0) {
        run(few, options_.memory, false);
        if (gain(few) >= kNear) found.request_stop();
      } else if (!found.stop_requested()) {
        run(all, options_.memory, true, found.get_token());
      }
    });
    const bool is_enough = gain(few) >= kNear;
    const std::vector<int>& choice = is_enough ? few.choice : all.choice;
    const double better = gain(is_enough ? few : all);
    if (are_few_) note(few, false);
    note(all, !is_enough);
    if (better < kNear) return;
    const ScheduledChoice other{choice, schedules_.lay_out(choice, options_.threads), 0, false};
    trace(fmt::format("as the best counts, {:.2f}% better: {}", 100 * better,
                      analyze::to_string(other.schedule)));
    const std::vector<double> shares = schedules_.critical_shares(other.schedule);
    for (size_t d = 0; d < shares.size(); ++d)
      hides[d] = std::min(hides[d], 1 - std::max(0.0, shares[d]));
    merge(best, other);
  }
}

void ScheduleRounds::bound_early() {
  const BoundSum sum = work_of_streams();
  early_ = Solve{{}, tables_.weigh(sum.by_demand, sum.by_op)};
  run(*early_, std::nullopt, true);
}

double ScheduleRounds::finish(ScheduledChoice& best, double slack) {
  if (is_late()) return 0;
  const std::vector<BoundSum> sums = bound_sums(best.schedule);
  std::vector<Solve> solves;
  for (const BoundSum& sum : sums)
    if (&sum == &sums.front() && early_)
      solves.push_back(std::move(*early_));
    else
      solves.push_back({best.choice, tables_.weigh(sum.by_demand, sum.by_op)});
  // Solves without a limit ask for no layouts, so that schedules may be laid out meanwhile.
  run_parallel(2, options_.threads, [&](int task) {
    if (task == 0) {
      settle(best);
      hold(best);
      return;
    }
    for (Solve& solve : solves) {  // a bound for all memory is one for less
      if (!early_ || &solve != &solves.front()) run(solve, std::nullopt, true);
    }
  });
  double bound = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    note(solves[i], true);
    const double seconds = static_cast<double>(solves[i].solution.lower_bound) * kCostUnit;
    bound = std::max(bound, (seconds - slack) / sums[i].divisor);
  }
  trace(fmt::format("no step takes less than {:.6g} s", bound));
  return bound;
}

double ScheduleRounds::shorten(ScheduledChoice& best, const std::vector<int>& times, double slack) {
  constexpr int kRounds = 3;
  times_ = times;
  trace(fmt::format("the least sum takes {}", analyze::to_string(best.schedule)));
  const ScheduledChoice first = best;
  std::vector<Line> lines = first_lines(best);
  keep_choices(lines, best);
  for (int round = 1; round <= kRounds && !is_late(); ++round) {
    run_round(lines, round);
    for (const Line& line : lines)
      if (!line.has_ended) merge(best, line.now);
  }
  const double bound = finish(best, slack);
  if (best.is_first) return bound;
  // The least sum is one of them.
  const double least = tables_.seconds(first.choice) * (1 - first.model_gap);
  best.model_gap = std::min(gap(best.choice), 1 - least / tables_.seconds(best.choice));
  return bound;
}

}  // namespace cleave::plan
