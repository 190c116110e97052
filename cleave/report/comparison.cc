#include "cleave/report/comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "cleave/core/units.h"
#include "cleave/plan/explain_groups.h"

namespace cleave::report {
namespace {

using plan::CollectiveTotal;

class PlanComparison {
 public:
  PlanComparison(const plan::Plan& before, const plan::Plan& after)
      : before_(before), after_(after) {}

  Json run() {
    figures();
    collectives();
    ops();
    values();
    return {{"before", 0},
            {"after", 1},
            {"rows", std::move(rows_)},
            {"totals", std::move(totals_)},
            {"why", reasons()}};
  }

 private:
  static Json row(const char* what, const std::string& name, const std::string& before,
                  const std::string& after, Json seconds) {
    return {{"what", what},
            {"name", name},
            {"before", before},
            {"after", after},
            {"seconds", std::move(seconds)}};
  }

  void figures() {
    auto time = [&](const char* name, double was, double is) {
      totals_.push_back(
          row("step", name, seconds_text(was, 3), seconds_text(is, 3), rounded(is - was)));
    };
    auto text = [&](const char* what, const char* name, const std::string& was,
                    const std::string& is) {
      totals_.push_back(row(what, name, was, is, nullptr));
    };
    const plan::PlanTotals &was = before_.totals, &is = after_.totals;
    time("step", was.step_seconds, is.step_seconds);
    time("compute", was.compute_seconds, is.compute_seconds);
    time("communication", was.communication_seconds, is.communication_seconds);
    time("exposed", was.exposed_seconds, is.exposed_seconds);
    time("without overlap", was.seconds, is.seconds);
    text("memory", "memory of a device", size(before_.memory.peak), size(after_.memory.peak));
    text("memory", "limit", limit(before_), limit(after_));
    text("bytes", "received by a device", bytes_text(was.received_bytes()),
         bytes_text(is.received_bytes()));
    text("bound", "bound", bound(before_), bound(after_));
    text("mesh", "mesh", to_string(*before_.mesh), to_string(*after_.mesh));
    text("machine", "machine", before_.machine, after_.machine);
    text("solver", "solver", before_.bound.solver, after_.bound.solver);
  }

  static std::string size(int64_t bytes) { return bytes_text(static_cast<double>(bytes)); }
  static std::string limit(const plan::Plan& plan) {
    if (!plan.memory.limit) return "none";
    return plan::limit_text(*plan.memory.limit, plan.memory.share, BytesStyle::Log);
  }
  static std::string bound(const plan::Plan& plan) {
    return plan.bound.exists ? seconds_text(plan.bound.step_bound, 3) : "not known";
  }

  // Of one kind along the same axes.
  struct Pair {
    CollectiveTotal was, is;
    double delta() const { return is.seconds - was.seconds; }
  };
  void collectives() {
    std::map<std::string, Pair> pairs;
    for (const CollectiveTotal& sum : before_.totals.collectives)
      pairs[sum.kind + " " + sum.axes].was = sum;
    for (const CollectiveTotal& sum : after_.totals.collectives)
      pairs[sum.kind + " " + sum.axes].is = sum;
    auto said = [](const CollectiveTotal& sum) {
      if (sum.count == 0) return std::string("none");
      return fmt::format("x{:.0f}, {}, {}", sum.count, seconds_text(sum.seconds),
                         bytes_text(sum.bytes));
    };
    for (const auto& [name, pair] : pairs) {
      if (pair.was.count == pair.is.count && pair.was.bytes == pair.is.bytes) continue;
      rows_.push_back(
          row("collective", name, said(pair.was), said(pair.is), rounded(pair.delta())));
      changed_.emplace_back(name, pair);
    }
    std::stable_sort(changed_.begin(), changed_.end(), [](const auto& a, const auto& b) {
      return std::abs(a.second.delta()) > std::abs(b.second.delta());
    });
  }

