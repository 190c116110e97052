#include "cleave/plan/schedule_rounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "cleave/core/parallel.h"

namespace cleave::plan {

using analyze::Stream;
using analyze::StreamSchedule;

namespace {

int env(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

}  // namespace

double ScheduleRounds::least_weight() const {
  const double slowdown = schedules_.options().slowdown;
  constexpr double kLeast = 0.1;
  return std::max(kLeast, slowdown / (1 + slowdown));
}

std::vector<ScheduleRounds::Line> ScheduleRounds::first_lines(const ScheduledChoice& first) const {
  std::vector<Line> lines(static_cast<size_t>(env("LINES", 2)));
  for (size_t i = 0; i < lines.size(); ++i) {
    Line& line = lines[i];
    line.now = first;
    line.critical.assign(formulation_.demands.size(), 0.0);
    line.tried = {first.choice};
    if (i == 0) continue;
    line.is_laid = false;
    line.critical = schedules_.closeness(first.choice, first.schedule);
    line.inside = line.across = i == 1 ? least_weight() : 0.5;
  }
  return lines;
}

double ScheduleRounds::next_weight(double weight, const StreamSchedule& laid, Stream stream) const {
  // A stream that is busier than the computation has to become cheaper to choose, and one that is
  // idle half of the time may be used more.
  constexpr double kBusy = 0.9, kMost = 2;
  const double share = laid.busy[static_cast<size_t>(stream)] /
                       std::max(1e-30, laid.busy[static_cast<size_t>(Stream::Compute)]);
  return std::clamp(weight * std::clamp(share / kBusy, 0.5, 2.0), least_weight(), kMost);
}

void ScheduleRounds::solve(Line& line) const {
  constexpr double kEffort = 0.05;  // seconds of two present-day cores
  if (line.is_laid) {
    // Half of what was assumed before keeps the rounds from going back and forth.
    const std::vector<double> found = schedules_.criticality(line.now.choice, line.now.schedule);
    for (size_t d = 0; d < found.size(); ++d) line.critical[d] = (line.critical[d] + found[d]) / 2;
    line.inside = next_weight(line.inside, line.now.schedule, Stream::Inside);
    line.across = next_weight(line.across, line.now.schedule, Stream::Across);
  }
  std::vector<ReshardWeights> by_demand;
  for (double c : line.critical)
    by_demand.push_back({c, 1 - c, line.inside * (1 - c), line.across * (1 - c)});
  const TableWeights weights = tables_.weigh(by_demand);
  PlannerOptions how = options_;
  how.effort = solver::default_effort(kEffort);
  if (options_.effort) how.effort = std::min(how.effort, options_.effort);
  how.threads = 1;
  if (options_.trace) how.trace = [&](const std::string& text) { line.said.push_back(text); };
  LazySolver solver(tables_, how, clock_, line.stats, &weights);
  solver.look_at(times_);
  line.solution = solver.run(options_.memory, tables_.by_class(line.now.choice), line.now.choice);
  line.now.model_gap = line.solution.gap();
  line.now.is_first = false;
}

void ScheduleRounds::run_round(std::vector<Line>& lines, int round) {
  std::vector<Line*> open;
  for (Line& line : lines)
    if (!line.has_ended) open.push_back(&line);
  const int count = static_cast<int>(open.size());
  run_parallel(count, options_.threads, [&](int i) { solve(*open[i]); });
  std::vector<analyze::Work> works;
  for (Line* line : open) {
    if (options_.trace)
      for (const std::string& text : line->said) options_.trace(text);
    line->said.clear();
    stats_.solves += line->stats.solves;
    stats_.solve_seconds += line->stats.solve_seconds / count;
    line->stats = {};
    line->has_ended = !line->solution.feasible || !line->tried.insert(line->now.choice).second;
    works.push_back(line->has_ended ? analyze::Work{} : schedules_.work(line->now.choice));
  }
  run_parallel(count, options_.threads, [&](int i) {
    if (open[i]->has_ended) return;
    open[i]->now.schedule = schedules_.lay_out(works[i]);
    open[i]->is_laid = true;
  });
  for (size_t i = 0; options_.trace && i < lines.size(); ++i)
    if (!lines[i].has_ended)
      options_.trace(fmt::format("round {} of search {}: {}", round, i + 1,
                                 analyze::to_string(lines[i].now.schedule)));
}

bool ScheduleRounds::is_better(const ScheduledChoice& a, const ScheduledChoice& b) const {
  // A choice that may be far from the best one of its own sum is not taken for next to nothing.
  constexpr double kWorth = 0.99;
  const bool is_good = a.model_gap <= std::max(options_.gap, b.model_gap);
  return a.schedule.seconds < b.schedule.seconds * (is_good ? 1 : kWorth);
}

std::vector<ScheduledChoice> ScheduleRounds::lay_out(
    const std::vector<std::vector<int>>& choices) {
  std::vector<ScheduledChoice> laid(choices.size());
  std::vector<analyze::Work> works(choices.size());
  std::vector<bool> fits(choices.size(), true);
  for (size_t i = 0; i < choices.size(); ++i) {
    laid[i].choice = tables_.spread(choices[i]);
    laid[i].is_first = false;
    if (options_.memory) {
      const std::vector<int64_t> memory = tables_.memory(laid[i].choice);
      fits[i] = *std::max_element(memory.begin(), memory.end()) <= *options_.memory;
    }
    if (fits[i]) works[i] = schedules_.work(laid[i].choice);
  }
  run_parallel(static_cast<int>(laid.size()), options_.threads, [&](int i) {
    if (fits[i]) laid[i].schedule = schedules_.lay_out(works[i]);
  });
  for (size_t i = 0; i < laid.size(); ++i)
    if (!fits[i]) laid[i].schedule.seconds = std::numeric_limits<double>::infinity();
  return laid;
}

void ScheduleRounds::merge(ScheduledChoice& best, const ScheduledChoice& other) {
  const size_t most = env("PARTS", 6);
  const bool is_other = is_better(other, best);
  const ScheduledChoice& base = is_other ? other : best;
  const std::vector<int> from = tables_.by_class(is_other ? best.choice : other.choice);
  const std::vector<int> own = tables_.by_class(base.choice);
  std::vector<std::vector<int>> parts = tables_.differences(own, from);
  if (options_.trace) {
    std::string sizes;
    for (auto& p : parts) sizes += fmt::format(" {}", p.size());
    options_.trace(fmt::format("merge: parts{}", sizes));
  }
  if (parts.size() > most) parts.resize(most);
  ScheduledChoice merged = base;
  if (parts.size() > 1) {
    std::vector<std::vector<int>> choices(parts.size(), own);
    for (size_t p = 0; p < parts.size(); ++p)
      for (int c : parts[p]) choices[p][c] = from[c];
    const std::vector<ScheduledChoice> laid = lay_out(choices);
    std::vector<int> all = own;
    int count = 0;
    for (size_t p = 0; p < parts.size(); ++p) {
      if (laid[p].schedule.seconds >= base.schedule.seconds) continue;
      for (int c : parts[p]) all[c] = from[c];
      ++count;
      if (laid[p].schedule.seconds < merged.schedule.seconds) merged = laid[p];
    }
    if (count > 1)
      if (const std::vector<ScheduledChoice> whole = lay_out({all});
          whole[0].schedule.seconds < merged.schedule.seconds)
        merged = whole[0];
    merged.model_gap = base.model_gap;
    if (options_.trace && merged.schedule.seconds < base.schedule.seconds)
      options_.trace(fmt::format("merged {} of {} parts: {}", count, parts.size(),
                                 analyze::to_string(merged.schedule)));
  }
  best = std::move(merged);
}

void ScheduleRounds::shorten(ScheduledChoice& best, const std::vector<int>& times) {
  times_ = times;
  const int rounds = env("ROUNDS", 3);
  if (options_.trace)
    options_.trace(fmt::format("the least sum takes {}", analyze::to_string(best.schedule)));
  std::vector<Line> lines = first_lines(best);
  for (int round = 1; round <= rounds && !is_late(); ++round) {
    run_round(lines, round);
    for (Line& line : lines)
      if (!line.has_ended) merge(best, line.now);
    for (Line& line : lines)
      if (best.schedule.seconds * 1.01 * env("ASTRAY", 1) < line.now.schedule.seconds) line.now = best;
  }
}

}  // namespace cleave::plan
