#include <algorithm>
#include <limits>

#include "cleave/plan/tables.h"

namespace cleave::plan {

void Tables::list_held() {
  fixed_change_.assign(formulation_.end() + 2, 0);
  for (const FormulatedOp& op : formulation_.ops) {
    fixed_change_[op.position] += op.fixed.bytes;
    fixed_change_[op.position + 1] -= op.fixed.bytes;
  }
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Version& version = formulation_.versions[v];
    const std::vector<int64_t>& bytes = byte_lists_[bytes_of_[v]];
    if (std::any_of(bytes.begin(), bytes.end(), [](int64_t b) { return b != 0; }))
      held_.push_back({bytes.data(), version.decision, version.first, version.last});
  }
  for (size_t d = 0; d < formulation_.demands.size(); ++d) {
    const Demand& demand = formulation_.demands[d];
    const Version& version = formulation_.versions[demand.version];
    if (demand.op < 0 || (version.decision == demand.decision && version.list == demand.list))
      continue;
    copied_.push_back({formulation_.list(version.list).data(),
                       formulation_.list(demand.list).data(), version.decision, demand.decision,
                       static_cast<int>(d)});
  }
}

void Tables::list_by_decision() {
  held_of_.resize(formulation_.decisions.size());
  copied_of_.resize(formulation_.decisions.size());
  for (size_t i = 0; i < held_.size(); ++i)
    held_of_[held_[i].decision].push_back(static_cast<int>(i));
  for (size_t i = 0; i < copied_.size(); ++i) {
    const auto [from, to] = std::pair(copied_[i].from_decision, copied_[i].to_decision);
    copied_of_[from].push_back(static_cast<int>(i));
    if (to != from) copied_of_[to].push_back(static_cast<int>(i));
  }
}

void Tables::hold(const Held& held, const std::vector<int>& choice, int64_t times,
                  std::vector<int64_t>& changes) const {
  const int64_t bytes = times * held.bytes[choice[held.decision]];
  changes[held.first] += bytes;
  changes[held.last + 1] -= bytes;
}

void Tables::hold(const Copied& copied, const std::vector<int>& choice, int64_t times,
                  std::vector<int64_t>& changes) const {
  const SpecId from = copied.from[choice[copied.from_decision]],
               to = copied.to[choice[copied.to_decision]];
  if (from == to) return;
  const Demand& demand = formulation_.demands[copied.demand];
  const int64_t bytes = times * temporary(demand, from, to);
  const int position = formulation_.ops[demand.op].position;
  changes[position] += bytes;
  changes[position + 1] -= bytes;
}

std::vector<int64_t> Tables::memory_changes(const std::vector<int>& choice) const {
  std::vector<int64_t> changes = fixed_change_;
  for (const Held& held : held_) hold(held, choice, 1, changes);
  for (const Copied& copied : copied_) hold(copied, choice, 1, changes);
  return changes;
}

std::vector<int64_t> Tables::memory(const std::vector<int>& choice) const {
  std::vector<int64_t> held = memory_changes(choice);
  for (size_t t = 1; t < held.size(); ++t) held[t] += held[t - 1];
  held.pop_back();
  return held;
}

int64_t Tables::peak_beside(const std::vector<int>& choice, const std::vector<int>& other,
                            std::vector<int64_t> changes) const {
  const auto differs = [&](int d) { return choice[d] != other[d]; };
  const auto replace = [&](const auto& what) {
    hold(what, other, -1, changes);
    hold(what, choice, 1, changes);
  };
  for (int d = 0; d < static_cast<int>(choice.size()); ++d) {
    if (!differs(d)) continue;
    for (int i : held_of_[d]) replace(held_[i]);
    for (int i : copied_of_[d]) {
      const Copied& copied = copied_[i];
      // Once, if both of its ends differ.
      const bool is_first = copied.from_decision == d;
      if (is_first || !differs(copied.from_decision)) replace(copied);
    }
  }
  int64_t held = 0, most = std::numeric_limits<int64_t>::min();
  for (size_t t = 0; t + 1 < changes.size(); ++t) most = std::max(most, held += changes[t]);
  return most;
}

std::vector<int64_t> Tables::least_memory() const {
  std::vector<int64_t> change = fixed_change_;
  for (size_t v = 0; v < formulation_.versions.size(); ++v) {
    const Version& version = formulation_.versions[v];
    const std::vector<int64_t>& all = byte_lists_[bytes_of_[v]];
    const int64_t bytes = *std::min_element(all.begin(), all.end());
    change[version.first] += bytes;
    change[version.last + 1] -= bytes;
  }
  for (size_t t = 1; t < change.size(); ++t) change[t] += change[t - 1];
  change.pop_back();
  return change;
}

}  // namespace cleave::plan
