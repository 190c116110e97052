#include "cleave/plan/infeasible.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "cleave/core/error.h"
#include "cleave/core/shard_layout.h"
#include "cleave/core/units.h"
#include "cleave/plan/annotations.h"

namespace cleave::plan {
namespace {

// A pin of the caller or an annotation of the module.
struct Constraint {
  std::string text;
  std::string bytes;  // in words
  int pin = -1;       // among the pins; -1: an annotation
  std::string annotation;
};
using Constraints = std::vector<Constraint>;

std::string holds(int64_t bytes, size_t values, bool open) {
  const std::string on = values == 1 ? "on each device" : fmt::format("of {} values", values);
  return fmt::format("{}{} {}", open ? "at most " : "", bytes_text(bytes, BytesStyle::Limit), on);
}

int64_t shard_bytes(const ShardingSpec& spec, const Type& type) {
  return num_elements(local_shape(spec, type.shape)) * byte_size(type.dtype);
}

bool is_open(const ShardingSpec& spec) {
  return std::any_of(spec.dims.begin(), spec.dims.end(),
                     [](const DimSpec& dim) { return dim.open; });
}

Constraint constraint_of(const Pin& pin, int index, const Graph& flat, const Names& names,
                         const MeshPtr& mesh) {
  int64_t bytes = 0;
  size_t count = 0;
  bool open = false;
  for (uint32_t v = 0; v < names.values.size(); ++v) {
    const Type& type = flat.type({v});
    if (!type.is_tensor() || type.unranked || !type.has_static_shape()) continue;
    if (!applies(pin, names.values[v], type.rank())) continue;
    const ShardingSpec spec = spec_for(pin, mesh, type.rank());
    bytes += shard_bytes(spec, type);
    open = open || is_open(spec);
    ++count;
  }
  return {"pin " + pin.text, holds(bytes, count, open), index, {}};
}

class Planning {
 public:
  Planning(const Graph& graph, const PlannerOptions& options) : graph_(graph), options_(options) {
    const Graph flat = flatten(graph, options.entry);
    const Names names = name_everything(flat, options.entry);
    for (const Annotation& a : annotations_of(flat, names, options.entry, *options.mesh))
      all_.push_back({a.text, holds(shard_bytes(a.spec, a.type), 1, is_open(a.spec)), -1, a.name});
    for (size_t i = 0; i < options.pins.size(); ++i)
      all_.push_back(
          constraint_of(options.pins[i], static_cast<int>(i), flat, names, options.mesh));
    options_.trace = {};
    // Whether there is a plan is the question, not which.
    options_.gap = 1;
    options_.time_limit = std::min(options.time_limit, kLongestTry);
  }

  const Constraints& all() const { return all_; }

  bool has_plan(int64_t limit, const Constraints& constraints) const {
    PlannerOptions now = options_;
    now.memory = limit;
    now.pins.clear();
    for (const Constraint& c : all_) {
      const bool kept = std::any_of(constraints.begin(), constraints.end(), [&](const auto& k) {
        return k.pin == c.pin && k.annotation == c.annotation;
      });
      if (c.pin < 0 && !kept) now.ignored.push_back(c.annotation);
      if (c.pin >= 0 && kept) now.pins.push_back(options_.pins[c.pin]);
    }
    return make_plan(graph_, now).plan.has_value();
  }

  // A smallest conflict, or if there are too many to try, one of which none can be spared.
  Constraints conflict(int64_t limit) const {
    const Constraints needed = minimal({}, all_, false, limit);
    int tries = 0;
    for (size_t count = 1; count < needed.size(); ++count) {
      std::vector<size_t> chosen(count);
      for (size_t i = 0; i < count; ++i) chosen[i] = i;
      while (true) {
        if (++tries > kMostTries) return needed;
        Constraints some;
        for (size_t i : chosen) some.push_back(all_[i]);
        if (!has_plan(limit, some)) return some;
        size_t last = count;
        while (last > 0 && chosen[last - 1] == all_.size() - count + last - 1) --last;
        if (last == 0) break;
        ++chosen[last - 1];
        for (size_t i = last; i < count; ++i) chosen[i] = chosen[i - 1] + 1;
      }
    }
    return needed;
  }

