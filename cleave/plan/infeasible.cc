#include "cleave/plan/infeasible.h"

#include <fmt/format.h>

#include "cleave/core/error.h"

namespace cleave::plan {
namespace {

std::string bytes_text(int64_t bytes) {
  if (bytes < 1 << 20) return fmt::format("{} bytes", bytes);
  if (bytes < 1 << 30) return fmt::format("{:.2f} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

bool has_plan(const Graph& graph, PlannerOptions options, int64_t limit,
              const std::vector<Pin>& pins) {
  options.memory = limit;
  options.pins = pins;
  options.trace = {};
  return make_plan(graph, options).plan.has_value();
}

// How often a set of pins is tried for being a smaller conflict than the one that was found.
constexpr int kMostTries = 60;

// Pins that the limit does not allow together. Leaving them out one by one gives a set of which
// none can be spared; then smaller sets are tried, of one pin, of two, and so on.
std::vector<Pin> smallest_conflict(const Graph& graph, const PlannerOptions& options,
                                   int64_t limit) {
  std::vector<Pin> needed = options.pins;
  for (size_t i = 0; i < needed.size();) {
    std::vector<Pin> fewer = needed;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    if (has_plan(graph, options, limit, fewer))
      ++i;
    else
      needed = std::move(fewer);
  }
  int tries = 0;
  for (size_t count = 1; count < needed.size(); ++count) {
    std::vector<size_t> chosen(count);
    for (size_t i = 0; i < count; ++i) chosen[i] = i;
    while (true) {
      if (++tries > kMostTries) return needed;
      std::vector<Pin> some;
      for (size_t i : chosen) some.push_back(options.pins[i]);
      if (!has_plan(graph, options, limit, some)) return some;
      size_t last = count;
      while (last > 0 && chosen[last - 1] == options.pins.size() - count + last - 1) --last;
      if (last == 0) break;
      ++chosen[last - 1];
      for (size_t i = last; i < count; ++i) chosen[i] = chosen[i - 1] + 1;
    }
  }
  return needed;
}

}  // namespace

Infeasibility explain_infeasible(const Graph& graph, const PlannerOptions& options) {
  internal_check(options.memory.has_value(), "nothing is infeasible without a limit");
  Infeasibility why;
  why.limit = *options.memory;
  PlannerResult result = make_plan(graph, options);
  why.least = result.least_memory;
  why.least_at = result.least_memory_at;

  // The smallest limit: up by steps that grow, then down by halves.
  int64_t low = std::max(why.least, why.limit), high = low;
  double factor = 1.01;
  while (!has_plan(graph, options, high, options.pins) && factor < 100) {
    low = high;
    high = static_cast<int64_t>(static_cast<double>(std::max(why.least, why.limit)) * factor);
    factor *= factor;
  }
  if (factor < 100) {
    while (high > low && static_cast<double>(high - low) > 0.02 * static_cast<double>(high)) {
      const int64_t middle = low + (high - low) / 2;
      (has_plan(graph, options, middle, options.pins) ? high : low) = middle;
    }
    why.enough = high;
  }

  if (options.pins.empty() || !has_plan(graph, options, why.limit, {})) return why;
  for (const Pin& pin : smallest_conflict(graph, options, why.limit))
    why.conflict.push_back(pin.text);
  return why;
}

std::string Infeasibility::text() const {
  std::string text = fmt::format("no plan fits {}\n", bytes_text(limit));
  if (least > limit)
    text +=
        fmt::format("  proof: every plan holds at least {} at {}\n", bytes_text(least), least_at);
  else
    text += fmt::format("  every plan holds at least {} at {}\n", bytes_text(least), least_at);
  if (enough) text += fmt::format("  {} is enough\n", bytes_text(*enough));
  if (conflict.size() == 1) {
    text += fmt::format("  the pin {} does not fit, even alone; without pins there is a plan\n",
                        conflict[0]);
  } else if (!conflict.empty()) {
    text += "  these pins do not fit together, though any of them fit without one:\n";
    for (const std::string& pin : conflict) text += "    " + pin + "\n";
  }
  return text;
}

}  // namespace cleave::plan