  void ops() {
    std::unordered_map<std::string_view, const plan::PlannedOp*> known;
    for (const plan::PlannedOp& op : before_.ops) known.emplace(op.name, &op);
    for (const plan::PlannedOp& op : after_.ops) {
      const auto found = known.find(op.name);
      if (found == known.end()) {
        rows_.push_back(
            row("op", op.name, "none", layouts_text(op), rounded(op.seconds * op.times)));
        continue;
      }
      const plan::PlannedOp& was = *found->second;
      known.erase(found);
      const std::string then = layouts_text(was), now = layouts_text(op);
      if (then == now) continue;
      ++ops_changed_;
      rows_.push_back(
          row("op", op.name, then, now, rounded(op.seconds * op.times - was.seconds * was.times)));
    }
    for (const plan::PlannedOp& op : before_.ops)
      if (known.contains(op.name))
        rows_.push_back(
            row("op", op.name, layouts_text(op), "none", rounded(-op.seconds * op.times)));
  }

  void values() {
    auto text = [](const ShardingSpec& spec) { return spec.mesh ? to_string(spec) : "-"; };
    std::unordered_map<std::string_view, const ShardingSpec*> known;
    for (const plan::PlannedValue& value : before_.values) known.emplace(value.name, &value.spec);
    for (const plan::PlannedValue& value : after_.values) {
      const auto found = known.find(value.name);
      if (found == known.end() || text(*found->second) == text(value.spec)) continue;
      ++values_changed_;
      rows_.push_back(row("value", value.name, text(*found->second), text(value.spec), nullptr));
    }
  }

  Json reasons() const {
    std::vector<std::string> why;
    const plan::PlanTotals &was = before_.totals, &is = after_.totals;
    const double step = is.step_seconds - was.step_seconds;
    if (was.step_seconds > 0)
      why.push_back(step == 0
                        ? "A step takes as long as before."
                        : fmt::format("A step takes {} {}, {:+.1f}%.", seconds_text(std::abs(step)),
                                      step < 0 ? "less" : "more", 100 * step / was.step_seconds));
    if (before_.fingerprint != after_.fingerprint)
      why.push_back("The plans are of different modules: ops and values of one name are compared.");
    if (limit(before_) != limit(after_))
      why.push_back(
          fmt::format("A device may hold {} instead of {}.", limit(after_), limit(before_)));
    if (before_.mesh->axes != after_.mesh->axes)
      why.push_back(fmt::format("The mesh is {} instead of {}.", to_string(*after_.mesh),
                                to_string(*before_.mesh)));
    if (before_.machine != after_.machine)
      why.push_back(
          fmt::format("The times are those of {} instead of {}.", after_.machine, before_.machine));
    part("Computation", is.compute_seconds - was.compute_seconds, why);
    part("Communication that nothing hides", is.exposed_seconds - was.exposed_seconds, why);
    constexpr size_t kMost = 4;
    for (size_t i = 0; i < changed_.size() && i < kMost; ++i) {
      const auto& [name, pair] = changed_[i];
      why.push_back(fmt::format("{}: {:.0f} a step instead of {:.0f}, {} {}.", name, pair.is.count,
                                pair.was.count, seconds_text(std::abs(pair.delta())),
                                pair.delta() < 0 ? "less" : "more"));
    }
    if (ops_changed_ + values_changed_ > 0)
      why.push_back(fmt::format("{} ops run in other layouts, and {} values lie otherwise.",
                                ops_changed_, values_changed_));
    return why;
  }

  static void part(const char* what, double delta, std::vector<std::string>& why) {
    if (delta == 0) return;
    why.push_back(fmt::format("{} takes {} {}.", what, seconds_text(std::abs(delta)),
                              delta < 0 ? "less" : "more"));
  }

  const plan::Plan &before_, &after_;
  Json rows_ = Json::array(), totals_ = Json::array();
  std::vector<std::pair<std::string, Pair>> changed_;
  size_t ops_changed_ = 0, values_changed_ = 0;
};

}  // namespace

Json comparison(const plan::Plan& before, const plan::Plan& after) {
  return PlanComparison(before, after).run();
}

}  // namespace cleave::report