 private:
  static constexpr int kMostTries = 60;
  static constexpr double kLongestTry = 2;  // seconds

  // Of `list`, those without which `given` fits; none of them can be spared. Halves that are not
  // needed go at once.
  Constraints minimal(const Constraints& given, const Constraints& list, bool given_grew,
                      int64_t limit) const {
    if (given_grew && !has_plan(limit, given)) return {};
    if (list.size() <= 1) return list;
    const auto middle = list.begin() + static_cast<ptrdiff_t>(list.size() / 2);
    const Constraints first(list.begin(), middle), second(middle, list.end());
    const Constraints from_second = minimal(joined(given, first), second, true, limit);
    const Constraints from_first =
        minimal(joined(given, from_second), first, !from_second.empty(), limit);
    return joined(from_first, from_second);
  }

  static Constraints joined(Constraints a, const Constraints& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  }

  const Graph& graph_;
  PlannerOptions options_;
  Constraints all_;
};

}  // namespace

Infeasibility explain_infeasible(const Graph& graph, const PlannerOptions& options) {
  internal_check(options.memory.has_value(), "nothing is infeasible without a limit");
  Infeasibility why;
  why.limit = *options.memory;
  why.share = options.memory_share;
  PlannerResult result = make_plan(graph, options);
  why.least = result.least_memory;
  why.least_at = result.least_memory_at;
  const Planning planning(graph, options);
  const Constraints& all = planning.all();
  why.has_constraints = !all.empty();

  // The smallest limit: up by steps that grow, then down by halves.
  int64_t low = std::max(why.least, why.limit), high = low;
  double factor = 1.01;
  while (!planning.has_plan(high, all) && factor < 100) {
    low = high;
    high = static_cast<int64_t>(static_cast<double>(std::max(why.least, why.limit)) * factor);
    factor *= factor;
  }
  if (factor < 100) {
    while (high > low && static_cast<double>(high - low) > 0.02 * static_cast<double>(high)) {
      const int64_t middle = low + (high - low) / 2;
      (planning.has_plan(middle, all) ? high : low) = middle;
    }
    why.enough = high;
  }

  if (all.empty() || !planning.has_plan(why.limit, {})) return why;
  for (const Constraint& c : planning.conflict(why.limit)) {
    why.conflict.push_back(c.text);
    why.bytes.push_back(c.bytes);
  }
  return why;
}

std::string Infeasibility::line() const {
  std::string line;
  std::istringstream lines(text());
  for (std::string part; std::getline(lines, part);) {
    part.erase(0, part.find_first_not_of(' '));
    if (!part.empty()) line += (line.empty() ? "" : "; ") + part;
  }
  return line;
}

std::string Infeasibility::text() const {
  std::string text = fmt::format("no plan fits {}\n", limit_text(limit, share, BytesStyle::Limit));
  if (least > limit)
    text += fmt::format("  proof: every plan holds at least {} at {}\n",
                        bytes_text(least, BytesStyle::Limit), least_at);
  else
    text += fmt::format("  every plan holds at least {} at {}\n",
                        bytes_text(least, BytesStyle::Limit), least_at);
  if (enough) {
    auto size = [](double bytes) { return bytes_text(bytes, BytesStyle::Limit); };
    const auto usable = static_cast<double>(*enough);
    text += fmt::format("  {} is enough{}\n", size(usable / share),
                        share < 1 ? ", of which programs can use " + size(usable) : "");
  }
  if (conflict.size() == 1) {
    text += fmt::format(
        "  the {} ({}) does not fit, even alone; without pins and annotations there is a plan\n",
        conflict[0], bytes[0]);
  } else if (!conflict.empty()) {
    text += "  these do not fit together, though any of them fit without one:\n";
    for (size_t i = 0; i < conflict.size(); ++i)
      text += fmt::format("    the {} ({})\n", conflict[i], bytes[i]);
  } else if (has_constraints) {
    text += "  the limit alone is too small: without pins and annotations nothing fits either\n";
  }
  return text;
}

}  // namespace cleave::plan
