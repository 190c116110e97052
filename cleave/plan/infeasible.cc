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
  std::vector<Pin> needed = options.pins;
  for (size_t i = 0; i < needed.size();) {
    std::vector<Pin> fewer = needed;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    if (has_plan(graph, options, why.limit, fewer))
      ++i;
    else
      needed = std::move(fewer);
  }
  for (const Pin& pin : needed) why.conflict.push_back(pin.text);
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
    text += fmt::format("  the pin {} does not fit; without it there is a plan\n", conflict[0]);
  } else if (!conflict.empty()) {
    text += "  these pins do not fit together; without any one of them there is a plan:\n";
    for (const std::string& pin : conflict) text += "    " + pin + "\n";
  }
  return text;
}

}  // namespace cleave::plan
